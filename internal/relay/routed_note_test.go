package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/routing"
)

// market is a world whose model has n external endpoints of one priority, ordered by routing cost; the even ones are at the
// primary, the odd ones at the backup.
func newMarket(t *testing.T, n int, edit func(*hearth.Catalog)) *world {
	t.Helper()
	w := &world{key: &hearth.Key{ID: "key-1"}, primary: engine.NewProvider(engine.ProviderConfig{Name: "Primary"}), backup: engine.NewProvider(engine.ProviderConfig{Name: "Backup"})}
	cat := tierOf(t, n, serve(t, w.primary), serve(t, w.backup))
	if edit != nil {
		edit(cat)
		if err := cat.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	w.open(t, setup{}, cat)
	w.byCost(time.Now())
	return w
}

// ask sends a request under an id, which may name its conversation in a header, and gives its record.
func (w *world) ask(t *testing.T, id, body string, session ...string) *hearth.Generation {
	t.Helper()
	rw, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	for _, name := range session {
		req.Header.Set("X-Session-Id", name)
	}
	if err := w.relay.Chat(rw, req, id, w.key); err != nil {
		writeError(rw, err)
	}
	g, err := w.ledger.Generation(context.Background(), id)
	if err != nil {
		t.Fatalf("%d %s: %v", rw.Code, rw.Body, err)
	}
	return g
}

// explained is what the record of a request under an id is to say, by an explanation from the state before it.
func (w *world) explained(t *testing.T, id, body, session string) (want hearth.Routed) {
	t.Helper()
	x, err := w.relay.Explain([]byte(body), w.key, id, session)
	if err != nil || x.Err != nil {
		t.Fatal(err, x.Err)
	}
	for i, c := range x.Chain.Candidates {
		terms := x.Terms[c.Endpoint.Index]
		if i == 0 {
			want = hearth.Routed{Model: model, Priority: 50, Endpoint: c.Endpoint.ID, Reason: c.Reason, Share: hearth.Figure(terms.Share), Kappa: 1.5, Snapshot: 1}
		}
		want.Candidates = append(want.Candidates, rounded(terms.Recorded(c.Endpoint.ID)))
	}
	return want
}

// rounded are the terms as a record holds them.
func rounded(t hearth.RoutedTerms) hearth.RoutedTerms {
	for _, x := range []*float64{&t.Share, &t.Price, &t.Wait, &t.Decode, &t.Failed, &t.Quality, &t.Later, &t.Total, &t.TTFT, &t.Rest, &t.Cached, &t.Tries,
		&t.Cap, &t.Knee, &t.Errors, &t.Limits, &t.BadTools, &t.Fixed, &t.Ramp, &t.Explored, &t.List, &t.OtherPrice, &t.OtherTTFT, &t.Queue} {
		*x = hearth.Figure(*x)
	}
	return t
}

// TestRouted: what is recorded is what was drawn, and an explanation with the id of the request repeats it.
func TestRouted(t *testing.T) {
	t.Run("the record and an explanation of its id agree", func(t *testing.T) {
		w := newMarket(t, 5, nil)
		first, reasons, marks := map[string]int{}, map[string]int{}, map[int]uint64{}
		for i := range 60 {
			id := fmt.Sprintf("gen-%d", i)
			session := fmt.Sprintf("s%d", i%40)
			body := chat(fmt.Sprintf(`, "max_tokens": 20, "stream": %v`, i%2 == 0))
			want := w.explained(t, id, body, session)
			g := w.ask(t, id, body, session)
			if n := len(g.Routing); n != 1 {
				t.Fatalf("%s: %d tiers", id, n)
			}
			if mark := g.Routing[0].Session; mark == 0 || marks[i%40] != 0 && marks[i%40] != mark {
				t.Errorf("%s belongs to the conversation %d, it was %d", id, mark, marks[i%40])
			} else {
				marks[i%40], want.Session = mark, mark
			}
			if diff := cmp.Diff([]hearth.Routed{want}, g.Routing); diff != "" {
				t.Fatalf("%s, explained and recorded (-want +got):\n%s", id, diff)
			}
			if g.Endpoint != want.Endpoint || len(g.Attempts) != 1 {
				t.Errorf("%s was answered by %s after %d attempts", id, g.Endpoint, len(g.Attempts))
			}
			first[g.Endpoint]++
			reasons[g.Routing[0].Reason]++
		}
		if len(first) < 3 || reasons["share"] == 0 || reasons["stick"] == 0 {
			t.Errorf("first places %v for reasons %v", first, reasons)
		}
	})
	t.Run("a failure orders the rest anew, and only says what was chosen", func(t *testing.T) {
		w := newMarket(t, 4, nil)
		w.fault(t, w.primary, engine.Control{Fault: "500"})
		w.fault(t, w.backup, engine.Control{Fault: "500"})
		g := w.ask(t, "gen-fails", chat(`, "max_tokens": 20`))
		if len(g.Attempts) != 4 || len(g.Routing) != 3 { // of the last one there is nothing to choose
			t.Fatalf("%d attempts, %+v", len(g.Attempts), g.Routing)
		}
		for i, r := range g.Routing {
			if r.Endpoint != g.Attempts[i].Endpoint || r.Model != model || r.Priority != 50 || r.Kappa != 1.5 {
				t.Errorf("choice %d is %+v, tried was %s", i, r, g.Attempts[i].Endpoint)
			}
			if i > 0 && (r.Reason != "retry" || r.Share != 1 || r.Candidates != nil) || i == 0 && len(r.Candidates) != 4 {
				t.Errorf("choice %d is %+v", i, r)
			}
		}
	})
	t.Run("one that is alone at its priority is told of too", func(t *testing.T) {
		w := newMarket(t, 2, func(c *hearth.Catalog) { c.Endpoints[1].Priority = 60 })
		w.fault(t, w.primary, engine.Control{Fault: "500"})
		g := w.ask(t, "gen-only", chat(""))
		if len(g.Routing) != 2 || len(g.Attempts) != 2 {
			t.Fatalf("%d attempts, %+v", len(g.Attempts), g.Routing)
		}
		for i, r := range g.Routing {
			if r.Endpoint != g.Attempts[i].Endpoint || r.Reason != "only" || r.Share != 1 || len(r.Candidates) != 1 || r.Candidates[0].Total <= 0 {
				t.Errorf("%+v", r)
			}
		}
	})
	t.Run("an order of the caller's is no tier of the caller's one", func(t *testing.T) {
		w := newMarket(t, 2, nil)
		if g := w.ask(t, "gen-sort", chat(`, "provider": {"sort": "price"}`)); g.Routing != nil || g.HTTP != 200 {
			t.Errorf("%+v", g)
		}
	})
	t.Run("of a long tier the chosen, the cheapest and the next", func(t *testing.T) {
		w := newMarket(t, 20, nil)
		g := w.ask(t, "gen-long", chat(`, "max_tokens": 20`))
		if len(g.Routing) != 1 || len(g.Routing[0].Candidates) != hearth.MaxRouted || g.Routing[0].Candidates[0].Endpoint != g.Endpoint {
			t.Errorf("%+v", g.Routing)
		}
	})
}

func TestCutOf(t *testing.T) {
	for _, tc := range []struct{ n, cheapest, want int }{{3, 1, 15}, {16, 15, 15}, {20, 0, 15}, {20, 15, 15}, {20, 16, 16}, {20, 19, 19}} {
		why := make([]routing.Terms, tc.n)
		for i := range why {
			why[i].List = 2
		}
		why[tc.cheapest].List = 1
		if got := cutOf(why); got != tc.want {
			t.Errorf("of %d, the cheapest being %d: %d, want %d", tc.n, tc.cheapest, got, tc.want)
		}
	}
}

// TestRouted_Memory: requests that are under way together have records of their own, whatever memory they use again.
func TestRouted_Memory(t *testing.T) {
	small, large := newMarket(t, 3, nil), newMarket(t, 12, nil)
	var all sync.WaitGroup
	for i := range 8 {
		w, n := small, 3
		if i%2 == 1 {
			w, n = large, 12
		}
		all.Go(func() {
			for j := range 12 {
				id := fmt.Sprintf("gen-%d-%d", i, j)
				g := w.ask(t, id, chat(`, "max_tokens": 3`))
				if len(g.Routing) != 1 || len(g.Routing[0].Candidates) != n {
					t.Errorf("%s of %d endpoints: %+v", id, n, g.Routing)
					return
				}
				share, seen := 0.0, map[string]bool{}
				for _, c := range g.Routing[0].Candidates {
					share += c.Share
					seen[c.Endpoint] = true
				}
				if len(seen) != n || share < .99 || share > 1.01 || !seen[g.Endpoint] {
					t.Errorf("%s: %d candidates with a share of %v", id, len(seen), share)
				}
			}
		})
	}
	all.Wait()
}
