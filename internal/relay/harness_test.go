package relay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/driver"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/store"
	"myip.co.kr/hearth/internal/upstream"
)

const model = "google/gemma-4-26b-a4b"

// world is a relay with everything behind it: journal and database on disk, two simulated providers on real sockets,
// the primary in front of the backup.
type world struct {
	relay           *Relay
	journal         *journal.Journal
	ledger          *ledger.Ledger
	primary, backup *engine.Provider
	url             string // of the gateway
	key             *hearth.Key
}

// setup is what a test wants different.
type setup struct {
	journalBytes int64
	bodyTotal    int64
	maxBody      int64 // 0 = 1 MiB
	limits       hearth.Limits
	slots        []*hearth.Slot // always-slots for the model, tried first
	upstream     http.Handler   // in place of the primary provider
	settle       time.Duration  // how long providers' streams are read on for callers who left
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// listing makes an engine of a handler: a GET is answered with the list that has the model.
func listing(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}]}`, model)
			return
		}
		h(w, r)
	}
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{key: &hearth.Key{ID: "key-1"}}
	if s.limits == (hearth.Limits{}) {
		s.limits = hearth.Limits{Connect: 5 * time.Second, FirstByte: 5 * time.Second, Answer: 5 * time.Second, Idle: 5 * time.Second}
	}
	w.primary = engine.NewProvider(engine.ProviderConfig{Name: "Primary"})
	w.backup = engine.NewProvider(engine.ProviderConfig{Name: "Backup"})
	var first http.Handler = w.primary
	if s.upstream != nil {
		first = s.upstream
	}
	cat := catalog(t, s, serve(t, first), serve(t, w.backup))
	w.open(t, s, cat)
	w.url = serve(t, w)
	return w
}

func serve(t testing.TB, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func catalog(t testing.TB, s setup, primary, backup string) *hearth.Catalog {
	m := &hearth.Model{ID: model}
	price := hearth.Price{Prompt: decimal.NewFromInt(1), Completion: decimal.NewFromInt(2), Image: decimal.New(1, -3)}
	cat := &hearth.Catalog{
		Currency: "KRW", DefaultModel: model, Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1000)},
		Models: []*hearth.Model{m}, Slots: s.slots,
	}
	if len(s.slots) > 0 {
		local := &hearth.Provider{Slug: hearth.LocalSlug, Name: "MyIP Local GPU", Kind: hearth.Local, Currency: "KRW", Limits: s.limits}
		cat.Providers = append(cat.Providers, local)
		for _, sl := range s.slots {
			sl.Model = m
			cat.Nodes = append(cat.Nodes, sl.Node)
			cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: m, Provider: local, Tag: "local-gpu/" + sl.Node.Name, UpstreamModel: model, Slot: sl})
		}
	}
	for i, p := range []struct{ slug, name, url string }{{"primary", "Primary", primary}, {"backup", "Backup", backup}} {
		prov := &hearth.Provider{Slug: p.slug, Name: p.name, Kind: hearth.External, BaseURL: p.url + "/v1", Currency: "USD", Limits: s.limits, Settle: s.settle}
		cat.Providers = append(cat.Providers, prov)
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: m, Provider: prov, Tag: p.slug, UpstreamModel: "gemma-it", Priority: 50 + i, List: price})
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	return cat
}

func (w *world) open(t testing.TB, s setup, cat *hearth.Catalog) {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.journal, err = journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), MaxBytes: s.journalBytes})
	must(err)
	t.Cleanup(func() { _ = w.journal.Close() }) // a test may have closed it
	file := filepath.Join(dir, "hearth.db")
	must(os.WriteFile(file, emptyStore(t), 0o600))
	st, err := store.Open(ctx, file)
	must(err)
	t.Cleanup(func() { must(st.Close()) })
	w.ledger, err = ledger.Open(ctx, w.journal, st, discard())
	must(err)
	t.Cleanup(func() { _ = w.ledger.Close(ctx) })
	drivers, err := driver.New(driver.Options{Log: discard(), Dir: filepath.Join(dir, "slots")})
	must(err)
	fleet, err := slot.NewFleet(cat, slot.Options{Driver: drivers.For})
	must(err)
	t.Cleanup(func() { must(fleet.Close(ctx)) })
	up, err := upstream.New(cat, upstream.Options{Agent: "hearth/test"})
	must(err)
	t.Cleanup(up.Close)
	if s.bodyTotal == 0 {
		s.bodyTotal = 64 << 20
	}
	if s.maxBody == 0 {
		s.maxBody = 1 << 20
	}
	w.relay = New(Options{HeaderPrefix: "X-MyIP", IDPrefix: "gen-", MaxBody: s.maxBody, MaxBodyTotal: s.bodyTotal, WriteLimit: 5 * time.Second, UserSalt: []byte("salt")},
		Parts{Catalog: cat, Fleet: fleet, Health: health.NewTracker(cat), Upstream: up, Ledger: w.ledger, Windows: routing.NewWindows(len(cat.Endpoints)), Log: discard()})
}

// ServeHTTP is the least of a server: it names the request, hands it to the relay and writes its error.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := w.relay.Chat(rw, r, w.relay.Name(rw), w.key); err != nil {
		writeError(rw, err)
	}
}

func writeError(rw http.ResponseWriter, err error) {
	e := err.(*hearth.Error)
	rw.WriteHeader(e.HTTPStatus())
	_, _ = rw.Write(AppendError(nil, e))
}

// answer is what a caller got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) post(t testing.TB, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer: %v\n%s", err, b)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// record is the record of an answer.
func (w *world) record(t testing.TB, a answer) *hearth.Generation {
	t.Helper()
	g, err := w.ledger.Generation(context.Background(), a.header.Get("X-Generation-Id"))
	if err != nil {
		t.Fatalf("record of %d %s: %v", a.status, a.body, err)
	}
	return g
}

func (w *world) fault(t testing.TB, p *engine.Provider, c engine.Control) {
	t.Helper()
	if err := p.Set(c); err != nil {
		t.Fatal(err)
	}
}

// events are the data of a stream's events.
func (a answer) events() []string {
	var out []string
	for _, l := range strings.Split(a.body, "\n") {
		if d, ok := strings.CutPrefix(l, "data: "); ok {
			out = append(out, d)
		}
	}
	return out
}

// object reads JSON into something that can be asked for paths.
func object(t testing.TB, s string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return v
}

// at follows keys and indexes into JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

// chat is a request body; extra goes into its top level.
func chat(extra string) string {
	return `{"model": "` + model + `", "messages": [{"role": "user", "content": "a secret question"}]` + extra + `}`
}
