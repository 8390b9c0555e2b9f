package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// trustFor is how long an engine that loads is asked without looking again whose port it is.
const trustFor = time.Second

// owner is who listens on an engine's port.
type owner uint8

const (
	nobody owner = iota
	ours
	stranger
	unknown // it cannot be seen
)

// owner finds out who would get a request that is sent to the engine's port. The process that was started is looked at
// first: it is nearly always the one, and to list all processes takes longer.
func (p *process) owner(r record) owner {
	if refuses(r.Port) { // to ask that costs next to nothing while an engine loads
		return nobody
	}
	sockets, err := listeners(r.Port)
	if err != nil {
		return unknown
	}
	who, sockets := whose(sockets, []proc{r.leader()}, without)
	if who == ours || who == nobody {
		return who
	}
	all, err := scan()
	if err != nil {
		return unknown
	}
	rest, _ := whose(sockets, members(all, p.d.tag(p.conf.Name), r.leader(), syscall.Getpgrp(), nil), without)
	return rest
}

// refuses says whether surely nobody listens on the port.
func refuses(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dialTimeout)
	if err == nil {
		_ = c.Close() // nothing was sent
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// whose says whether all of the listening sockets are the processes', and which are not. without removes from sockets
// those that a process has open, or fails if that cannot be seen.
func whose(sockets []string, of []proc, without func([]string, int) ([]string, error)) (owner, []string) {
	if len(sockets) == 0 {
		return nobody, nil
	}
	hidden := false
	for _, p := range of {
		var err error
		sockets, err = without(sockets, p.pid)
		hidden = hidden || err != nil && !errors.Is(err, fs.ErrNotExist) // else it has ended meanwhile
	}
	switch {
	case len(sockets) == 0:
		return ours, nil
	case hidden:
		return unknown, sockets
	}
	return stranger, sockets
}

// Probe asks the engine only if it is this start's own process that would answer. It takes every failure of the network as
// "not yet": the end of the process is seen without asking.
func (p *process) Probe(ctx context.Context) (slot.Report, error) {
	p.output.trim()
	_, r := p.present()
	known := p.trusts(r)
	if !known {
		if why := p.doubt(ctx, p.owner(r), r); why != "" {
			return p.unowned(why)
		}
		p.trust(r)
	}
	report, err := p.look.look(ctx, r.url(), hearth.Secret(r.Key))
	if err != nil && (unreachable(err) || noAnswer(ctx, err)) {
		return slot.Report{}, nil
	}
	if known && report.Ready { // prompts come next: once more
		if why := p.doubt(ctx, p.owner(r), r); why != "" {
			return p.unowned(why)
		}
	}
	if report.Ready && !p.isReady(r) {
		return slot.Report{}, nil
	}
	return report, err
}

// doubt is why nothing may be sent to an engine with whose port it stands so, "" if there is no reason.
func (p *process) doubt(ctx context.Context, whose owner, r record) string {
	switch {
	case whose == ours:
		return ""
	case whose == nobody:
		return "it does not listen on its port"
	case whose == stranger:
		return fmt.Sprintf("its port %d belongs to a process that the slot has not started", r.Port)
	case r.Key == "":
		return "it cannot be seen who listens on its port: hand the engine ${api_key}"
	case !p.look.probe.guarded(ctx, r.url()):
		return "it cannot be seen who listens on its port, and that one takes any API key"
	}
	return ""
}

// trusts says whether the port was seen to be the process's a moment ago, which is enough to ask an engine that loads.
func (p *process) trusts(r record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ready && p.trusted == r && time.Since(p.seen) < trustFor
}

func (p *process) trust(r record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trusted, p.seen = r, time.Now()
}

// unowned is the report on an engine whose port is not seen to be its own. One that was ready has lost it.
func (p *process) unowned(why string) (slot.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready {
		return slot.Report{}, errors.New(why)
	}
	return slot.Report{Why: why}, nil
}

// isReady takes note that the process of a record is ready. It says no if it is another one by now.
func (p *process) isReady(r record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != r {
		return false
	}
	p.ready = true
	return true
}
