package relay

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/estimate"
	"myip.co.kr/hearth/internal/routing"
)

// tierOf is a catalog with one model at n external providers of one priority.
func tierOf(t testing.TB, n int, urls ...string) *hearth.Catalog {
	t.Helper()
	m := &hearth.Model{ID: model}
	cat := &hearth.Catalog{
		Currency: "KRW", DefaultModel: model, Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1000)}, Models: []*hearth.Model{m},
	}
	limits := hearth.Limits{Connect: 5 * time.Second, FirstByte: 5 * time.Second, Answer: 5 * time.Second, Idle: 5 * time.Second}
	for i := range n {
		p := &hearth.Provider{
			Slug: fmt.Sprintf("provider-%c", 'a'+i), Name: fmt.Sprintf("Provider %c", 'A'+i), Kind: hearth.External, BaseURL: "http://127.0.0.1:9/v1", Currency: "USD", Limits: limits,
		}
		if len(urls) > 0 {
			p.BaseURL = urls[i%len(urls)] + "/v1"
		}
		cat.Providers = append(cat.Providers, p)
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{
			Model: m, Provider: p, Tag: p.Slug, UpstreamModel: "gemma-it", Priority: 50,
			List: hearth.Price{Prompt: decimal.New(int64(100+i), -2), Completion: decimal.New(int64(200+3*i), -2)},
		})
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	return cat
}

// byCost makes the world's relay order its tiers by routing cost.
func (w *world) byCost(now time.Time) {
	w.relay.router = routing.NewRouter(w.relay.catalog, routing.Options{}, now)
	w.relay.opt.ByCost = true
}

// BenchmarkRecorded is what a request costs besides its upstream: its chain and its record, in the journal. One endpoint is
// no tier.
func BenchmarkRecorded(b *testing.B) {
	for _, n := range []int{1, 2, 5, 20} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			w := &world{key: &hearth.Key{ID: "key-1"}}
			w.open(b, setup{journalBytes: 4 << 30}, tierOf(b, n))
			w.byCost(time.Now())
			req, rw, body := httptest.NewRequest(http.MethodPost, "/", http.NoBody), httptest.NewRecorder(), []byte(chat(`, "max_tokens": 100`))
			one := func() {
				r := w.relay
				x := r.begin(req, r.Name(rw), w.key)
				c, err := dialect.DecodeChat(body, estimate.JSON)
				if err != nil {
					b.Fatal(err)
				}
				if err := r.ledger.Reserve(); err != nil {
					b.Fatal(err)
				}
				x.chat = c
				if _, err := r.build(req, x); err != nil {
					b.Fatal(err)
				}
				x.gen.HTTP = http.StatusOK
				if err := r.record(x); err != nil {
					b.Fatal(err)
				}
				x.routed.forget()
			}
			before := w.journal.Used()
			one()
			size := w.journal.Used() - before
			b.ReportAllocs()
			for b.Loop() {
				one()
			}
			b.ReportMetric(float64(size), "B/record")
		})
	}
}

// BenchmarkRank is what of the record is made before a request is sent: the order of a tier, with the terms of all
// candidates. It does not allocate.
func BenchmarkRank(b *testing.B) {
	for _, n := range []int{2, 5, 20} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			w := &world{key: &hearth.Key{ID: "key-1"}}
			w.open(b, setup{}, tierOf(b, n))
			w.byCost(time.Now())
			tier := make([]hearth.Candidate, n)
			for i := range tier {
				tier[i].Endpoint = w.relay.catalog.Endpoints[i]
			}
			x := &routed{opening: []byte(`"a question"`), ask: routing.Ask{In: 1000, MaxTokens: 100}, now: time.Now()}
			draw := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				draw++
				x.ask.Draw, x.tiers = draw, x.inline[:0]
				w.relay.rank(x, tier)
				x.forget()
			}
		})
	}
}
