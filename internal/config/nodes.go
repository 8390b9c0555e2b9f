package config

import (
	"time"

	"myip.co.kr/hearth"
)

// Node is one GPU machine, or one GPU.
type Node struct {
	// Name is the node's name, unique; callers can ask for local-gpu/<name>.
	Name string `yaml:"name" need:"yes" example:"gpu-1"`
	// Exclusive says that the node, or each of its devices, holds one model at a time: a slot starts only after the other one
	// has stopped. false: models live beside each other, as far as the memory of devices allows if that is said. Slots with
	// resident: always live beside one in any case.
	Exclusive bool `yaml:"exclusive" default:"true"`
	// Devices are the node's devices, such as GPUs, if they are to be told apart: a list, or how many there are, which are
	// then 0, 1, …. A slot takes all of them unless it says which. Default: the node is one device, whatever it has.
	Devices []Device `yaml:"devices" example:"[{id: 0, memory: 23GiB}, {id: 1, memory: 23GiB}]"`
	// Available is when engines may run on the node, by the clock of timezone: days, hours or both, with commas between
	// parts; hours may span midnight. Outside of it the slots are skipped, those who wait are passed on, and engines are
	// drained, however long that takes, and stopped. Default: at all times.
	Available string `yaml:"available" example:"\"mon-fri 09:00-19:00, sat+sun\""`
	// Turn is how long the resident model may go on taking new requests while the oldest request for another model
	// waits.
	Turn time.Duration `yaml:"turn" default:"10s" min:"0s" max:"24h"`
	// MinResident is how long a slot stays loaded at least, so that two models in demand do not chase each other.
	MinResident time.Duration `yaml:"min_resident" default:"5s" min:"0s" max:"24h"`
	// URL is where the hearth node of another machine answers, which then owns the slots: https://host:port,
	// http://host:port or unix:///path. The slots here need only what a caller is to know of them.
	URL string `yaml:"url" env:"yes" example:"https://gpu-2.lan:8801"`
	// Token is the secret that node_server of the other machine wants.
	Token hearth.Secret `yaml:"token" env:"filled" example:"${env:GPU_2_TOKEN}"`
	// TokenFile is a file that holds the token, instead of token.
	TokenFile string `yaml:"token_file" env:"yes" example:"/run/secrets/gpu-2"`
	// CA is a file with the certificates (PEM) that may have signed the other machine's. Default: the system's.
	CA string `yaml:"ca" env:"yes" example:"gpu-2.pem"`
	// Insecure says that prompts and the token may cross the network in the clear: http to another machine is refused
	// without it.
	Insecure bool `yaml:"insecure" default:"false"`
	// FreeMemory is a command that prints the free memory of the node's devices in MiB, one number per line; their sum
	// is compared with min_free of a slot. Default: nvidia-smi is asked.
	FreeMemory []string `yaml:"free_memory" env:"yes" example:"[rocm-free-mib]"`
	// Slots are the models the node can run.
	Slots []Slot `yaml:"slots"`
}

// Action is a command, or a request, by which an engine is started or stopped, or asked whether it runs. In its texts
// ${model} is replaced by the engine's name of the model.
type Action struct {
	// Command is the program and its arguments, for the driver command. No shell reads it. Exit code 0 means yes.
	Command []string `yaml:"command" env:"yes" example:"[systemctl, start, gemma]"`
	// Method is the method of the request, for the driver http. Default: POST, and GET for status.
	Method string `yaml:"method" example:"PUT"`
	// URL is the address of the request: a whole one, or a path at the slot's url.
	URL string `yaml:"url" env:"yes" example:"/wake_up"`
	// Headers are sent with the request. The slot's api_key is sent with requests to the slot's url.
	Headers map[string]hearth.Secret `yaml:"headers" env:"filled" example:"{X-Admin-Key: \"${env:TABBY_ADMIN_KEY}\"}"`
	// Body is sent with the request, as JSON unless a header says otherwise.
	Body string `yaml:"body" env:"yes" example:"\"{\\\"name\\\": \\\"${model}\\\"}\""`
	// Status lists the statuses of the answer that mean yes. Default: 200 to 299.
	Status []int `yaml:"status" min:"100" max:"599" example:"[200, 304]"`
	// Match is what must be in the answer as well, as path=value: the path with dots, and numbers for places in a list.
	Match string `yaml:"match" example:"data.0.state=running"`
	// Timeout bounds the command or the request. Default: start_timeout for start, 60s for stop and 10s for status.
	Timeout time.Duration `yaml:"timeout" min:"100ms" max:"24h" example:"30s"`
}

// NodeServer is where hearth node, which owns the slots of this machine for gateways elsewhere, is reached.
type NodeServer struct {
	// Listen is the address, as host:port or unix:///path.
	Listen string `yaml:"listen" default:"127.0.0.1:8801" example:"\":8801\""`
	// Token is the secret that gateways must send.
	Token hearth.Secret `yaml:"token" env:"filled" example:"${env:HEARTH_NODE_TOKEN}"`
	// TokenFile is a file that holds the token, instead of token.
	TokenFile string `yaml:"token_file" env:"yes" example:"/run/secrets/hearth-node"`
	// TLSCert is the file of the certificate (PEM) and of those it was signed with.
	TLSCert string `yaml:"tls_cert" env:"yes" example:"node.pem"`
	// TLSKey is the file of the certificate's key (PEM).
	TLSKey string `yaml:"tls_key" env:"yes" example:"node-key.pem"`
	// Insecure serves other machines without TLS: prompts and the token cross the network in the clear.
	Insecure bool `yaml:"insecure" default:"false"`
}
