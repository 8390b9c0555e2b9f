// Package e2e runs the real program against real processes and sockets: hearth serve, engines as its children,
// providers behind loopback, a caller that reads bytes off the wire.
package e2e
