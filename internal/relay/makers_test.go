package relay

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
)

// thinker is an upstream whose answers hold reasoning that nobody else can read.
type thinker struct {
	data string

	mu   sync.Mutex
	down bool
	got  string // the last body
}

func (u *thinker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got = string(body)
	if u.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	thought := fmt.Sprintf(`"reasoning_details":[{"type":"reasoning.encrypted","data":%q,"index":0}]`, u.data)
	if strings.Contains(u.got, `"stream":true`) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{%s}}]}\n\n", thought)
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi",%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, thought)
}

func (u *thinker) fails(down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = down
}

func (u *thinker) body() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.got
}

// history is a conversation whose answers held these data.
func history(extra string, data ...string) string {
	var b strings.Builder
	for i, d := range data {
		fmt.Fprintf(&b, `{"role":"user","content":"q%d"},{"role":"assistant","content":"hi","reasoning_details":[{"type":"reasoning.encrypted","data":%q,"index":0}]},`, i, d)
	}
	return `{"model":"` + model + `","messages":[` + b.String() + `{"role":"user","content":"on"}]` + extra + `}`
}

// thinkers is a world with two such upstreams, A cheaper than B and both of one tier.
func thinkers(t *testing.T, byCost bool) (w *world, a, b *thinker) {
	a, b = &thinker{data: "made-by-a"}, &thinker{data: "made-by-b"}
	w = &world{key: &hearth.Key{ID: "key-1", NoExplore: true}}
	w.open(t, setup{}, tierOf(t, 2, serve(t, a), serve(t, b)))
	if byCost {
		w.byCost(time.Now())
	}
	w.url = serve(t, w)
	return w, a, b
}

// TestHistory_StaysWithMaker: whoever made what only it can read of the history is asked first, without any session.
func TestHistory_StaysWithMaker(t *testing.T) {
	for _, byCost := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("by cost %v, stream %v", byCost, stream), func(t *testing.T) {
				w, a, b := thinkers(t, byCost)
				extra := ""
				if stream {
					extra = `,"stream":true`
				}
				a.fails(true)
				if got := w.post(t, history(extra)); got.header.Get("X-MyIP-Provider") != "Provider B" || !strings.Contains(got.body, b.data) {
					t.Fatalf("%d %v %s", got.status, got.header, got.body)
				}
				a.fails(false)
				for i := range 6 {
					got := w.post(t, history(extra, b.data))
					if p := got.header.Get("X-MyIP-Provider"); got.status != 200 || p != "Provider B" {
						t.Fatalf("turn %d: %d by %s", i, got.status, p)
					}
					if g := w.record(t, got); len(g.Notes) > 0 || len(g.Attempts) != 1 || !strings.Contains(b.body(), b.data) {
						t.Fatalf("%v, sent %s", g.Notes, b.body())
					}
				}
				x, err := w.relay.Explain([]byte(history(extra, b.data)), w.key, "", "")
				if err != nil || x.Chain.Candidates[0].Endpoint.Tag != "provider-b" || x.Chain.Candidates[0].Reason != "made the encrypted reasoning of the history" {
					t.Errorf("explained as %+v, %v", x.Chain.Candidates, err)
				}
				// It is the key's own conversation, of which a stranger knows nothing.
				if x, err := w.relay.Explain([]byte(history(extra, b.data)), &hearth.Key{ID: "key-2"}, "", ""); err != nil || x.In.Maker != (chain.Maker{}) {
					t.Errorf("another key has %+v, %v", x.In.Maker, err)
				}
			})
		}
	}
}

// TestHistory_Moves: another provider that takes over gets the history without what it cannot read, and the record says so.
func TestHistory_Moves(t *testing.T) {
	const note = "encrypted reasoning and signatures of the history were left out for provider-b, which did not make them"
	for _, extra := range []string{"", `,"stream":true`} {
		t.Run("move"+extra, func(t *testing.T) {
			w, a, b := thinkers(t, false)
			if got := w.post(t, history(extra)); got.header.Get("X-MyIP-Provider") != "Provider A" {
				t.Fatalf("%d %v", got.status, got.header)
			}
			a.fails(true)
			got := w.post(t, history(extra, "nobody-knows", a.data, a.data))
			g := w.record(t, got)
			if got.status != 200 || len(g.Attempts) != 2 || g.Provider != "Provider B" {
				t.Fatalf("%d %s: %+v", got.status, got.body, g.Attempts)
			}
			if got.header.Get("X-MyIP-Note") != note || len(g.Notes) != 1 || g.Notes[0] != note {
				t.Errorf("note %q, recorded %q", got.header.Get("X-MyIP-Note"), g.Notes)
			}
			if !strings.Contains(a.body(), a.data) {
				t.Errorf("its maker got %s", a.body())
			}
			if s := b.body(); strings.Contains(s, a.data) || strings.Count(s, `"reasoning_details":[]`) != 2 || !strings.Contains(s, "nobody-knows") {
				t.Errorf("the other one got %s", s)
			}
			object(t, b.body())
			// Both have a part in it now: the later one goes first, each with its own.
			a.fails(false)
			got = w.post(t, history(extra, a.data, b.data))
			if s := b.body(); got.header.Get("X-MyIP-Provider") != "Provider B" || strings.Contains(s, a.data) || !strings.Contains(s, b.data) {
				t.Errorf("by %s with %s", got.header.Get("X-MyIP-Provider"), s)
			}
		})
	}
}

// TestHistory_Untouched: what has no part of a known maker goes out byte for byte, to whomever it went before.
func TestHistory_Untouched(t *testing.T) {
	w, a, _ := thinkers(t, false)
	for name, body := range map[string]string{"none": history(""), "unknown": history("", "after-a-restart"), "empty": strings.ReplaceAll(history("", "x"), `"x"`, `""`)} {
		got := w.post(t, body)
		want := strings.Replace(body, strconv.Quote(model), `"gemma-it"`, 1)
		if got.header.Get("X-MyIP-Provider") != "Provider A" || got.header.Get("X-MyIP-Note") != "" || a.body() != want {
			t.Errorf("%s: by %s, sent\n%s\nwant\n%s", name, got.header.Get("X-MyIP-Provider"), a.body(), want)
		}
	}
}

// TestHistory_Reload: who made what is known to the relay of a newer configuration; a maker that is gone is not waited for.
func TestHistory_Reload(t *testing.T) {
	w, a, b := thinkers(t, false)
	w.post(t, history(""))
	cat := tierOf(t, 2, "http://127.0.0.1:9", serve(t, b))
	cat.Endpoints[0].Disabled = true
	old := w.relay
	w.open(t, setup{}, cat)
	now := w.relay
	w.relay = old.Next(now.opt, Parts{Catalog: cat, Fleet: now.fleet, Health: now.health, Upstream: now.upstream, Ledger: now.ledger, Windows: now.windows, Log: now.log})
	got := w.post(t, history("", a.data))
	if got.header.Get("X-MyIP-Provider") != "Provider B" || strings.Contains(b.body(), a.data) || !strings.Contains(got.header.Get("X-MyIP-Note"), "left out for provider-b") {
		t.Errorf("%d by %s, %q with %s", got.status, got.header.Get("X-MyIP-Provider"), got.header.Get("X-MyIP-Note"), b.body())
	}
}

// TestMakers: they are forgotten after a day, and the older ones when there are too many.
func TestMakers(t *testing.T) {
	m, now := newMakers(), time.Now()
	one := made{chain.Maker{Endpoint: "e", Provider: "p"}, now}
	m.put(7, one)
	if m.find(7, now.Add(madeFor)) != one || m.find(7, now.Add(madeFor+1)) != (made{}) || m.find(8, now) != (made{}) {
		t.Error("not known for a day, or others are")
	}
	if m.mark("a", 1) == m.mark("b", 1) || m.mark("a", 1) == newMakers().mark("a", 1) {
		t.Error("marks are the same for other keys, or other runs")
	}
	for i := range uint64(4 * makerShards * makerHalf) {
		m.put(i<<1, one)
	}
	n := 0
	for i := range m.shards {
		n += len(m.shards[i].now) + len(m.shards[i].old)
	}
	if most := 2 * makerShards * makerHalf; n > most || n < most/8 {
		t.Errorf("%d are kept, the bound is %d", n, most)
	}
	if last := uint64(4*makerShards*makerHalf-1) << 1; m.find(last, now) != one || m.find(0, now) != (made{}) {
		t.Error("not the older ones were forgotten")
	}
}
