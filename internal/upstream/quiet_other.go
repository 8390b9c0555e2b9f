//go:build !unix

package upstream

const askable = false

func silent(uintptr) bool { return false }
