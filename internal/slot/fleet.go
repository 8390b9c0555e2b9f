package slot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

// killWait is how long Close waits for killed engines when its context has ended.
const killWait = 2 * time.Second

// Fleet is all nodes with their slots.
type Fleet struct {
	nodes []*node
	at    []address // by Slot.Index
	spare sync.Pool // chan answer, of requests that were answered
}

// address is where a slot lives.
type address struct {
	node *node
	slot int // place in the node
}

// Options are what a fleet needs besides the catalog.
type Options struct {
	// Driver makes the driver of a slot of this machine.
	Driver func(*hearth.Slot) (Driver, error)
	// Log is told of every step of every slot; nil = nobody is.
	Log *slog.Logger
}

// NewFleet makes the nodes of a sealed catalog, all their slots asleep.
func NewFleet(c *hearth.Catalog, o Options) (*Fleet, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	slots := make(map[*hearth.Node][]*hearth.Slot)
	drivers := make(map[*hearth.Node][]Driver)
	f := &Fleet{at: make([]address, len(c.Slots))}
	for i, s := range c.Slots {
		d, err := o.Driver(s)
		if err != nil {
			return nil, fmt.Errorf("make the driver of slot %q: %w", s.Name, err)
		}
		f.at[i].slot = len(slots[s.Node])
		slots[s.Node] = append(slots[s.Node], s)
		drivers[s.Node] = append(drivers[s.Node], d)
	}
	made := make(map[*hearth.Node]*node)
	for i, s := range c.Slots {
		n := made[s.Node]
		if n == nil {
			n = newNode(s.Node, slots[s.Node], drivers[s.Node], o.Log)
			made[s.Node] = n
			f.nodes = append(f.nodes, n)
			go n.loop()
		}
		f.at[i].node = n
	}
	return f, nil
}

// Acquire waits for a place in the slot's engine, starting it if need be. The error is a *Refusal, or ctx's when
// the caller left first; a lease is only ever given to a caller who is still there.
func (f *Fleet) Acquire(ctx context.Context, a Ask) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at := f.at[a.Slot.Index]
	n := at.node
	reply, ok := f.spare.Get().(chan answer)
	if !ok {
		reply = make(chan answer, 1)
	}
	ev := event{kind: evAsked, slot: at.slot, id: n.lastID.Add(1), budget: a.Budget, hasNext: a.HasNext}
	if !n.tell(message{event: ev, reply: reply}) {
		return nil, leaving()
	}
	select {
	case got := <-reply:
		f.spare.Put(reply)
		if got.refusal != nil {
			return nil, got.refusal
		}
		l := &Lease{URL: got.engine.URL(), APIKey: got.engine.APIKey(), Slot: a.Slot, node: n, id: ev.id, slot: at.slot}
		if err := ctx.Err(); err != nil {
			l.Release()
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
		n.tell(message{event: event{kind: evCancelled, slot: at.slot, id: ev.id}})
		return nil, ctx.Err() // the channel is not used again: an answer may be in it
	}
}

// View is what may be known of a slot now.
func (f *Fleet) View(s *hearth.Slot) hearth.SlotView {
	at := f.at[s.Index]
	return at.node.view(at.slot)
}

// Views appends the views of slots to dst, in their order. It takes no lock.
func (f *Fleet) Views(slots []*hearth.Slot, dst []hearth.SlotView) []hearth.SlotView {
	for _, s := range slots {
		dst = append(dst, f.View(s))
	}
	return dst
}

// RefuseWaiters refuses everybody who waits and everybody who asks from now on. Leases and engines stay.
func (f *Fleet) RefuseWaiters() {
	for _, n := range f.nodes {
		n.tell(message{event: event{kind: evRefuse}})
	}
}

// Close stops every engine and returns when all are gone and every goroutine has ended. It does not wait for
// leases: draining is the caller's part. When ctx ends, engines are killed instead of asked, and ctx's error is
// returned if one is still there a moment later.
func (f *Fleet) Close(ctx context.Context) error {
	for _, n := range f.nodes {
		n.tell(message{event: event{kind: evClose}})
	}
	var errs []error
	for _, n := range f.nodes {
		errs = append(errs, n.close(ctx))
	}
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
