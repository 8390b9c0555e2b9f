package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// budget is what a request may wait in tests whose loads take longer.
const budget = "0.5"

// hopeless is a gateway that knows how long Exaone's loads take, and in which Gemma is loaded and in use by the stream.
func hopeless(t *testing.T) (g *gateway, s *stream) {
	t.Helper()
	g = nodes(t, fmt.Sprintf(alone, place("exaone", exaone, engineLine(t, exaone, []string{"--load", "700ms"}), ", wait: 1m")+
		place("gemma", gemma, quick(t, gemma, "--tokens-per-second", "20"), ", wait: 1m")), gemma, exaone)
	g.served(g.chat(ask(exaone, "")), local, exaone)
	s = g.stream(ask(gemma, endless))
	s.next(t)
	return g, s
}

// soonest is in how many seconds the first candidate can be ready at the least, as the chain of a request for the model says.
func (g *gateway) soonest(model string) float64 {
	g.t.Helper()
	var doc struct {
		Data struct {
			Candidates []struct {
				Slot struct {
					Soonest float64 `json:"soonest_seconds"`
				} `json:"slot"`
			} `json:"candidates"`
		} `json:"data"`
	}
	r := g.call("POST", "/chain", ask(model, ""))
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil || len(doc.Data.Candidates) == 0 {
		g.t.Fatalf("%d %v %s", r.status, err, r.body)
	}
	return doc.Data.Candidates[0].Slot.Soonest
}

// A request that waiting would not help goes to the next candidate at once. It leaves a vote, and the model that is in use
// where it is.
func TestHopeless(t *testing.T) {
	t.Parallel()
	g, s := hopeless(t)
	before := g.engineOf(gemma)
	if soonest := g.soonest(exaone); soonest < 0.7 {
		t.Errorf("the chain says that it can be ready in %g s", soonest)
	}
	r := g.chat(ask(exaone, ""), "X-MyIP-Max-Wait", budget)
	g.served(r, "Acme AI", exaone)
	skipped := g.attempts(r, exaone+" slot_busy", exaone+" 200")[0]
	if skipped.Message != "the model cannot be ready in the time that is left" || skipped.SlotWait >= 500 {
		t.Errorf("the record says %+v", skipped)
	}
	if x := g.slot("exaone"); x.State != "asleep" || x.Votes != 1 || x.Waiting != 0 {
		t.Errorf("exaone: %+v", x)
	}
	if x := g.slot("gemma"); x.State != "ready" || x.TurnSince != nil || x.Inflight != 1 {
		t.Errorf("gemma: %+v", x)
	}

	got := g.asked(ask(exaone, onlyLocal), "X-MyIP-Max-Wait", budget)
	g.until("it waits if nobody else can serve it", func() bool { return g.slot("exaone").Waiting == 1 })
	r = <-got
	g.loading(r)
	if waited := g.attempts(r, exaone+" slot_busy")[0]; waited.SlotWait < 500 || waited.Message != "the GPU is busy with another model" {
		t.Errorf("the record says %+v", waited)
	}
	s.next(t)
	g.until("Gemma goes on", func() bool { x := g.slot("gemma"); return x.State == "ready" && x.TurnSince == nil })
	g.served(g.chat(ask(gemma, `, "max_tokens": 1`), "X-MyIP-Max-Wait", "0"), local, gemma)
	if now := g.engines(); before == 0 || !cmp.Equal(now, []int{before}) {
		t.Errorf("engines %v, before %d", now, before)
	}

	s.resp.Body.Close()
	g.until("votes start it once nobody uses the GPU", func() bool {
		return g.chat(ask(exaone, ""), "X-MyIP-Max-Wait", "0.1").header.Get("X-MyIP-Provider") == local
	})
	if n := strings.Count(g.log.String(), `slot=exaone from=asleep to=starting inflight=0 waiting=0 why="requests that could not wait for it have gone elsewhere"`); n != 1 {
		t.Errorf("votes started it %d times\n%s", n, g.log)
	}
}

// leaver sends a request whose caller leaves when the returned function is called.
func (g *gateway) leaver(body string) (leave func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/api/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			g.t.Errorf("it was answered: %s", resp.Status)
		}
	}()
	return func() { cancel(); <-gone }
}

// Whoever is skipped, or leaves, evicts nobody: the model in use has its engine as before, and the other was not loaded.
func TestSkippedEvictsNobody(t *testing.T) {
	t.Parallel()
	g, s := hopeless(t)
	before, loads := g.engineOf(gemma), g.slot("exaone").Learned.Loads
	for range 8 {
		g.served(g.chat(ask(exaone, ""), "X-MyIP-Max-Wait", budget), "Acme AI", exaone)  // waiting is hopeless
		g.served(g.chat(ask(exaone, ""), "X-MyIP-Max-Wait", "0"), "Acme AI", exaone)     // it does not wait
		g.loading(g.chat(ask(exaone, onlyLocal), "X-MyIP-Max-Wait", "0"))                // nor does it, with nowhere to go
		g.served(g.chat(ask(exaone, ""), "X-Stainless-Timeout", "2"), "Acme AI", exaone) // its client does not
		s.next(t)
	}
	if n := g.slot("exaone").Votes; n == 0 {
		t.Error("nobody has left a vote")
	}

	// One who waits for it has left before the turn is over.
	waits := g.leaver(ask(exaone, onlyLocal))
	g.until("it waits", func() bool { return g.slot("exaone").Waiting == 1 })
	waits()
	g.until("it has left", func() bool { x := g.slot("exaone"); return x.Waiting == 0 && g.slot("gemma").State == "ready" })

	g.served(g.chat(ask(gemma, `, "max_tokens": 1`), "X-MyIP-Max-Wait", "0"), local, gemma)
	s.next(t)
	if now, x := g.engines(), g.slot("exaone"); before == 0 || !cmp.Equal(now, []int{before}) || x.Learned.Loads != loads || x.State != "asleep" {
		t.Errorf("engines %v, before %d; exaone: %+v", now, before, x)
	}
	if strings.Contains(g.log.String(), "slot=gemma from=draining to=stopping") {
		t.Errorf("gemma's engine was told to end\n%s", g.log)
	}
}
