package relay

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/meter"
)

// A scene begins at midnight UTC. Its answers have three prompt and two completion tokens and cost 7 KRW at the base list.

// recomputed says where the bill of a record differs from what the record itself makes of it.
func recomputed(g *hearth.Generation) error {
	a, err := meter.Recompute(g)
	b := &g.Bill
	if a.Cost != b.Cost || a.PromptCost != b.PromptCost || a.CompletionCost != b.CompletionCost || !a.Upstream.Equal(b.Upstream) {
		return fmt.Errorf("%s is billed %+v, and by its record %+v, %w", g.ID, *b, a, err)
	}
	return nil
}

func times(n int64) hearth.Price { return scenePrice.Times(decimal.NewFromInt(n)) }

func steps(list ...hearth.Tariff) func(*hearth.Endpoint) {
	return func(e *hearth.Endpoint) { e.Steps = list }
}

func TestTariffs(t *testing.T) {
	minute := hearth.Hours{To: time.Minute}
	slow := after(5*time.Minute, answers)
	for _, c := range []struct {
		name   string
		part   part
		cost   hearth.Nano
		tariff string
	}{
		{"a prompt of as many tokens as the step names", part{serve: answers, edit: steps(hearth.Tariff{Name: "long", Above: 3, List: times(2)})}, 7, ""},
		{"one more, by the upstream's own count", part{serve: answers, edit: steps(hearth.Tariff{Name: "long", Above: 2, List: times(2)})}, 14, "long"},
		{"however long it was estimated", part{serve: answers, edit: steps(hearth.Tariff{Name: "long", Above: 20, List: times(2)})}, 7, ""},
		{"the hour of the chain rules, and not that of the end", part{serve: slow, edit: steps(hearth.Tariff{Name: "night", Hours: minute, List: times(3)})}, 21, "night"},
		{"nor one that begins meanwhile", part{serve: slow, edit: steps(hearth.Tariff{Name: "later", Hours: hearth.Hours{From: time.Minute, To: time.Hour}, List: times(3)})}, 7, ""},
		{"at an own slot too", part{serve: answers, local: true, edit: steps(hearth.Tariff{Name: "night", Hours: minute, List: times(3)})}, 21, "night"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.part)
				a := s.ask(t.Context(), chat(""))
				g := s.record(a.id)
				if a.err != nil || g.Bill.Cost != c.cost*won || g.Bill.Tariff != c.tariff {
					t.Errorf("%v; %v by %q, want %v by %q", a.err, g.Bill.Cost, g.Bill.Tariff, c.cost*won, c.tariff)
				}
				if got := fmt.Sprint(at(object(t, a.body.String()), "usage", "cost_details", "tariff")); got != c.tariff && (c.tariff != "" || got != "<nil>") {
					t.Errorf("the caller is told of %q", got)
				}
			})
		})
	}
}

// The rest of a tier is ordered by the prices that held when the chain was built: they are what is billed.
func TestTariffs_Rerank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := func(list hearth.Price, steps ...hearth.Tariff) func(*hearth.Endpoint) {
			return func(e *hearth.Endpoint) { e.Priority, e.List, e.Steps = 0, list, steps }
		}
		s := stage(t, Options{},
			part{serve: after(20*time.Second, refuses(500, "{}")), edit: tier(times(1))},
			part{serve: answers, edit: tier(times(3))},
			part{serve: answers, edit: tier(times(9), hearth.Tariff{Name: "night", Hours: hearth.Hours{To: 10 * time.Second}, List: times(2)})})
		g := s.record(s.ask(t.Context(), chat("")).id)
		if g.Slug != "p2" || g.Bill.Tariff != "night" || g.Bill.Cost != 14*won {
			t.Errorf("served by %s, %v by %q", g.Slug, g.Bill.Cost, g.Bill.Tariff)
		}
	})
}

// A request that a reload gives a new chain is billed by the prices that hold when that is built.
func TestTariffs_Overtaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, part{local: true, serve: answers, slot: func(s *hearth.Slot) { s.DrainMax = time.Minute }})
		time.AfterFunc(30*time.Second, occupiedAt(s, 0))
		time.AfterFunc(5*time.Second, func() {
			s.follow("KRW", Options{}, part{serve: answers, edit: steps(hearth.Tariff{Name: "dawn", Hours: hearth.Hours{From: 5 * time.Second, To: time.Minute}, List: times(2)})})
		})
		a := s.ask(t.Context(), chat(""))
		if g := s.record(a.id); a.err != nil || g.Bill.Tariff != "dawn" || g.Bill.Cost != 14*won {
			t.Errorf("%v; %v by %q", a.err, g.Bill.Cost, g.Bill.Tariff)
		}
	})
}

// A request in flight is billed by the catalog that its chain was built with: its prices and its exchange rate.
func TestTariffs_InFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, part{serve: after(10*time.Second, answers), provider: func(p *hearth.Provider) { p.Currency = "USD" }})
		time.AfterFunc(5*time.Second, func() {
			s.follow("KRW", Options{}, part{serve: answers, edit: func(e *hearth.Endpoint) { e.List = times(9) }})
		})
		a := s.ask(t.Context(), chat(""))
		if g := s.record(a.id); a.err != nil || g.Bill.Cost != 7000*won || !g.Bill.Rate.Equal(decimal.NewFromInt(1000)) || g.Bill.ListIn != "USD" {
			t.Errorf("%v, %+v", a.err, g.Bill)
		}
	})
}

// says answers with a usage object.
func says(usage string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"up-1","object":"chat.completion","created":1,"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}],"usage":`+usage+`}`)
	}
}

// The prompt is estimated at 57 tokens or so, and the cap is 20: what is held back covers neither 100 nor 21.
func TestOverruns(t *testing.T) {
	const usual = `{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23}`
	reported := func(e *hearth.Endpoint) { e.Reported = true }
	for _, c := range []struct {
		name  string
		part  part
		limit hearth.Nano
		want  int64
	}{
		{"within what was held back", part{serve: says(usual)}, 1000, 0},
		{"more output than it was allowed to give", part{serve: says(`{"prompt_tokens":3,"completion_tokens":100,"total_tokens":103}`)}, 1000, 1},
		{"a longer prompt than was estimated", part{serve: says(`{"prompt_tokens":300,"completion_tokens":1,"total_tokens":301}`)}, 1000, 1},
		{"without a limit nothing is held back", part{serve: says(`{"prompt_tokens":300,"completion_tokens":1,"total_tokens":301}`)}, 0, 0},
		{"a long prompt by the dearer list", part{serve: says(`{"prompt_tokens":50,"completion_tokens":20,"total_tokens":70}`), edit: steps(hearth.Tariff{Above: 40, List: times(5)})}, 1000, 0},
		{"a short one by the dearer base list", part{serve: says(usual), edit: func(e *hearth.Endpoint) {
			e.List = times(5)
			e.Steps = []hearth.Tariff{{Above: 40, List: times(1)}}
		}}, 1000, 0},
		{"by the list of the hour", part{serve: says(usual), edit: steps(hearth.Tariff{Hours: hearth.Hours{From: 30 * time.Minute, To: 2 * time.Hour}, List: times(5)})}, 1000, 0},
		{"the provider says less than its list", part{serve: says(`{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23,"cost":90.5}`), edit: reported}, 1000, 0},
		{"the provider says more than its list", part{serve: says(`{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23,"cost":150}`), edit: reported}, 1000, 1},
		{"the provider has no list", part{serve: says(`{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23,"cost":1}`), edit: func(e *hearth.Endpoint) {
			e.Reported, e.List = true, hearth.Price{}
		}}, 1000, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.part)
				var log bytes.Buffer
				s.relay.log = slog.New(slog.NewTextHandler(&log, nil))
				s.key.Limit = c.limit * won
				<-time.After(time.Hour)
				a := s.ask(t.Context(), chat(`, "max_tokens": 20`))
				g := s.record(a.id)
				if a.err != nil || g.Bill.Cost == 0 {
					t.Fatalf("%v, %+v", a.err, g.Bill)
				}
				if got := s.relay.Overruns(); got != c.want {
					t.Errorf("%d overruns, want %d; cost %v", got, c.want, g.Bill.Cost)
				}
				if said := strings.Contains(log.String(), "cost more than was held back") && strings.Contains(log.String(), a.id); said != (c.want > 0) {
					t.Errorf("the log: %s", log.String())
				}
				synctest.Wait()
				s.calm()
			})
		})
	}
}

// A price that is what the provider says: times rate and margin, to the last digit, and never the list instead.
func TestReportedPrice(t *testing.T) {
	abroad := func(p *hearth.Provider) { p.Currency, p.Margin = "USD", decimal.RequireFromString("0.055") }
	for _, c := range []struct {
		name, usage string
		cost        string
		upstream    string
		logs        bool
	}{
		{"a number", `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"cost":0.00001234567890123}`, "0.013024691", "0.00001234567890123", false},
		{"its text", `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"cost":"0.25"}`, "263.75", "0.25", false},
		{"nothing", `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}`, "0", "0", true},
		{"less than nothing", `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"cost":-1}`, "0", "0", true},
		{"free", `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"cost":0}`, "0", "0", false},
		{"no answer, whatever it says", `{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3,"cost":1}`, "0", "0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, part{serve: says(c.usage), provider: abroad, edit: func(e *hearth.Endpoint) { e.Reported = true }})
				var log bytes.Buffer
				s.relay.log = slog.New(slog.NewTextHandler(&log, nil))
				a := s.ask(t.Context(), chat(""))
				g := s.record(a.id)
				if a.err != nil || g.Bill.Cost.String() != c.cost || g.Bill.Upstream.String() != c.upstream || !g.Bill.Reported {
					t.Errorf("%v, %+v, want %s for %s", a.err, g.Bill, c.cost, c.upstream)
				}
				if logged := strings.Contains(log.String(), "not billable"); logged != c.logs {
					t.Errorf("the log: %s", log.String())
				}
			})
		})
	}
}
