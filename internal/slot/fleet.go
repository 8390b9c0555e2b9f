package slot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

// killWait is how long Close waits for killed engines when its context has ended.
const killWait = 2 * time.Second

// Options are what a fleet needs besides the catalog.
type Options struct {
	// Driver makes the driver of a slot of this machine; it is asked again when the slot's start line changes.
	Driver func(*hearth.Slot) (Driver, error)
	// Lock makes a node this gateway's own, or fails without waiting if it is another's; nil = nobody else is there.
	Lock func(*hearth.Node) (release func(), err error)
	// Adopted are engines of an earlier gateway that still run, by the name of their slot. They are in use once their
	// probe says that they are ready.
	Adopted map[string]Engine
	// Remote makes the nodes that are another machine's; nil = there must be none.
	Remote func(*hearth.Node, []*hearth.Slot) (Node, error)
	// Operator is what operators ordered before a restart. What it says of unknown slots and nodes counts for nothing.
	Operator State
	// Memory is what an earlier gateway has measured.
	Memory Memory
	// Log is told of every step of every slot; nil = nobody is.
	Log *slog.Logger
}

// Fleet is all nodes with their slots.
type Fleet struct {
	o     Options
	hub   hub
	table atomic.Pointer[table]
	spare sync.Pool // chan answer, of requests that were answered

	mu       sync.Mutex // of Reload and Close
	closed   bool
	refusing bool
	locals   map[string]*node // by name, those too that end once they are empty
	remotes  map[string]*remote
}

// remote is a node that is another machine's.
type remote struct {
	Node
	conf *hearth.Node
}

// NewFleet makes the nodes of a sealed catalog, their slots asleep, but for the engines that were found.
func NewFleet(c *hearth.Catalog, o Options) (*Fleet, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{o: o, locals: map[string]*node{}, remotes: map[string]*remote{}}
	for name := range o.Adopted {
		if !slices.ContainsFunc(c.Slots, func(s *hearth.Slot) bool { return s.Name == name && s.Node.Remote == nil }) {
			return nil, fmt.Errorf("adopt the engine of slot %q: %w", name, ErrNoSlot)
		}
	}
	f.table.Store(&table{})
	if err := f.Reload(c); err != nil {
		return nil, err
	}
	f.o.Adopted, f.o.Operator, f.o.Memory = nil, State{}, nil // they hold for what is there from the beginning
	return f, nil
}

// Acquire waits for a place in the slot's engine, starting it if need be. The error is a *Refusal, or ctx's when
// the caller left first; a lease is only ever given to a caller who is still there.
func (f *Fleet) Acquire(ctx context.Context, a Ask) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := f.table.Load()
	at := t.find(a.Slot)
	switch {
	case at == nil:
		return nil, notConfigured()
	case at.local == nil:
		return at.remote.Acquire(ctx, a)
	}
	n := at.local
	reply, ok := f.spare.Get().(chan answer)
	if !ok {
		reply = make(chan answer, 1)
	}
	ev := event{kind: evAsked, slot: at.place, as: a.Slot, id: n.lastID.Add(1), key: a.Key, class: a.Class, brief: a.Brief, budget: a.Budget, hasNext: a.HasNext}
	if len(a.Also) > 0 {
		ev.also = t.places(n, a.Also)
	}
	if !n.tell(message{event: ev, reply: reply}) {
		return nil, n.over()
	}
	select {
	case got := <-reply:
		f.spare.Put(reply)
		if got.refusal != nil {
			return nil, got.refusal
		}
		l := &Lease{
			URL: got.engine.URL(), APIKey: got.engine.APIKey(), Slot: a.Slot, Cut: got.ends.cut.Done(), Gone: got.ends.gone.Done(), Mortal: got.engine.Died() != nil,
			node: n, id: ev.id, slot: got.slot, ends: got.ends,
		}
		if got.slot != at.place {
			l.Slot = t.at(n, got.slot, a.Also)
		}
		if err := ctx.Err(); err != nil {
			l.Release()
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
		n.tell(message{event: event{kind: evCancelled, slot: at.place, id: ev.id}})
		return nil, ctx.Err() // the channel is not used again: an answer may be in it
	}
}

// over is the refusal of a node that has ended.
func (n *node) over() *Refusal {
	if n.removed.Load() {
		return notConfigured()
	}
	return leaving()
}

// View is what may be known now of a slot, of this catalog or an older one. It takes no lock.
func (f *Fleet) View(s *hearth.Slot) hearth.SlotView {
	at := f.table.Load().find(s)
	switch {
	case at == nil:
		return hearth.SlotView{Drained: true, LastError: notConfigured().Message}
	case at.local == nil:
		return at.remote.View(s.Name)
	}
	return at.cell.now()
}

// Views appends the views of slots to dst, in their order. It takes no lock.
func (f *Fleet) Views(slots []*hearth.Slot, dst []hearth.SlotView) []hearth.SlotView {
	for _, s := range slots {
		dst = append(dst, f.View(s))
	}
	return dst
}

// Order carries out an operator's order. It returns once the order is accepted, not when what it begins is over.
func (f *Fleet) Order(ctx context.Context, o Order) error {
	t := f.table.Load()
	var at *address
	switch o.Verb {
	case Pause, Resume:
		if at = t.nodes[o.Node]; at == nil {
			return ErrNoNode
		}
	case Wake, Sleep, Drain, Disable, Enable:
		if at = t.names[o.Slot]; at == nil {
			return ErrNoSlot
		}
	default:
		return ErrNoVerb
	}
	if at.local == nil {
		return at.remote.Order(ctx, o)
	}
	reply := make(chan answer, 1)
	ev := event{kind: evOrder, slot: at.place, id: at.local.lastID.Add(1), order: &o}
	if !at.local.tell(message{event: ev, reply: reply}) {
		return errors.New(at.local.over().Message)
	}
	return (<-reply).err // the loop answers at once
}

// Operator is what operators have ordered of the slots of this machine.
func (f *Fleet) Operator() State {
	var s State
	for _, at := range f.table.Load().list {
		if at.local == nil {
			continue
		}
		v, conf := at.cell.view.Load(), at.cell.conf.Load()
		if v.Disabled {
			s.Disabled = append(s.Disabled, conf.Name)
		}
		if v.Drained {
			s.Drained = append(s.Drained, conf.Name)
		}
		if !v.Paused.IsZero() {
			if s.Paused == nil {
				s.Paused = map[string]time.Time{}
			}
			s.Paused[at.local.name] = v.Paused
		}
	}
	return s
}

// LogTail returns the last lines of a slot's engine, or of the one before if none is there.
func (f *Fleet) LogTail(slot string) ([]string, error) {
	at := f.table.Load().names[slot]
	if at == nil {
		return nil, ErrNoSlot
	}
	if at.local == nil {
		return at.remote.LogTail(slot)
	}
	if eng := at.cell.engine.Load(); eng != nil {
		return (*eng).LogTail(), nil
	}
	if tail := at.cell.tail.Load(); tail != nil {
		return *tail, nil
	}
	return nil, nil
}

// RefuseWaiters refuses everybody who waits and everybody who asks from now on. Leases and engines stay, but leases that
// are not back after the slot's DrainMax are cut.
func (f *Fleet) RefuseWaiters() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusing = true
	for _, n := range f.locals {
		n.tell(message{event: event{kind: evRefuse}})
	}
	for _, n := range f.remotes {
		n.RefuseWaiters()
	}
}

// Close stops every engine, or leaves it to a later gateway if it is ready and its slot says so, and returns when all
// is done and every goroutine has ended. Draining is the caller's part: leases that are still out are cut. When ctx
// ends, engines are killed instead of asked, and ctx's error is returned if one is still there a moment later.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	locals, remotes := slices.Collect(maps.Values(f.locals)), slices.Collect(maps.Values(f.remotes))
	f.mu.Unlock()
	for _, n := range locals {
		n.tell(message{event: event{kind: evClose}})
	}
	var errs []error
	for _, n := range locals {
		errs = append(errs, n.close(ctx))
	}
	for _, n := range remotes {
		errs = append(errs, n.Close(ctx))
	}
	f.hub.close()
	return errors.Join(errs...)
}

func (n *node) close(ctx context.Context) error {
	defer n.kill()
	gone := make(chan struct{})
	go func() {
		<-n.done
		n.runs.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	n.kill()
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case <-gone:
		return nil
	case <-t.C:
		return fmt.Errorf("stop the engines of node %q: %w", n.name, ctx.Err())
	}
}
