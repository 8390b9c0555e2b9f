package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/store"
	"myip.co.kr/hearth/internal/upstream"
)

// scene is a relay in virtual time: everything in it is real but the network, which is made of pipes, and the engines'
// processes. It is made inside a bubble.
type scene struct {
	t       *testing.T
	relay   *Relay
	cat     *hearth.Catalog
	journal *journal.Journal
	ledger  *ledger.Ledger
	fleet   *slot.Fleet
	health  *health.Tracker
	windows *routing.Windows
	peers   []*peer // by endpoint index
	key     *hearth.Key
	start   time.Time

	journalBytes int64
	onDial       func() // called before a connection is refused
}

// part is one endpoint of a scene, in the order of the chain.
type part struct {
	serve    http.HandlerFunc
	local    bool
	load     time.Duration // local: until its engine is ready
	broken   bool          // local: its engine cannot be started
	made     func(*pipeEngine)
	edit     func(*hearth.Endpoint)
	provider func(*hearth.Provider)
	slot     func(*hearth.Slot)
	far      *far // local: the machine that owns its slot, nil = this one
}

// peer is an upstream at the other end of pipes.
type peer struct {
	calls    chan net.Conn
	done     chan struct{}
	dead     atomic.Bool // it refuses connections
	address  string
	start    time.Time
	serve    http.HandlerFunc
	seen     atomic.Int64
	inflight atomic.Int64
	mu       sync.Mutex
	bodies   []string
	left     []time.Duration // when requests were cancelled, since the start
}

func (p *peer) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *peer) Close() error   { close(p.done); return nil }
func (p *peer) Addr() net.Addr { return &net.TCPAddr{} }

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.bodies = append(p.bodies, string(b))
	serve := p.serve
	p.mu.Unlock()
	p.seen.Add(1)
	p.inflight.Add(1)
	defer p.inflight.Add(-1)
	told := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left = append(p.left, time.Since(p.start))
	}
	stop := context.AfterFunc(r.Context(), told)
	defer func() {
		if stop() && r.Context().Err() != nil { // it was just about to say so
			told()
		}
	}()
	serve(w, r)
}

// plays makes the peer another one, for requests that come from now on.
func (p *peer) plays(serve http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = serve
}

func (p *peer) lastBody() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bodies) == 0 {
		return ""
	}
	return p.bodies[len(p.bodies)-1]
}

func (p *peer) departures() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Duration(nil), p.left...)
}

// stage makes a scene of its parts. Everything ends with the test.
func stage(t *testing.T, o Options, parts ...part) *scene {
	t.Helper()
	return stageFor(t, smallJournal, o, parts...)
}

// stageFor is stage with a journal of so many bytes.
func stageFor(t *testing.T, journalBytes int64, o Options, parts ...part) *scene {
	t.Helper()
	s := &scene{journalBytes: journalBytes, t: t, key: &hearth.Key{ID: "key-1"}, start: time.Now()}
	drivers := make(engines)
	s.catalog(parts, drivers)
	s.records()
	var err error
	s.fleet, err = slot.NewFleet(s.cat, slot.Options{
		Driver: func(*hearth.Slot) (slot.Driver, error) { return drivers, nil },
		Remote: func(_ *hearth.Node, slots []*hearth.Slot) (slot.Node, error) { return drivers[slots[0].Name].far, nil },
	})
	s.must(err)
	t.Cleanup(func() { s.must(s.fleet.Close(context.Background())) })
	up, err := upstream.New(s.cat, upstream.Options{Agent: "hearth/test", AnswerTotal: 1 << 20, Dial: s.dial, LocalDial: s.dial})
	s.must(err)
	s.health, s.windows = health.NewTracker(s.cat), routing.NewWindows(len(s.cat.Endpoints))
	o.HeaderPrefix, o.IDPrefix, o.MaxBody, o.UserSalt = "X-MyIP", "gen-", 1<<20, []byte("salt")
	if o.MaxBodyTotal == 0 {
		o.MaxBodyTotal = 16 << 20
	}
	if o.WriteLimit == 0 {
		o.WriteLimit = 30 * time.Second
	}
	s.relay = New(o, Parts{Catalog: s.cat, Fleet: s.fleet, Health: s.health, Upstream: up, Ledger: s.ledger, Windows: s.windows, Log: discard()})
	for _, p := range s.peers {
		srv := &http.Server{Handler: p}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(p) }()
		t.Cleanup(func() {
			srv.Close()
			<-ended
		})
	}
	t.Cleanup(up.Close)
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) dial(_ context.Context, _, address string) (net.Conn, error) {
	for _, p := range s.peers {
		if p.address == address && p.dead.Load() {
			if s.onDial != nil {
				s.onDial()
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		if p.address == address {
			near, far := net.Pipe()
			p.calls <- far
			return near, nil
		}
	}
	return nil, fmt.Errorf("nobody listens at %s", address)
}

// prices: 1 KRW for a prompt token and 2 for a completion token.
var scenePrice = hearth.Price{Prompt: decimal.New(1, 6), Completion: decimal.New(2, 6)}

func (s *scene) catalog(parts []part, drivers engines) {
	m := &hearth.Model{ID: model}
	s.cat = &hearth.Catalog{Currency: "KRW", DefaultModel: model, Models: []*hearth.Model{m},
		Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1000)}}
	limits := hearth.Limits{Connect: 5 * time.Second, FirstByte: 30 * time.Second, Answer: 600 * time.Second, Idle: 60 * time.Second, Total: 30 * time.Minute}
	home := &hearth.Provider{Slug: hearth.LocalSlug, Name: "MyIP Local GPU", Kind: hearth.Local, Currency: "KRW", Limits: limits}
	for i, p := range parts {
		address := fmt.Sprintf("127.0.0.1:%d", 1001+i)
		s.peers = append(s.peers, &peer{calls: make(chan net.Conn), done: make(chan struct{}), address: address, start: s.start, serve: p.serve})
		e := &hearth.Endpoint{Model: m, UpstreamModel: "up-model", Priority: 10 * i, List: scenePrice}
		if p.local {
			sl := &hearth.Slot{Name: fmt.Sprint("slot-", i), Node: &hearth.Node{Name: fmt.Sprint("gpu-", i), Exclusive: true}, Model: m, Driver: "exec",
				URL: "http://" + address, Concurrency: 1, Queue: 64, Wait: 90 * time.Second, QueueWait: 10 * time.Second, ExpectedLoad: 30 * time.Second,
				StartTimeout: 5 * time.Minute}
			if p.slot != nil {
				p.slot(sl)
			}
			if p.far != nil {
				sl.Node.Remote = new(hearth.Remote)
			}
			drivers[sl.Name] = p
			if s.cat.Slots = append(s.cat.Slots, sl); !slices.Contains(s.cat.Nodes, sl.Node) {
				s.cat.Nodes = append(s.cat.Nodes, sl.Node)
			}
			e.Provider, e.Slot, e.Tag = home, sl, "local-gpu/"+sl.Node.Name
		} else {
			slug := fmt.Sprint("p", i)
			e.Provider = &hearth.Provider{Slug: slug, Name: "P" + slug[1:], Kind: hearth.External, BaseURL: "http://" + address + "/v1", Currency: "KRW", Limits: limits}
			e.Tag = slug
		}
		if p.provider != nil {
			p.provider(e.Provider)
		}
		if p.edit != nil {
			p.edit(e)
		}
		s.cat.Endpoints = append(s.cat.Endpoints, e)
		if len(s.cat.Providers) == 0 || s.cat.Providers[len(s.cat.Providers)-1] != e.Provider {
			s.cat.Providers = append(s.cat.Providers, e.Provider)
		}
	}
	s.must(s.cat.Seal())
}

// The journal of a scene is so small that a single record's space that did not come back is seen.
const (
	smallJournal = 1 << 20
	promise      = 8 << 10 // what the journal holds back for a record
)

// emptyStore is the file of a database without records: to make its tables takes longer than to copy them.
func emptyStore(t testing.TB) []byte {
	madeStore.Lock()
	defer madeStore.Unlock()
	if madeStore.file == nil {
		file := filepath.Join(t.TempDir(), "empty.db")
		st, err := store.Open(context.Background(), file)
		if err == nil {
			err = st.Close()
		}
		if err == nil {
			madeStore.file, err = os.ReadFile(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return madeStore.file
}

var madeStore struct {
	sync.Mutex
	file []byte
}

func (s *scene) records() {
	ctx, dir := context.Background(), s.t.TempDir()
	var err error
	s.journal, err = journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), MaxBytes: s.journalBytes})
	s.must(err)
	s.t.Cleanup(func() { _ = s.journal.Close() })
	file := filepath.Join(dir, "hearth.db")
	s.must(os.WriteFile(file, emptyStore(s.t), 0o600))
	st, err := store.Open(ctx, file)
	s.must(err)
	s.t.Cleanup(func() { s.must(st.Close()) })
	s.ledger, err = ledger.Open(ctx, s.journal, st, discard())
	s.must(err)
	s.t.Cleanup(func() { _ = s.ledger.Close(ctx) })
}

// spareRecords is how many records the journal would still promise to take.
func (s *scene) spareRecords() int {
	n := 0
	for ; s.journal.Reserve() == nil; n++ {
	}
	for range n {
		s.journal.Unreserve()
	}
	return n
}

// written is how often each id was recorded.
func (s *scene) written() map[string]int {
	n := make(map[string]int)
	s.must(s.journal.Replay(s.journal.First(), func(_ uint64, b []byte) error {
		if b[0] == '{' { // else the beginning of an answer
			n[fmt.Sprint(at(object(s.t, string(b)), "id"))]++
		}
		return nil
	}))
	return n
}

// asked is what became of a request.
type asked struct {
	*caller
	id   string
	err  *hearth.Error
	took time.Duration
}

// ask sends a request as the server does, and waits for its end.
func (s *scene) ask(ctx context.Context, body string, edit ...func(*caller)) asked {
	c := s.caller()
	for _, f := range edit {
		f(c)
	}
	return s.send(ctx, c, body)
}

func (s *scene) send(ctx context.Context, c *caller, body string, header ...string) asked {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	id := s.relay.Name(c)
	err := s.relay.Chat(c, req, id, s.key)
	a := asked{caller: c, id: id, took: time.Since(c.start)}
	if err != nil && !errors.As(err, &a.err) {
		s.t.Errorf("an error of another kind: %v", err)
	}
	return a
}

// record is the record of a request, nil if it has none.
func (s *scene) record(id string) *hearth.Generation {
	s.t.Helper()
	g, err := s.ledger.Generation(context.Background(), id)
	var e *hearth.Error
	if err != nil && !(errors.As(err, &e) && e.Type == hearth.ErrNotFound) {
		s.t.Fatal(err)
	}
	if g != nil {
		s.must(recomputed(g))
	}
	return g
}

// permitsBack checks that no permit to try an endpoint is still out: one that cools down can be probed when that is over.
func (s *scene) permitsBack() {
	s.t.Helper()
	for i := range s.cat.Endpoints {
		h := s.health.View()[i]
		at := time.Now()
		if h.Skip != "" && h.Until.After(at) {
			at = h.Until
		}
		p, ok := s.health.Take(i, at)
		if !ok {
			s.t.Errorf("the permit of endpoint %d did not come back: %+v", i, h)
		}
		p.Done(health.NoVerdict, 0, at)
	}
}

// calm checks that nothing of any request is left.
func (s *scene) calm() {
	s.t.Helper()
	for i, v := range s.fleet.Views(s.cat.Slots, nil) {
		if v.Inflight != 0 || v.Waiting != 0 {
			s.t.Errorf("slot %d: %d in flight, %d waiting", i, v.Inflight, v.Waiting)
		}
	}
	if n, want := s.spareRecords(), int((s.journalBytes-s.journal.Used())/promise); n != want {
		s.t.Errorf("place for %d records, want %d", n, want)
	}
	if n := s.relay.bodies.Load(); n != 0 {
		s.t.Errorf("%d bytes of bodies are held", n)
	}
}
