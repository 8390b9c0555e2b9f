package slot

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// reload makes a catalog of these slots hold.
func (h *house) reload(names []string, change ...func(*hearth.Slot)) *hearth.Catalog {
	h.t.Helper()
	c := catalogOf(names, change...)
	if err := h.Reload(c); err != nil {
		h.t.Fatal(err)
	}
	return c
}

func TestReload(t *testing.T) {
	bubble(t, "slots are known by name, in any order; old catalogs stay good", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 2 * time.Second})
		h.lease(h.a)
		c := h.reload([]string{"b", "a"})
		if v := h.View(c.Slots[1]); v.State != hearth.SlotReady || v.Inflight != 1 || v.Loads != 1 || v.LoadTime < 2*time.Second {
			t.Errorf("view %+v", v)
		}
		if diff := cmp.Diff(h.Views([]*hearth.Slot{h.b, h.a}, nil), h.Views(c.Slots, nil)); diff != "" {
			t.Errorf("by the old and the new catalog: %s", diff)
		}
		h.given[0].Release()
		l, took := h.lease(h.a) // by the old catalog
		between(t, "the request", took, 0, 0)
		if l.Slot != h.a {
			t.Error("the lease is of another slot")
		}
		h.close()
	})
	bubble(t, "a changed start line restarts the slot when it is idle, and the stream is not cut", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		old := h.gpu.engine()
		c := h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.Command = []string{"new"} })
		pass(time.Hour)
		select {
		case <-old.gone:
			t.Error("the engine was stopped")
		case <-l.Cut:
			t.Error("the stream was cut")
		default:
		}
		l.Release()
		pass(time.Second + pollMax)
		if e := h.gpu.engine(); e == old || h.state(c.Slots[0], hearth.SlotReady).Loads != 2 {
			t.Error("the engine was not started anew")
		}
		h.close()
	})
	bubble(t, "an equal configuration changes nothing", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second}, func(s *hearth.Slot) { s.Env = map[string]hearth.Secret{"A": "1"} })
		h.lease(h.a)
		h.given[0].Release()
		events := h.Watch(t.Context())
		h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.Env = map[string]hearth.Secret{"A": "1"} })
		pass(time.Minute)
		if len(events) != 0 {
			t.Errorf("event %+v", <-events)
		}
		h.close()
	})
	bubble(t, "a slot that is gone drains and refuses; a new one is asleep and serves", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		c := h.reload([]string{"c"})
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		if r.Message != "the slot is not configured any more" {
			t.Errorf("refusal %+v", r)
		}
		if v := h.View(h.a); !v.Drained {
			t.Errorf("view %+v", v)
		}
		if err := h.Order(t.Context(), Order{Verb: Wake, Slot: "a"}); !errors.Is(err, ErrNoSlot) {
			t.Errorf("waking it: %v", err)
		}
		h.state(c.Slots[0], hearth.SlotAsleep)
		waiting := h.ask(t.Context(), c.Slots[0], time.Hour)
		pass(10 * time.Second)
		l.Release()
		o := <-waiting
		h.given = append(h.given, o.lease)
		between(t, "the new slot", o.took, 11*time.Second, 11*time.Second+notice)
		h.close()
	})
	bubble(t, "a start line is remembered while the slot is gone", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		h.reload([]string{"b"})
		c := h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.Dir = "/other" })
		l.Release()
		pass(time.Second)
		if v := h.state(c.Slots[0], hearth.SlotReady); v.Loads != 2 {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
	bubble(t, "an error changes nothing", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		before := h.table.Load()
		h.o.Driver = func(s *hearth.Slot) (Driver, error) {
			if s.Name == "d" {
				return nil, errors.New("no such driver")
			}
			return h.gpu, nil
		}
		if err := h.Reload(catalogOf([]string{"c", "d"})); err == nil {
			t.Error("it is taken")
		}
		elsewhere := catalogOf([]string{"c"})
		elsewhere.Nodes[0].Remote = &hearth.Remote{URL: "https://gpu-2"}
		if err := h.Reload(elsewhere); err == nil {
			t.Error("a node elsewhere is taken")
		}
		if h.table.Load() != before || h.state(h.a, hearth.SlotReady).Drained {
			t.Error("something has changed")
		}
		h.close()
		if err := h.Reload(catalogOf([]string{"a"})); err == nil {
			t.Error("a closed fleet reloads")
		}
	})
	bubble(t, "a node elsewhere that was reached already is closed again if another cannot be", func(t *testing.T) {
		var made []*faraway
		f, err := NewFleet(catalogOf(nil), Options{Remote: func(n *hearth.Node, _ []*hearth.Slot) (Node, error) {
			if n.Name == "far-2" {
				return nil, errors.New("no way")
			}
			made = append(made, &faraway{})
			return made[0], nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := catalogOf([]string{"a", "b"})
		for i, s := range c.Slots {
			s.Node = &hearth.Node{Name: []string{"far-1", "far-2"}[i], Remote: &hearth.Remote{URL: "https://x"}}
		}
		if err := f.Reload(c); err == nil || len(made) != 1 {
			t.Fatalf("%v, %d made", err, len(made))
		}
		if d := cmp.Diff([]string{"close"}, made[0].told); d != "" {
			t.Error(d)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "a new slot is seen as soon as the reload is over", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		names := []string{"a", "b"}
		for i := range 50 {
			names = append(names, fmt.Sprint("c", i))
			c := h.reload(names)
			if v := h.View(c.Slots[len(names)-1]); v.Since.IsZero() || v.Drained {
				t.Fatalf("view %+v", v)
			}
		}
		if v := h.View(&hearth.Slot{Name: "a"}); !v.Drained {
			t.Errorf("a slot without a node is seen as %+v", v)
		}
		h.close()
	})
	bubble(t, "who asks for the new model does not get the engine of the old one", func(t *testing.T) {
		h := newHouse(t, &gpu{}, func(s *hearth.Slot) { s.Concurrency = 2 })
		l, _ := h.lease(h.a)
		c := h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.Concurrency, s.Model = 2, &hearth.Model{ID: "other"} })
		waiting := h.ask(t.Context(), c.Slots[0], time.Hour)
		pass(30 * time.Second)
		l.Release()
		o := <-waiting
		if o.err != nil || o.lease.URL != "http://other" || o.took < 30*time.Second {
			t.Errorf("outcome %+v", o)
		}
		h.given = append(h.given, o.lease)
		h.close()
	})
	bubble(t, "a slot of another model refuses those of the catalog before", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.given[0].Release()
		c := h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.Model = &hearth.Model{ID: "other"} })
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		if r.Message != "the slot runs another model by now" {
			t.Errorf("refusal %+v", r)
		}
		l, _ := h.lease(c.Slots[0])
		if l.URL != "http://other" {
			t.Errorf("URL %s", l.URL)
		}
		h.close()
	})
}

func TestReloadNodes(t *testing.T) {
	other := func(names ...string) *hearth.Catalog {
		c := catalogOf(names)
		c.Nodes[0].Name = "gpu-2"
		return c
	}
	bubble(t, "a node that is gone ends when it is empty, and gives its lock back", func(t *testing.T) {
		l := &locks{}
		h := newHouse(t, &gpu{options: Options{Lock: l.lock}})
		stream, _ := h.lease(h.a)
		n := h.locals["gpu-1"]
		l.mu.Lock()
		l.ours = 0 // one lock for all nodes, but these are two
		l.mu.Unlock()
		if err := h.Reload(other("c")); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if n.ended() {
			t.Error("the node has ended under a stream")
		}
		stream.Release()
		synctest.Wait()
		if !n.ended() {
			t.Error("the node has not ended")
		}
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		if err := h.Reload(other("c", "d")); err != nil || h.locals["gpu-1"] != nil {
			t.Errorf("the node is kept: %v", err)
		}
		h.close()
	})
	bubble(t, "a node that is back before it is empty goes on", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		n := h.locals["gpu-1"]
		if err := h.Reload(other("c")); err != nil {
			t.Fatal(err)
		}
		c := h.reload([]string{"a", "b"})
		h.given[0].Release()
		h.lease(c.Slots[0])
		if h.locals["gpu-1"] != n || h.gpu.starts != 1 {
			t.Error("the node was made anew")
		}
		h.close()
		h.refused(<-h.ask(t.Context(), c.Slots[0], time.Hour), hearth.SkipLoading) // the gateway has ended, the slot is configured
	})
	bubble(t, "a node that is back later begins anew", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.given[0].Release()
		if err := h.Reload(other("c")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c := h.reload([]string{"a", "b"})
		h.lease(c.Slots[0])
		h.close()
	})
	bubble(t, "a slot may move to another node", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		c := other("a")
		l.Release()
		if err := h.Reload(c); err != nil {
			t.Fatal(err)
		}
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		synctest.Wait()
		h.lease(c.Slots[0])
		h.close()
	})
}

// faraway is a node elsewhere that writes down what it is told.
type faraway struct {
	told []string
	emit func(Event)
}

func (n *faraway) tell(what string) { n.told = append(n.told, what) }
func (n *faraway) Acquire(context.Context, Ask) (*Lease, error) {
	return &Lease{URL: "http://far", Remote: true, Returned: func() { n.tell("returned") }}, nil
}
func (n *faraway) View(slot string) hearth.SlotView        { return hearth.SlotView{LastError: "of " + slot} }
func (n *faraway) LogTail(slot string) ([]string, error)   { return []string{slot}, nil }
func (n *faraway) Watch(emit func(Event))                  { n.emit = emit }
func (n *faraway) RefuseWaiters()                          { n.tell("refuse") }
func (n *faraway) Close(context.Context) error             { n.tell("close"); return nil }
func (n *faraway) Reload(_ *hearth.Node, s []*hearth.Slot) { n.tell("reload " + s[0].Name) }
func (n *faraway) Order(_ context.Context, o Order) error  { n.tell(string(o.Verb)); return nil }

func TestRemote(t *testing.T) {
	bubble(t, "a node elsewhere that is not configured any more is closed", func(t *testing.T) {
		c, far := catalogOf([]string{"a", "b"}), &faraway{}
		c.Slots[0].Node = &hearth.Node{Name: "far", Remote: &hearth.Remote{URL: "https://x"}}
		g := &gpu{t: t}
		f, err := NewFleet(c, Options{
			Driver: func(*hearth.Slot) (Driver, error) { return g, nil },
			Remote: func(*hearth.Node, []*hearth.Slot) (Node, error) { return far, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := f.Reload(catalogOf([]string{"b"})); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff([]string{"close"}, far.told); d != "" {
			t.Error(d)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "a node elsewhere is asked for everything, and closed when it is reached by something else", func(t *testing.T) {
		far := func(url string) *hearth.Catalog {
			c := catalogOf([]string{"a"})
			c.Nodes[0].Remote = &hearth.Remote{URL: url}
			return c
		}
		var made []*faraway
		f, err := NewFleet(far("https://x"), Options{Remote: func(*hearth.Node, []*hearth.Slot) (Node, error) {
			made = append(made, &faraway{})
			return made[len(made)-1], nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := far("https://x")
		if err := f.Reload(c); err != nil {
			t.Fatal(err)
		}
		l, err := f.Acquire(t.Context(), Ask{Slot: c.Slots[0]})
		if err != nil || !l.Remote {
			t.Fatalf("%+v, %v", l, err)
		}
		l.Release()
		if err := f.Order(t.Context(), Order{Verb: Pause, Node: "gpu-1"}); err != nil {
			t.Error(err)
		}
		if tail, err := f.LogTail("a"); err != nil || tail[0] != "a" || f.View(c.Slots[0]).LastError != "of a" {
			t.Errorf("tail %q, %v, view %+v", tail, err, f.View(c.Slots[0]))
		}
		events := f.Watch(t.Context())
		made[0].emit(Event{Slot: "a"})
		if e := <-events; e.Slot != "a" {
			t.Errorf("event %+v", e)
		}
		if err := f.Reload(far("https://y")); err != nil {
			t.Fatal(err)
		}
		f.RefuseWaiters()
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		got := [][]string{made[0].told, made[1].told}
		if diff := cmp.Diff([][]string{{"reload a", "returned", "pause", "close"}, {"refuse", "close"}}, got); diff != "" {
			t.Error(diff)
		}
	})
}
