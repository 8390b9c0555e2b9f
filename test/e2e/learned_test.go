package e2e

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/store"
)

// provider runs one more simulated provider and returns where.
func provider(t testing.TB, p *engine.Provider) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { defer close(served); _ = p.Serve(ctx, ln) }()
	t.Cleanup(func() { cancel(); <-served })
	return ln.Addr().String()
}

func control(t testing.TB, p *engine.Provider, body string) {
	t.Helper()
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/control", strings.NewReader(body)))
	if rec.Code != http.StatusOK {
		t.Fatalf("control %s: %d %s", body, rec.Code, rec.Body)
	}
}

// outlook is what POST /chain tells of a request in a conversation.
type outlook struct {
	First   string
	Reason  string
	Share   map[string]float64
	Wait    map[string]float64 // seconds to the first token
	Out     []string
	Flights float64
}

func (g *gateway) outlook(model, more string) (x outlook) {
	g.t.Helper()
	var doc struct {
		Data struct {
			Candidates []struct {
				Slug    string  `json:"provider_slug"`
				Reason  string  `json:"reason"`
				Share   float64 `json:"share"`
				Routing struct {
					TTFT     float64 `json:"ttft_seconds"`
					InFlight float64 `json:"in_flight"`
				} `json:"routing"`
			} `json:"candidates"`
			Dropped []struct {
				Endpoint string `json:"endpoint"`
				Stage    string `json:"stage"`
			} `json:"dropped"`
		} `json:"data"`
	}
	r := g.call("POST", "/chain", ask(model, more))
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil || r.status != http.StatusOK || len(doc.Data.Candidates) == 0 {
		g.t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	x.First, x.Reason = doc.Data.Candidates[0].Slug, doc.Data.Candidates[0].Reason
	x.Share, x.Wait = map[string]float64{}, map[string]float64{}
	for _, c := range doc.Data.Candidates {
		x.Share[c.Slug], x.Wait[c.Slug] = c.Share, c.Routing.TTFT
		x.Flights += c.Routing.InFlight
	}
	for _, d := range doc.Data.Dropped {
		x.Out = append(x.Out, d.Endpoint+" "+d.Stage)
	}
	slices.Sort(x.Out)
	return x
}

// same says whether two outlooks are those of one state of things: time has passed between them.
func (x outlook) same(y outlook) bool {
	near := func(a, b map[string]float64, within float64) bool {
		for k, v := range a {
			if math.Abs(v-b[k]) > within {
				return false
			}
		}
		return len(a) == len(b)
	}
	return x.First == y.First && x.Reason == y.Reason && slices.Equal(x.Out, y.Out) && near(x.Share, y.Share, 0.1) && near(x.Wait, y.Wait, 0.2)
}

// A gateway that is killed knows at its next start who is slow, who is out, and where conversations have their caches.
func TestLearnedOutlivesAKill(t *testing.T) {
	t.Parallel()
	quick, dead, limited := engine.NewProvider(engine.ProviderConfig{Name: "Quick"}), engine.NewProvider(engine.ProviderConfig{Name: "Dead"}), engine.NewProvider(engine.ProviderConfig{Name: "Limited"})
	model := "author/model"
	g := launch(t, func(acme string) string {
		text := "currency: USD\ndata_dir: data\ndefault_model: author/model\nshutdown: {lame_duck: 0s, grace: 5s}\nproviders:\n"
		for i, p := range []struct{ slug, at string }{{"acme", acme}, {"quick", provider(t, quick)}, {"dead", provider(t, dead)}, {"limited", provider(t, limited)}} {
			text += fmt.Sprintf("  - {slug: %s, base_url: 'http://%s/v1', models: [{model: author/model, price: {prompt: 0.2%d, completion: 0.6}}]}\n", p.slug, p.at, i)
		}
		return text
	})
	control(t, g.acme, `{"latency_ms":600}`)
	control(t, dead, `{"fault":"500"}`)
	control(t, limited, `{"fault":"429","retry_after":500}`)
	one := func(slug, more string, want int) {
		t.Helper()
		if r := g.chat(ask(model, `,"stream":true,"max_tokens":20,"provider":{"only":["`+slug+`"]}`+more)); r.status != want {
			t.Fatalf("%s: %d %s", slug, r.status, r.body)
		}
	}
	for range 8 {
		one("acme", "", 200)
		one("quick", "", 200)
	}
	one("quick", `,"session_id":"dear to me"`, 200)
	for range 3 {
		one("dead", "", 502)
	}
	one("limited", "", 429)

	st, err := store.Open(t.Context(), g.path("data/hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	g.until("the state is kept", func() bool {
		_, b, _ := st.Learned(t.Context())
		return strings.Contains(string(b), `"skip":"cooldown"`) && strings.Contains(string(b), `"skip":"rate_limited"`) && strings.Contains(string(b), `"armed":true`)
	})
	before, mine := g.outlook(model, ""), g.outlook(model, `,"session_id":"dear to me"`)
	if before.Share["quick"] < 0.8 || before.Wait["acme"] < 0.4 || len(before.Out) != 2 || before.Flights != 0 || mine.Reason != "stick" || before.Reason != "share" {
		t.Fatalf("before: %+v\nin the conversation: %+v", before, mine)
	}
	_ = g.cmd.Process.Signal(syscall.SIGKILL)
	if code := g.end(); code != -1 {
		t.Fatalf("it ended by itself with code %d", code)
	}
	g.run()
	if after := g.outlook(model, ""); !after.same(before) {
		t.Errorf("after the kill %+v\nbefore %+v", after, before)
	}
	if after := g.outlook(model, `,"session_id":"dear to me"`); !after.same(mine) {
		t.Errorf("in the conversation after the kill %+v\nbefore %+v", after, mine)
	}

	control(t, dead, `{"fault":"none"}`)
	control(t, limited, `{"fault":"none"}`)
	for range 5 { // nobody asks those who are out
		if r := g.chat(ask(model, "")); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if d, l := dead.Seen().Requests, limited.Seen().Requests; d != 3 || l != 1 {
		t.Errorf("those who are out were asked %d and %d times", d, l)
	}
	g.signal(syscall.SIGTERM)
	if code := g.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
