// Package driver starts, probes and stops engines: exec runs a child process, command, http and docker order others to
// start and stop an engine, always only probes an engine that somebody else runs.
//
// What exec starts belongs to the data directory, not to the process that started it: an engine that outlives its
// gateway is found again by what it inherited, and is adopted or stopped by the next one.
package driver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	// Dir holds what is known of the processes of each slot: its record, output and lock. "" = no process can be started.
	Dir string
	// ID tells the processes of this data directory from those of others; "" = the one in Dir, made once.
	ID string
	// Ports are the first and the last port that engines get; zeros = any free port.
	Ports [2]int
	// LockDir holds the locks of the nodes, for all gateways of the machine; "" = Dir/nodes.
	LockDir string
}

// Drivers makes the drivers of slots. It is safe for concurrent use.
type Drivers struct {
	o          Options
	id         string
	ports      *ports
	memoryWait time.Duration // for memory to become free
	killWait   time.Duration // for killed processes to be gone
}

// New prepares the directory, if there is one.
func New(o Options) (*Drivers, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.LockDir == "" {
		o.LockDir = filepath.Join(o.Dir, "nodes")
	}
	d := &Drivers{o: o, id: o.ID, ports: newPorts(o.Ports), memoryWait: memoryWait, killWait: killWait}
	if o.Dir == "" {
		return d, nil
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the slots: %w", err)
	}
	if d.id == "" {
		var err error
		if d.id, err = dirID(o.Dir); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// For makes the driver of a slot. It fails for a slot whose driver is unknown or lacks what it needs.
func (d *Drivers) For(s *hearth.Slot) (slot.Driver, error) {
	switch s.Driver {
	case Exec:
		if len(s.Command) == 0 || s.Command[0] == "" {
			return nil, errors.New("driver exec needs a command")
		}
		return execDriver{d}, nil
	case Always:
		if err := d.needsURL(s); err != nil {
			return nil, err
		}
		return alwaysDriver{}, nil
	case Command, HTTP, Docker:
		o, err := d.ordered(s)
		if err != nil {
			return nil, err
		}
		return o, nil
	}
	return nil, fmt.Errorf("unknown driver %q: there are %s, %s, %s, %s and %s", s.Driver, Exec, Command, HTTP, Docker, Always)
}

// needsURL checks that the slot says where its engine answers.
func (d *Drivers) needsURL(s *hearth.Slot) error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("driver %s needs the http or https URL of the engine", s.Driver)
	}
	return nil
}

// trimURL is a base URL without its final slash.
func trimURL(u string) string { return strings.TrimRight(u, "/") }
