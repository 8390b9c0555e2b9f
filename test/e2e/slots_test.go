package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const local = "MyIP Local GPU"

func TestLocalFirst(t *testing.T) {
	t.Parallel()
	g := start(t, world{})
	t.Run("asleep, then the first request wakes the slot and is served by it", func(t *testing.T) {
		if s := g.status(gemma); s != -2 {
			t.Errorf("status before: %d", s)
		}
		r := g.chat(ask(gemma, ""))
		g.served(r, local, gemma)
		if s := g.status(gemma); s != 0 {
			t.Errorf("status after: %d", s)
		}
		if !strings.Contains(r.body, `I am `+gemma) {
			t.Errorf("another model made the answer: %s", r.body)
		}
		if g.acme.Seen().Requests != 0 {
			t.Error("the prompt left the house")
		}
	})
	t.Run("of two local models the resident one answers, without a swap", func(t *testing.T) {
		g.served(g.chat(fmt.Sprintf(`{"models": [%q, %q], "messages": [{"role":"user","content":"hi"}]}`, exaone, gemma)), local, gemma)
		if s := g.status(exaone); s != -3 {
			t.Errorf("exaone has status %d, want -3: busy with another model", s)
		}
	})
	t.Run("never local", func(t *testing.T) {
		g.served(g.chat(ask(gemma, `, "provider": {"ignore": ["local-gpu"]}`)), "Acme AI", gemma)
	})
}

func TestLongPromptWakesNobody(t *testing.T) {
	t.Parallel()
	g := start(t, world{})
	long := ask(gemma, "")
	long = strings.Replace(long, `"hi"`, `"`+strings.Repeat("many words and more of them ", 8000)+`"`, 1)
	r := g.chat(long)
	g.served(r, "Acme AI", gemma)
	if s := g.status(gemma); s != -2 || len(g.engines()) != 0 {
		t.Errorf("status %d, engines %v: a slot was woken for a prompt that cannot fit", s, g.engines())
	}
	if rec := g.call("GET", "/generation?id="+r.header.Get("X-Generation-Id"), ""); !strings.Contains(rec.body, `"status":"context_length"`) {
		t.Errorf("record %s", rec.body)
	}
	if r := g.chat(strings.Replace(long, `"model"`, `"provider": {"only": ["local-gpu"]}, "model"`, 1)); r.status != 400 || !strings.Contains(r.body, "context_length_exceeded") {
		t.Errorf("local or nothing: %d %.300s", r.status, r.body)
	}
}

func TestSwap(t *testing.T) {
	t.Parallel()
	swapCutsNothing(t, start(t, world{gemmaArgs: []string{"--tokens-per-second", "30"}}), 20)
}

// swapCutsNothing asks for Exaone while Gemma answers with least events or more.
func swapCutsNothing(t *testing.T, g *gateway, least int) {
	t.Helper()
	residents := watchEngines(g)
	s := g.stream(ask(gemma, `, "stream": true`))
	s.next(t)

	var mu sync.Mutex
	var order []string
	note := func(what string) { mu.Lock(); order = append(order, what); mu.Unlock() }
	var wg sync.WaitGroup
	wg.Go(func() {
		g.served(g.chat(ask(exaone, "")), local, exaone)
		note("exaone answered")
	})
	last, done, n := s.rest(t)
	note("gemma's stream ended")
	wg.Wait()
	if done != "[DONE]" || !strings.Contains(last, `"finish_reason":"stop"`) || n < least {
		t.Errorf("the stream was cut by the swap: %d events, then %s, %s", n, last, done)
	}
	if order[0] != "gemma's stream ended" {
		t.Errorf("order %v", order)
	}
	if g.status(exaone) != 0 || g.status(gemma) != -3 {
		t.Errorf("status exaone %d, gemma %d", g.status(exaone), g.status(gemma))
	}
	if most := residents(); most != 1 {
		t.Errorf("%d engines at once on an exclusive node", most)
	}
}

// watchEngines samples how many engines run at once; the returned function ends it and tells the most that was seen.
func watchEngines(g *gateway) func() int {
	stop, result := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, len(g.engines()))
			select {
			case <-stop:
				result <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int { close(stop); return <-result }
}

func TestLoadGoesOnAfterTheWaiterLeft(t *testing.T) {
	t.Parallel()
	g := start(t, world{exaoneArgs: []string{"--load", "1s"}})
	onlyLocal := ask(exaone, `, "provider": {"only": ["local-gpu"]}`)
	r := g.chat(onlyLocal, "X-MyIP-Max-Wait", "0.1")
	if r.status != 503 || !strings.Contains(r.body, `"type":"model_loading"`) || r.header.Get("Retry-After") == "" {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	g.until("the load goes on without a waiter", func() bool { return g.status(exaone) == 0 })
	g.served(g.chat(onlyLocal, "X-MyIP-Max-Wait", "0.1"), local, exaone)
}

func TestBrokenEngine(t *testing.T) {
	t.Parallel()
	g := start(t, world{gemmaArgs: []string{"--fail-start"}, wait: "1m"})
	began := time.Now()
	r := g.chat(ask(gemma, `, "provider": {"only": ["local-gpu"]}`))
	if r.status != 503 || !strings.Contains(r.body, "slot_failed") || !strings.Contains(r.body, "exited with code 1") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("an engine that ended at once was waited for: %s", took)
	}
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
}

func TestEngineKilled(t *testing.T) {
	t.Parallel()
	g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "20", "--parallel", "4"}, places: 4})
	killsCutInBand(t, g)
	killsAreALoop(t, g)
}

// killsCutInBand kills Gemma's engine in the middle of one answer, then in the middle of four: as many break, and the next
// request has another engine.
func killsCutInBand(t *testing.T, g *gateway) {
	t.Helper()
	for i, streams := range []int{1, 4} {
		if i > 0 {
			<-time.After(time.Second) // an engine that is up for less before the second death in a row is a crash loop
		}
		before := killMidStream(t, g, streams)
		g.served(g.chat(ask(gemma, onlyLocal)), local, gemma)
		if now := g.engines(); len(now) != 1 || now[0] == before {
			t.Errorf("engines %v, before %d", now, before)
		}
	}
}

// killsAreALoop kills Gemma's engine, which was killed before, as soon as it answers, until the gateway makes a pause: it
// says how long, and keeps its word.
func killsAreALoop(t *testing.T, g *gateway) {
	t.Helper()
	for range 4 { // up to 2 s after it was ready, 4 s, 8 s, 16 s
		killMidStream(t, g, 1)
		r := g.chat(ask(gemma, onlyLocal))
		if r.status == 200 {
			continue
		}
		after, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != 503 || err != nil || after < 1 || after > 16 || !strings.Contains(r.body, `"type":"model_loading"`) || !strings.Contains(r.body, `"slot_status":"slot_failed"`) {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		<-time.After(time.Duration(after) * time.Second) // the promise is about this time
		g.served(g.chat(ask(gemma, onlyLocal)), local, gemma)
		return
	}
	t.Error("an engine that dies again and again is started as often")
}

// killMidStream kills Gemma's engine in the middle of so many answers, and returns which it was.
func killMidStream(t *testing.T, g *gateway, streams int) (pid int) {
	t.Helper()
	all := make([]*stream, streams)
	for i := range all {
		all[i] = g.stream(ask(gemma, endless))
		all[i].next(t)
	}
	all[streams-1].next(t)
	pids := g.engines()
	if len(pids) != 1 {
		t.Fatalf("engines %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		last, done, _ := s.rest(t)
		if done != "[DONE]" || !strings.Contains(last, `"finish_reason":"error"`) || !strings.Contains(last, `"error":`) {
			t.Errorf("mid-stream: %s, %s", last, done)
		}
	}
	return pids[0]
}

func TestCallerLeavesTheQueue(t *testing.T) {
	t.Parallel()
	g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "20"}})
	a, b := g.stream(ask(gemma, endless)), g.stream(ask(gemma, endless))
	a.next(t)
	b.next(t)
	if r := g.call("GET", "/models/"+gemma+"/endpoints", ""); !strings.Contains(r.body, `"inflight":2`) {
		t.Errorf("both places should be taken: %s", r.body)
	}
	a.resp.Body.Close()
	b.resp.Body.Close()
	g.until("both places are free again", func() bool {
		return strings.Contains(g.call("GET", "/models/"+gemma+"/endpoints", "").body, `"inflight":0`)
	})
}
