package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}

// wire is a network of pipes with one machine on it.
type wire struct {
	arrive chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	ends  []*end
	down  atomic.Bool // nobody connects
	dials atomic.Int64
}

// end is one side of a connection. A frozen one swallows what is written to it, as a machine does that lost its power.
type end struct {
	net.Conn
	frozen *atomic.Bool
}

func (e *end) Write(p []byte) (int, error) {
	if e.frozen.Load() {
		return len(p), nil
	}
	return e.Conn.Write(p)
}

func newWire() *wire { return &wire{arrive: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.arrive:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}
func (w *wire) Close() error   { w.once.Do(func() { close(w.closed) }); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

// dial is a Dialer.
func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	w.dials.Add(1)
	if w.down.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	near, far := net.Pipe()
	frozen := new(atomic.Bool)
	a, b := &end{near, frozen}, &end{far, frozen}
	select {
	case w.arrive <- b:
	case <-w.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	w.ends = append(w.ends, a)
	w.mu.Unlock()
	return a, nil
}

// cut breaks all connections; freeze lets them be silent.
func (w *wire) cut()    { w.each(func(e *end) { e.Close() }) }
func (w *wire) freeze() { w.each(func(e *end) { e.frozen.Store(true) }) }

func (w *wire) each(f func(*end)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends {
		f(e)
	}
}

// gpus is a slot.Driver whose engines are all one HTTP handler.
type gpus struct {
	load     time.Duration
	immortal bool // deaths are not noticed

	mu   sync.Mutex
	list []*gpu
}

type gpu struct {
	born time.Time
	load time.Duration
	died chan struct{}
	gone chan struct{}
	once sync.Once
}

func (g *gpus) Start(context.Context, *hearth.Slot) (slot.Engine, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := &gpu{born: time.Now(), load: g.load, gone: make(chan struct{})}
	if !g.immortal {
		e.died = e.gone
	}
	g.list = append(g.list, e)
	return e, nil
}

func (g *gpus) starts() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.list)
}

func (*gpu) URL() string               { return "http://engine" }
func (*gpu) APIKey() hearth.Secret     { return "engine-key" }
func (e *gpu) Died() <-chan struct{}   { return e.died }
func (e *gpu) Exited() <-chan struct{} { return e.gone }
func (*gpu) ExitError() error          { return &slot.ExitError{Code: 1} }
func (*gpu) LogTail() []string         { return []string{"loading", "listening"} }
func (*gpu) Leave() error              { return nil }
func (e *gpu) Probe(context.Context) (slot.Report, error) {
	return slot.Report{Ready: time.Since(e.born) >= e.load, Facts: hearth.SlotFacts{Window: 4096, Parallel: 2, Model: "tiny"}}, nil
}

func (e *gpu) Stop(context.Context, time.Duration) error {
	e.once.Do(func() { close(e.gone) })
	return nil
}

const token = "0123456789abcdef0123456789abcdef"

// world is a machine with two slots on one exclusive node, and a gateway that follows it.
type world struct {
	t       testing.TB
	cat     *hearth.Catalog // the machine's
	gpus    *gpus
	fleet   *slot.Fleet
	server  *Server
	wire    *wire
	client  *Client
	a, b    *hearth.Slot // as the gateway knows them
	events  chan slot.Event
	asked   atomic.Int64 // requests that reached the engine
	http    *http.Server
	ended   chan error
	engine  *http.Server
	engines *wire
}

type setup struct {
	load     time.Duration
	engine   http.HandlerFunc // nil = answers "ok"
	stall    time.Duration
	body     int64
	change   func(*hearth.Slot) // of the machine's slots
	immortal bool               // deaths of engines are not noticed
	model    string             // of slot a, as the gateway has it; "" = as the machine has it
}

// newWorld starts it; it has to be ended.
func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, gpus: &gpus{load: s.load, immortal: s.immortal}, events: make(chan slot.Event, 1000)}
	if s.engine == nil {
		s.engine = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true}`) }
	}
	n := &hearth.Node{Name: "gpu", Exclusive: true, Turn: 10 * time.Second}
	w.cat = &hearth.Catalog{Nodes: []*hearth.Node{n}}
	for i, name := range []string{"a", "b"} {
		at := &hearth.Slot{
			Index: i, Name: name, Node: n, Model: &hearth.Model{ID: "x/" + name}, Queue: 64, Wait: 90 * time.Second,
			QueueWait: 10 * time.Second, ExpectedLoad: 2 * time.Second, StartTimeout: time.Minute, DrainMax: time.Minute,
		}
		if s.change != nil {
			s.change(at)
		}
		w.cat.Slots = append(w.cat.Slots, at)
	}
	var err error
	w.fleet, err = slot.NewFleet(w.cat, slot.Options{Driver: func(*hearth.Slot) (slot.Driver, error) { return w.gpus, nil }})
	if err != nil {
		t.Fatal(err)
	}
	w.serveEngine(s.engine)
	if s.body == 0 {
		s.body = 1 << 20
	}
	w.server = NewServer(ServerOptions{
		Catalog: w.cat, Fleet: w.fleet, Token: token, MaxBody: s.body, Stall: s.stall,
		Engines: &http.Transport{DialContext: w.engines.dial, DisableCompression: true},
	})
	w.wire = newWire()
	w.serve()
	remote := &hearth.Node{Name: "gpu-2", Remote: &hearth.Remote{URL: "http://machine", Token: token}}
	slots := make([]*hearth.Slot, 2)
	for i, name := range []string{"a", "b"} {
		slots[i] = &hearth.Slot{Index: i, Name: name, Node: remote, Model: &hearth.Model{ID: "x/" + name}, Wait: 90 * time.Second}
	}
	w.a, w.b = slots[0], slots[1]
	if s.model != "" {
		w.a.Model = &hearth.Model{ID: s.model}
	}
	if w.client, err = Dial(remote, slots, ClientOptions{Dial: w.wire.dial, Agent: "test"}); err != nil {
		t.Fatal(err)
	}
	w.client.Watch(func(e slot.Event) { w.events <- e })
	return w
}

func (w *world) serveEngine(h http.HandlerFunc) {
	w.engines = newWire()
	w.engine = &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.asked.Add(1)
			h(rw, r)
		}),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, turns{}, new(atomic.Int64))
		},
	}
	go func() { _ = w.engine.Serve(w.engines) }()
}

// turns is the key under which a request to the engine finds the count of those on its connection.
type turns struct{}

// serve opens the machine to gateways.
func (w *world) serve() {
	w.http, w.ended = w.server.HTTP(nil), make(chan error, 1)
	srv, l, ended := w.http, w.wire, w.ended
	go func() { ended <- srv.Serve(l) }()
}

// crash takes the machine from the network without a word.
func (w *world) crash() {
	w.wire.down.Store(true)
	w.wire.cut()
}

// end ends everything.
func (w *world) end() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.client.Close(ctx); err != nil {
		w.t.Error(err)
	}
	w.server.Close()
	_ = w.http.Close()
	if err := <-w.ended; !errors.Is(err, http.ErrServerClosed) {
		w.t.Error(err)
	}
	_ = w.engine.Close()
	if err := w.fleet.Close(ctx); err != nil {
		w.t.Error(err)
	}
	w.wire.cut() // what was being connected when all was closed
	w.engines.cut()
}

// lease asks for a place as the gateway does.
func (w *world) lease(s *hearth.Slot, change ...func(*slot.Ask)) (*slot.Lease, error) {
	a := slot.Ask{Slot: s, Key: "key", Budget: 30 * time.Second, Generation: "gen-1"}
	for _, f := range change {
		f(&a)
	}
	return w.client.Acquire(w.t.Context(), a)
}

// post sends a request by a lease.
func (w *world) post(ctx context.Context, l *slot.Lease, route string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+route, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+l.APIKey.Reveal())
	r.Header.Set("Content-Type", "application/json")
	return l.Transport.RoundTrip(r)
}

// chat is a whole exchange.
func (w *world) chat(s *hearth.Slot, change ...func(*slot.Ask)) (status int, answer string, err error) {
	l, err := w.lease(s, change...)
	if err != nil {
		return 0, "", err
	}
	defer l.Release()
	resp, err := w.post(w.t.Context(), l, chat, strings.NewReader(`{"messages":[]}`))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// word is the slot word of an error, "" = it is none.
func word(err error) hearth.SkipReason {
	if r, ok := errors.AsType[*slot.Refusal](err); ok {
		return r.Word
	}
	return ""
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.After(d) }
