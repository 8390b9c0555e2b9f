module myip.co.kr/hearth/test/engine

go 1.26.0

require (
	github.com/ebitengine/purego v0.10.0
	github.com/hybridgroup/yzma v1.26.1
)

require (
	github.com/jupiterrider/ffi v0.7.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
)
