// Package driver starts, probes and stops engines: exec runs a child process, always only probes an engine that
// somebody else runs.
package driver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// Names of the drivers, as the configuration writes them.
const (
	Exec   = "exec"
	Always = "always"
)

// Options are what drivers need besides a slot's own configuration.
type Options struct {
	Log *slog.Logger // nil = slog.Default
}

// New returns the function that makes the driver of a slot. It fails for a slot whose driver is unknown or lacks
// what it needs.
func New(o Options) func(*hearth.Slot) (slot.Driver, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return func(s *hearth.Slot) (slot.Driver, error) {
		switch s.Driver {
		case Exec:
			if len(s.Command) == 0 || s.Command[0] == "" {
				return nil, errors.New("driver exec needs a command")
			}
			return execDriver{o.Log}, nil
		case Always:
			u, err := url.Parse(s.URL)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return nil, errors.New("driver always needs the http or https URL of the engine")
			}
			return alwaysDriver{}, nil
		}
		return nil, fmt.Errorf("unknown driver %q: there are %s and %s", s.Driver, Exec, Always)
	}
}

// trimURL is a base URL without its final slash.
func trimURL(u string) string { return strings.TrimRight(u, "/") }
