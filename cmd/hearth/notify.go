package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// supervisor is who started the process and is told how it does: systemd, for a service of Type=notify or notify-reload.
// The protocol is that of sd_notify(3).
type supervisor struct {
	socket string // a path, or @ and an abstract name; "" = nobody wants to know
	warn   func(msg string, args ...any)
}

// supervised finds the supervisor. Its address leaves the environment, since engines have nothing to tell there.
func supervised(warn func(msg string, args ...any)) supervisor {
	s := supervisor{os.Getenv("NOTIFY_SOCKET"), warn}
	_ = os.Unsetenv("NOTIFY_SOCKET") // fails for no name that is one
	return s
}

// ready says that the service answers, and what the operator should know of it.
func (s supervisor) ready(status string) { s.tell("READY=1", "STATUS="+status) }

// reloading says that the configuration is read anew; ready ends that.
func (s supervisor) reloading() {
	s.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()))
}

// stopping says that the service ends in order.
func (s supervisor) stopping() { s.tell("STOPPING=1", "STATUS=finishing the requests in flight") }

func (s supervisor) tell(lines ...string) {
	if s.socket == "" {
		return
	}
	if err := s.send(strings.Join(lines, "\n")); err != nil {
		s.warn("the supervisor cannot be told "+lines[0], "err", err)
	}
}

func (s supervisor) send(text string) error {
	c, err := net.Dial("unixgram", s.socket)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil { // one that does not read holds nobody up
		return err
	}
	_, err = c.Write([]byte(text))
	return err
}
