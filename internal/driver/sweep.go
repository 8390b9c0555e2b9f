package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// defaultGrace is that of engines whose slot is no longer configured.
const defaultGrace = 10 * time.Second

// Sweep takes stock of what earlier gateways of this data directory left running. An engine whose slot would be started the
// same way today is adopted, at most one per device of an exclusive node; every other one is stopped, and has ended when Sweep returns.
// What cannot be ended is logged: its locks keep other engines out. Sweep is called once, before anything is started. The
// engines are returned by the names of their slots; they have yet to be asked whether they are ready.
func (d *Drivers) Sweep(ctx context.Context, c *hearth.Catalog) (map[string]slot.Engine, error) {
	if d.o.Dir == "" {
		return nil, nil
	}
	all, err := scan()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	names, err := d.known(all)
	if err != nil {
		return nil, err
	}
	conf := make(map[string]*hearth.Slot, len(c.Slots))
	for _, s := range c.Slots {
		conf[s.Name] = s
	}
	adopted := d.choose(conf, names, all)
	var others sync.WaitGroup
	for name := range names {
		if _, ok := adopted[name]; ok {
			continue
		}
		others.Go(func() { d.end(ctx, name, conf[name]) })
	}
	others.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stop the engines of an earlier gateway: %w", err)
	}
	engines := make(map[string]slot.Engine, len(adopted))
	for name, r := range adopted {
		d.o.Log.Info("engine of an earlier gateway is adopted", "slot", name, "pid", r.PID)
		engines[name] = d.adopt(conf[name], r)
	}
	d.find(ctx, c, engines)
	return engines, nil
}

// known are the names of all slots that something is known of: a process, a record or a lock.
func (d *Drivers) known(all []proc) (map[string]bool, error) {
	names := make(map[string]bool)
	for _, p := range all {
		if name, ok := strings.CutPrefix(p.tag, d.id+"/"); ok {
			names[name] = true
		}
	}
	files, err := os.ReadDir(d.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list the slots of earlier gateways: %w", err)
	}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		if ext != ".json" && ext != ".lock" || f.IsDir() {
			continue
		}
		if name, err := url.PathUnescape(strings.TrimSuffix(f.Name(), ext)); err == nil {
			names[name] = true
		}
	}
	return names, nil
}

// choose picks the records whose processes are adopted: of those that may share no device, the one that was started last.
func (d *Drivers) choose(conf map[string]*hearth.Slot, names map[string]bool, all []proc) map[string]record {
	var fit []record
	for name := range names {
		if r, ok := d.load(name); ok && conf[name] != nil && d.unchanged(conf[name], r, all) {
			fit = append(fit, r)
		}
	}
	slices.SortFunc(fit, func(a, b record) int { return cmp.Or(cmp.Compare(b.Begun, a.Begun), cmp.Compare(a.Slot, b.Slot)) })
	adopted := make(map[string]record)
	taken := make(map[string]bool) // devices
	for _, r := range fit {
		alone := conf[r.Slot].Alone()
		if slices.ContainsFunc(alone, func(device string) bool { return taken[device] }) {
			continue
		}
		for _, device := range alone {
			taken[device] = true
		}
		adopted[r.Slot] = r
	}
	return adopted
}

// unchanged says whether a record's process runs, is the slot's, and is what would be started for the slot today.
func (d *Drivers) unchanged(s *hearth.Slot, r record, all []proc) bool {
	if s.Driver != Exec || s.Node.Remote != nil || r.Line != line(s) || r.Boot == "" || r.Boot != bootID() {
		return false
	}
	if s.Port != 0 && s.Port != r.Port || s.Port == 0 && !d.ports.within(r.Port) {
		return false
	}
	return slices.ContainsFunc(all, func(p proc) bool { return p.same(r.leader()) && p.tag == d.tag(s.Name) })
}

// adopt makes the engine of a process that an earlier gateway started.
func (d *Drivers) adopt(s *hearth.Slot, r record) *process {
	d.ports.hold(r.Port)
	p := d.process(s)
	p.now = r
	p.output.from, p.output.mark = r.Log, r.Log
	go p.supervise()
	return p
}

// end stops what is left of a slot. conf is nil if there is no such slot any more.
func (d *Drivers) end(ctx context.Context, name string, conf *hearth.Slot) {
	e := ending{d: d, name: name, grace: defaultGrace, force: d.killWait}
	if conf != nil {
		e.grace = conf.StopGrace
	}
	if r, ok := d.load(name); ok && r.Boot != "" && r.Boot == bootID() {
		e.leader = r.leader()
	}
	if left, held, err := e.left(nil); err == nil && held {
		d.o.Log.Info("engine of an earlier gateway is stopped", "slot", name, "processes", len(left))
	}
	if err := errors.Join(e.run(ctx), d.forget(name)); err != nil {
		d.o.Log.Error("engine of an earlier gateway is left", "slot", name, "error", err)
	}
}
