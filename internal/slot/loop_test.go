package slot

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// gpu is a Driver whose engines live in memory and in the bubble's time. It holds one engine of an exclusive
// node at a time, and says so when it is given two.
type gpu struct {
	t       *testing.T
	load    time.Duration // from the start of an engine until it is ready
	stops   time.Duration // from the signal until it is gone
	refuses error         // Start fails with it
	dies    time.Duration // the engine exits by itself after it, 0 = never
	blocks  chan struct{} // Start waits for it, whatever its context says
	log     *slog.Logger  // of the fleet, nil = nothing is kept
	options Options       // of the fleet
	facts   hearth.SlotFacts
	clings  bool // Leave fails
	silent  bool // the death of its engines is not noticed, but their end

	mu       sync.Mutex
	resident *memEngine
	starts   int
}

type memEngine struct {
	gpu     *gpu
	model   string
	load    time.Duration
	born    time.Time
	dead    chan struct{}
	gone    chan struct{}
	once    sync.Once
	first   sync.Once // of its death
	probes  atomic.Int64
	deaf    atomic.Bool // Probe waits for ever, whatever its context says
	deafEnd chan struct{}
	says    atomic.Pointer[Report] // what Probe returns once the load is over, nil = ready
	left    atomic.Bool            // it goes on without the fleet
	exit    error

	silent    bool                          // its death is not noticed
	obeys     atomic.Bool                   // Probe waits until its context ends, and says that as an error
	stopFails atomic.Int64                  // how often Stop will fail
	stopsAt   []time.Time                   // when Stop was called
	grace     atomic.Pointer[time.Duration] // of the last Stop
}

func (g *gpu) Start(_ context.Context, s *hearth.Slot) (Engine, error) {
	if g.blocks != nil {
		<-g.blocks
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starts++
	if g.refuses != nil {
		return nil, g.refuses
	}
	if g.resident != nil && s.Node.Exclusive {
		g.t.Errorf("engine of %s is started while that of %s is there", s.Model.ID, g.resident.model)
	}
	e := g.make(s)
	if g.dies > 0 {
		time.AfterFunc(g.dies, func() { e.die(&ExitError{Code: 1}) })
	}
	return e, nil
}

// make makes an engine that runs from now on.
func (g *gpu) make(s *hearth.Slot) *memEngine {
	e := &memEngine{gpu: g, model: s.Model.ID, load: g.load, born: time.Now(), dead: make(chan struct{}), gone: make(chan struct{}), deafEnd: make(chan struct{}), silent: g.silent}
	g.resident = e
	return e
}

// engine is the one that is there now, nil = none.
func (g *gpu) engine() *memEngine {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resident
}

// change changes what the engines that are started from now on are like.
func (g *gpu) change(load, dies time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.load, g.dies = load, dies
}

func (e *memEngine) die(why error) {
	e.drop(why)
	e.once.Do(func() {
		e.gpu.mu.Lock()
		e.gpu.resident = nil
		e.gpu.mu.Unlock()
		close(e.gone)
	})
}

// drop is the death of the engine, of which something is left.
func (e *memEngine) drop(why error) {
	e.first.Do(func() {
		e.exit = why
		close(e.dead)
	})
}

func (e *memEngine) URL() string             { return "http://" + e.model }
func (e *memEngine) APIKey() hearth.Secret   { return "secret-of-" + hearth.Secret(e.model) }
func (e *memEngine) Exited() <-chan struct{} { return e.gone }
func (e *memEngine) ExitError() error        { return e.exit }
func (e *memEngine) LogTail() []string       { return []string{"loading", "out of memory"} }

func (e *memEngine) Died() <-chan struct{} {
	if e.silent {
		return nil
	}
	return e.dead
}

func (e *memEngine) Probe(ctx context.Context) (Report, error) {
	e.probes.Add(1)
	if e.obeys.Load() {
		<-ctx.Done()
		return Report{}, ctx.Err()
	}
	if e.deaf.Load() {
		<-e.deafEnd
	}
	if time.Since(e.born) < e.load {
		return Report{}, nil
	}
	if r := e.says.Load(); r != nil {
		return *r, nil
	}
	return Report{Ready: true, Facts: e.gpu.facts}, nil
}

// Leave lets the engine be the next gateway's: the house finds it gone.
func (e *memEngine) Leave() error {
	if e.gpu.clings {
		return errors.New("cannot let go")
	}
	e.left.Store(true)
	e.gpu.mu.Lock()
	defer e.gpu.mu.Unlock()
	e.gpu.resident = nil
	return nil
}

func (e *memEngine) Stop(ctx context.Context, grace time.Duration) error {
	e.grace.Store(&grace)
	e.stopsAt = append(e.stopsAt, time.Now())
	if e.stopFails.Add(-1) >= 0 {
		return errors.New("it will not go")
	}
	t := time.NewTimer(e.gpu.stops)
	defer t.Stop()
	select {
	case <-e.gone:
	case <-t.C:
	case <-ctx.Done():
	}
	e.die(errors.New("stopped"))
	return nil
}

// house is a fleet with two models on one exclusive node.
type house struct {
	*Fleet
	cat  *hearth.Catalog
	t    *testing.T
	gpu  *gpu
	a, b *hearth.Slot

	given []*Lease // by lease
}

func newHouse(t *testing.T, g *gpu, change ...func(*hearth.Slot)) *house {
	t.Helper()
	c := catalogOf([]string{"a", "b"}, change...)
	g.t = t
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	o := g.options
	o.Driver, o.Log = func(*hearth.Slot) (Driver, error) { return g, nil }, g.log
	f, err := NewFleet(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that failed half-way; else it is closed already
		if err := f.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &house{Fleet: f, cat: c, t: t, gpu: g, a: c.Slots[0], b: c.Slots[1]}
}

// catalogOf is a catalog of one exclusive node with slots of these names.
func catalogOf(names []string, change ...func(*hearth.Slot)) *hearth.Catalog {
	node := &hearth.Node{Name: "gpu-1", Exclusive: true, Turn: 10 * time.Second, MinResident: 5 * time.Second}
	c := &hearth.Catalog{Nodes: []*hearth.Node{node}}
	for i, name := range names {
		s := &hearth.Slot{
			Index: i, Name: name, Node: node, Model: &hearth.Model{ID: "model-" + name}, Concurrency: 1, Queue: 64,
			Wait: 90 * time.Second, QueueWait: 10 * time.Second, ExpectedLoad: 30 * time.Second, StartTimeout: 5 * time.Minute, DrainMax: time.Minute,
		}
		for _, f := range change {
			f(s)
		}
		c.Slots = append(c.Slots, s)
	}
	return c
}

// close ends the house and looks for what is left; the bubble then proves that no goroutine is.
func (h *house) close() {
	h.t.Helper()
	for _, l := range h.given {
		l.Release()
	}
	if err := h.Fleet.Close(context.Background()); err != nil {
		h.t.Errorf("close: %v", err)
	}
	if e := h.gpu.engine(); e != nil {
		h.t.Errorf("the engine of %s is left", e.model)
	}
	for _, n := range h.locals {
		if len(n.replies) != 0 || len(n.state.requests) != 0 {
			h.t.Errorf("%d waiters and %d requests are left", len(n.replies), len(n.state.requests))
		}
	}
}

// outcome is what became of one request, and when.
type outcome struct {
	lease *Lease
	err   error
	took  time.Duration
}

// ask asks in the background.
func (h *house) ask(ctx context.Context, s *hearth.Slot, budget time.Duration) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		begin := time.Now()
		l, err := h.Acquire(ctx, Ask{Slot: s, Budget: budget})
		got <- outcome{l, err, time.Since(begin)}
	}()
	return got
}

// lease asks and wants to be served.
func (h *house) lease(s *hearth.Slot) (*Lease, time.Duration) {
	h.t.Helper()
	o := <-h.ask(context.Background(), s, time.Hour)
	if o.err != nil {
		h.t.Fatalf("acquire %s: %v", s.Name, o.err)
	}
	if want := "http://" + s.Model.ID; o.lease.URL != want {
		h.t.Fatalf("the lease of %s is for %s", s.Name, o.lease.URL)
	}
	h.given = append(h.given, o.lease)
	return o.lease, o.took
}

// refused wants a refusal.
func (h *house) refused(o outcome, word hearth.SkipReason) *Refusal {
	h.t.Helper()
	var r *Refusal
	if !errors.As(o.err, &r) || r.Word != word {
		h.t.Fatalf("got %v, want %s", o.err, word)
	}
	return r
}

func between(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s took %v, want %v to %v", what, got, low, high)
	}
}
