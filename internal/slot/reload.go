package slot

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"myip.co.kr/hearth"
)

// table is where the slots of one catalog are. It is never changed.
type table struct {
	slots []*hearth.Slot // by Slot.Index
	list  []address      // likewise
	names map[string]*address
	nodes map[string]*address // any slot's

	leaving []*cell // of this machine, in no catalog any more
}

// address is where a slot is.
type address struct {
	local  *node // nil = the node is remote
	place  int   // in the node
	cell   *cell
	remote Node
	node   string
}

// find returns where a slot of any catalog is, nil = it is not configured any more.
func (t *table) find(s *hearth.Slot) *address {
	if s.Index < len(t.slots) && t.slots[s.Index] == s {
		return &t.list[s.Index]
	}
	if at := t.names[s.Name]; at != nil && s.Node != nil && at.node == s.Node.Name {
		return at
	}
	return nil
}

// places are those of slots that are n's.
func (t *table) places(n *node, slots []*hearth.Slot) []int {
	places := make([]int, 0, len(slots))
	for _, s := range slots {
		if at := t.find(s); at != nil && at.local == n {
			places = append(places, at.place)
		}
	}
	return places
}

// at is the one of slots that is at a place of n.
func (t *table) at(n *node, place int, slots []*hearth.Slot) *hearth.Slot {
	for _, s := range slots {
		if at := t.find(s); at != nil && at.local == n && at.place == place {
			return s
		}
	}
	return nil
}

// Reload makes a newer catalog hold. Slots are known by node and name: what was learned of them, who waits for them and
// what operators ordered stays. A slot whose start line changed is started anew at its next idle moment or turn; what is in
// flight is never cut for it. A slot that is gone is drained, within its DrainMax, and stopped. An error means that
// nothing has changed.
func (f *Fleet) Reload(c *hearth.Catalog) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.refusing {
		return errors.New("reload the slots: the gateway is shutting down")
	}
	p, err := f.plan(c)
	if err != nil {
		return err
	}
	f.apply(c, p)
	return nil
}

// plans is all that a reload needs and that can fail.
type plans struct {
	slots   map[string][]*hearth.Slot // by node
	drivers map[string]Driver         // by slot, of those whose start line changed and of new ones
	remotes map[string]*remote        // new ones
}

func (f *Fleet) plan(c *hearth.Catalog) (p plans, err error) {
	p = plans{map[string][]*hearth.Slot{}, map[string]Driver{}, map[string]*remote{}}
	defer func() {
		if err != nil {
			for _, r := range p.remotes {
				err = errors.Join(err, r.Close(context.Background()))
			}
		}
	}()
	for _, s := range c.Slots {
		p.slots[s.Node.Name] = append(p.slots[s.Node.Name], s)
		if s.Node.Remote != nil || f.starts(s) {
			continue
		}
		if p.drivers[s.Name], err = f.o.Driver(s); err != nil {
			return p, fmt.Errorf("make the driver of slot %q: %w", s.Name, err)
		}
	}
	for _, n := range nodesOf(c) {
		if old := f.remotes[n.Name]; n.Remote == nil || old != nil && reflect.DeepEqual(old.conf.Remote, n.Remote) {
			continue
		}
		if f.o.Remote == nil {
			return p, fmt.Errorf("node %q is another machine's, which cannot be here", n.Name)
		}
		made, err := f.o.Remote(n, p.slots[n.Name])
		if err != nil {
			return p, fmt.Errorf("make the node %q: %w", n.Name, err)
		}
		p.remotes[n.Name] = &remote{made, n}
	}
	return p, nil
}

// nodesOf are the nodes of a catalog that have slots.
func nodesOf(c *hearth.Catalog) (nodes []*hearth.Node) {
	seen := map[string]bool{}
	for _, s := range c.Slots {
		if !seen[s.Node.Name] {
			seen[s.Node.Name] = true
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// starts says whether the driver that is there starts the slot as it is configured now.
func (f *Fleet) starts(s *hearth.Slot) bool {
	if n := f.locals[s.Node.Name]; n != nil {
		for _, cell := range n.plan {
			if conf := cell.conf.Load(); conf.Name == s.Name {
				return !n.removed.Load() && conf.SameStart(s) // a removed node may end before it hears of the reload
			}
		}
	}
	return false
}

func (n *node) ended() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}

// apply makes a planned reload hold.
func (f *Fleet) apply(c *hearth.Catalog, p plans) {
	var gone []*remote
	for name, old := range f.remotes {
		if _, ok := p.slots[name]; !ok || p.remotes[name] != nil {
			gone = append(gone, old)
			delete(f.remotes, name)
		}
	}
	here := map[string]bool{} // nodes of this machine
	for _, n := range nodesOf(c) {
		if n.Remote == nil {
			here[n.Name] = true
			f.applyLocal(n, p)
		} else if made := p.remotes[n.Name]; made != nil {
			made.Watch(f.hub.emit)
			f.remotes[n.Name] = made
		} else {
			f.remotes[n.Name].Reload(n, p.slots[n.Name])
		}
	}
	f.table.Store(f.index(c))
	for name, n := range f.locals {
		switch {
		case here[name]:
		case n.ended():
			delete(f.locals, name)
		default:
			n.remove()
		}
	}
	for _, r := range gone {
		if err := r.Close(context.Background()); err != nil {
			f.o.Log.Warn("a node that is not configured any more is not closed well", "node", r.conf.Name, "error", err)
		}
	}
}

// applyLocal changes or makes a node of this machine.
func (f *Fleet) applyLocal(hn *hearth.Node, p plans) {
	n := f.locals[hn.Name]
	if n != nil && n.change(hn, p) {
		return
	}
	drivers := make([]Driver, 0, len(p.slots[hn.Name]))
	for _, s := range p.slots[hn.Name] {
		drivers = append(drivers, p.drivers[s.Name])
	}
	f.locals[hn.Name] = newNode(hn, p.slots[hn.Name], drivers, &f.o, f.hub.emit)
}

// change tells the node of its newer configuration. It reports false if the node has ended.
func (n *node) change(hn *hearth.Node, p plans) bool {
	m := message{event: event{kind: evReload, change: &change{node: hn}}, reply: make(chan answer, 1)}
	ch := m.change
	ch.slots, ch.restart, m.parts = make([]*hearth.Slot, len(n.plan)), make([]bool, len(n.plan)), make([]part, len(n.plan))
	plan := n.plan
	for i, cell := range plan {
		m.parts[i].cell = cell
	}
	for _, s := range p.slots[hn.Name] {
		i := placeOf(n.plan, s.Name)
		if i < 0 {
			i = len(plan)
			plan = append(plan, &cell{})
			ch.slots, ch.restart, m.parts = append(ch.slots, nil), append(ch.restart, false), append(m.parts, part{cell: plan[i]})
		}
		ch.slots[i], m.parts[i].driver = s, p.drivers[s.Name]
		if i < len(n.plan) {
			ch.restart[i] = !plan[i].conf.Load().SameStart(s)
		}
	}
	for i, s := range ch.slots {
		if s != nil {
			plan[i].conf.Store(s)
		}
	}
	if !n.tell(m) {
		return false
	}
	<-m.reply // by now all views are there
	n.plan = plan
	n.removed.Store(false)
	return true
}

func placeOf(plan []*cell, name string) int {
	for i, c := range plan {
		if c.conf.Load().Name == name {
			return i
		}
	}
	return -1
}

// remove has the node drain and end.
func (n *node) remove() {
	n.removed.Store(true)
	ch := &change{slots: make([]*hearth.Slot, len(n.plan)), restart: make([]bool, len(n.plan))}
	m := message{event: event{kind: evReload, change: ch}, reply: make(chan answer, 1)}
	for _, cell := range n.plan {
		m.parts = append(m.parts, part{cell: cell})
	}
	n.tell(m)
}

// index makes the table of a catalog.
func (f *Fleet) index(c *hearth.Catalog) *table {
	t := &table{slots: c.Slots, list: make([]address, len(c.Slots)), names: map[string]*address{}, nodes: map[string]*address{}}
	for i, s := range c.Slots {
		at := &t.list[i]
		at.node = s.Node.Name
		if s.Node.Remote != nil {
			at.remote = f.remotes[s.Node.Name].Node
		} else {
			at.local = f.locals[s.Node.Name]
			at.place = placeOf(at.local.plan, s.Name)
			at.cell = at.local.plan[at.place]
		}
		t.names[s.Name], t.nodes[s.Node.Name] = at, at
	}
	t.leaving = f.leaving(t)
	return t
}
