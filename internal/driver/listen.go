package driver

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"myip.co.kr/hearth/internal/slot"
)

// owner is who listens on an engine's port.
type owner uint8

const (
	nobody owner = iota
	ours
	stranger
	unknown // it cannot be seen
)

// owner finds out who would get a request that is sent to the engine's port.
func (p *process) owner(r record) owner {
	sockets, err := listeners(r.Port)
	if err != nil {
		return unknown
	}
	if len(sockets) == 0 {
		return nobody
	}
	if sockets, err = without(sockets, r.PID); len(sockets) == 0 {
		return ours
	}
	hidden := err != nil
	all, err := scan()
	if err != nil {
		return unknown
	}
	for _, q := range members(all, p.d.tag(p.conf.Name), r.leader(), syscall.Getpgrp()) {
		if sockets, err = without(sockets, q.pid); len(sockets) == 0 {
			return ours
		}
		hidden = hidden || err != nil
	}
	if hidden {
		return unknown
	}
	return stranger
}

// Probe asks the engine only if it is this start's own process that would answer. It takes every failure of the network as
// "not yet": the end of the process is seen without asking.
func (p *process) Probe(ctx context.Context) (slot.Report, error) {
	p.output.trim()
	_, r := p.present()
	switch p.owner(r) {
	case nobody:
		return p.unowned("it does not listen on its port yet", "the engine no longer listens on its port")
	case stranger:
		why := fmt.Sprintf("its port %d belongs to a process that the slot has not started", r.Port)
		return p.unowned(why, why)
	case unknown:
		if r.Key == "" {
			const why = "it cannot be seen who listens on its port: hand the engine ${api_key}"
			return p.unowned(why, why)
		}
		if !p.probe.guarded(ctx, r.url()) {
			const why = "it cannot be seen who listens on its port, and it takes any API key"
			return p.unowned(why, why)
		}
	}
	ready, err := p.probe.ask(ctx, r.url(), p.conf.Probe, p.APIKey())
	var refused *refusedError
	if err != nil && !errors.As(err, &refused) {
		return slot.Report{}, nil
	}
	if ready && !p.isReady(r) {
		return slot.Report{}, nil
	}
	return slot.Report{Ready: ready}, err
}

// unowned is the report on an engine whose port is not seen to be its own: a ready one has lost it.
func (p *process) unowned(yet, lost string) (slot.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready {
		return slot.Report{}, errors.New(lost)
	}
	return slot.Report{Why: yet}, nil
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
