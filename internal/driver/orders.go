package driver

// Names of the drivers whose engines are started and stopped by orders.
const (
	Command = "command"
	HTTP    = "http"
	Docker  = "docker"
)
