package relay

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

// free makes an endpoint one that costs nothing and may be probed.
func free(serve http.HandlerFunc) part {
	return part{
		serve: serve, edit: func(e *hearth.Endpoint) { e.List = hearth.Price{} },
		provider: func(p *hearth.Provider) { p.Probe = hearth.ProbeFree },
	}
}

// told is what a prober has told, one line each: endpoint, word, seconds since the start.
type told struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (l *told) note(_ string, p Probed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%s %s %.0f", p.Endpoint.Tag, p.Word(), time.Since(l.start).Seconds()))
}

func (l *told) since(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(want, l.lines); d != "" {
		t.Errorf("probes (-want +got):\n%s", d)
	}
}

// probes runs a prober until the test ends.
func (s *scene) probes(every time.Duration) *told {
	l := &told{start: time.Now()}
	p := &Prober{Current: func() *Relay { return s.relay }, Every: func() time.Duration { return every }, Told: l.note}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	s.t.Cleanup(func() { cancel(); done.Wait() })
	return l
}

// fails puts endpoints into the cooldown of three failures.
func (s *scene) fails(endpoints ...int) {
	for _, i := range endpoints {
		for range health.Threshold {
			p, ok := s.health.Take(i, time.Now())
			if !ok {
				s.t.Fatalf("endpoint %d is out", i)
			}
			p.Done(health.Failure, 0, time.Now())
		}
	}
}

// A provider hangs. The minute of its cooldown is kept; then the gateway itself finds out whether it answers again, and
// no caller ever waits for it.
func TestProber_Hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, free(silent), good)
		log := s.probes(15 * time.Second)
		for range 3 { // the first byte is waited for half a minute
			if g := s.record(s.ask(t.Context(), chat(stream)).id); g.Slug != "p1" {
				t.Fatalf("served by %q", g.Slug)
			}
		}
		<-time.After(500 * time.Millisecond)                                  // not at the very instants of the probes
		for at := 90 * time.Second; at < 270*time.Second; at += time.Second { // 90 s have passed
			if a := s.ask(t.Context(), chat(stream)); a.took > time.Second {
				t.Fatalf("a caller waited %v at %v", a.took, at)
			}
			<-time.After(time.Second)
		}
		log.since(t, "p0 failed 180", "p0 failed 270") // asked at 150 s, given up at 180, and again a minute later
		if got := s.peers[0].lastBody(); !strings.Contains(got, `"max_tokens":1`) || !strings.Contains(got, `"up-model"`) || !strings.Contains(got, "Say: ok") {
			t.Errorf("what was sent: %s", got)
		}
		s.peers[0].plays(answers)
		<-time.After(60 * time.Second)
		log.since(t, "p0 failed 180", "p0 failed 270", "p0 answered 330")
		if g := s.record(s.ask(t.Context(), chat(stream)).id); g.Slug != "p0" || words(g.Attempts) != "200" {
			t.Errorf("afterwards served by %q: %s", g.Slug, words(g.Attempts))
		}
		if g := s.record("probe"); g != nil {
			t.Errorf("a probe has a record: %+v", g)
		}
		s.permitsBack()
	})
}

// Who may be asked, when, and how many at once.
func TestProber(t *testing.T) {
	asks := func(s *scene, d time.Duration, out ...int) *told {
		s.fails(out...)
		log := s.probes(15 * time.Second)
		<-time.After(d)
		return log
	}
	bubble := func(name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	bubble("not one that has a price", func(t *testing.T) {
		p := free(answers)
		p.edit = nil
		asks(stage(t, Options{}, p, good), time.Hour, 0).since(t)
	})
	bubble("but where the operator pays", func(t *testing.T) {
		p := free(answers)
		p.edit, p.provider = nil, func(p *hearth.Provider) { p.Probe = hearth.ProbeAlways }
		s := stage(t, Options{}, p, good)
		var cost hearth.Nano
		s.fails(0)
		pr := &Prober{Current: func() *Relay { return s.relay }, Every: func() time.Duration { return time.Second }, Told: func(currency string, p Probed) {
			if cost = p.Cost; currency != "KRW" || p.Usage.PromptTokens != 3 {
				t.Errorf("%s %+v", currency, p)
			}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		pr.Run(ctx)
		if cost != 7e9 { // 3 prompt tokens and 2 of the answer
			t.Errorf("it cost %d", cost)
		}
	})
	bubble("not one that is well, nor one of a cooldown that is not over", func(t *testing.T) {
		s := stage(t, Options{}, free(answers), free(answers), good)
		asks(s, 59*time.Second, 0).since(t)
		<-time.After(3 * time.Second)
		if n := s.peers[1].seen.Load(); n != 0 || s.peers[0].seen.Load() != 1 {
			t.Errorf("%d and %d requests", s.peers[0].seen.Load(), n)
		}
	})
	bubble("one that goes on failing once in its minute", func(t *testing.T) {
		s := stage(t, Options{}, free(refuses(500, "{}")), good)
		asks(s, 245*time.Second, 0).since(t, "p0 failed 60", "p0 failed 120", "p0 failed 180", "p0 failed 240")
	})
	bubble("a rate limit is an answer of its kind, and is left alone", func(t *testing.T) {
		s := stage(t, Options{}, free(refuses(429, "{}", "Retry-After", "120")), good)
		asks(s, 400*time.Second, 0).since(t, "p0 rate_limited 60")
	})
	bubble("one that refuses the request itself ever less often, down to once a minute", func(t *testing.T) {
		s := stage(t, Options{}, free(refuses(400, "{}")), good)
		log := asks(s, 11*time.Minute, 0) // of which ten after the cooldown
		log.mu.Lock()
		defer log.mu.Unlock()
		if n := len(log.lines); n < 10 || n > 15 {
			t.Errorf("%d probes: %q", n, log.lines)
		}
	})
	bubble("at most four at once", func(t *testing.T) {
		parts := []part{good}
		for range 6 {
			parts = append(parts, free(after(10*time.Second, answers)))
		}
		s := stage(t, Options{}, parts...)
		log := asks(s, 65*time.Second, 1, 2, 3, 4, 5, 6)
		n := int64(0)
		for _, p := range s.peers {
			n += p.inflight.Load()
		}
		if n != probesAtOnce {
			t.Errorf("%d under way", n)
		}
		<-time.After(20 * time.Second)
		log.mu.Lock()
		defer log.mu.Unlock()
		if len(log.lines) != 6 {
			t.Errorf("%q", log.lines)
		}
	})
	bubble("a caller who tries it already is not joined", func(t *testing.T) {
		s := stage(t, Options{}, free(after(20*time.Second, answers)), good)
		s.fails(0)
		<-time.After(60 * time.Second)
		go s.ask(t.Context(), chat(stream))
		synctest.Wait()
		log := s.probes(15 * time.Second)
		<-time.After(30 * time.Second)
		log.since(t)
	})
	bubble("one that never answers is given up, whatever the limits", func(t *testing.T) {
		s := stage(t, Options{}, free(silent), good)
		s.cat.Endpoints[0].Provider.Limits = hearth.Limits{}
		asks(s, 200*time.Second, 0).since(t, "p0 failed 180")
	})
	bubble("the end ends those under way", func(t *testing.T) {
		s := stage(t, Options{}, free(silent), good)
		s.fails(0)
		<-time.After(60 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		(&Prober{Current: func() *Relay { return s.relay }, Every: func() time.Duration { return time.Second }, Told: func(_ string, p Probed) {
			t.Errorf("told of %s", p.Word())
		}}).Run(ctx)
		if took := time.Since(start); took != 5*time.Second || s.peers[0].seen.Load() != 1 {
			t.Errorf("ended after %v with %d probes", took, s.peers[0].seen.Load())
		}
		s.permitsBack()
	})
}

// A breaker that is half-open is closed by probes: three answers, no two within the least time.
func TestProber_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{ByCost: true}, free(answers), good)
		for _, e := range s.cat.Endpoints {
			e.Priority = 0
		}
		r := routing.NewRouter(s.cat, routing.Options{}, time.Now())
		s.relay.router = r
		ask := routing.Ask{In: 10, Stream: true}
		for i := range 40 {
			try, res := r.Begin(&ask, i%2, routing.Share, time.Now()), routing.Result{Outcome: routing.Failed}
			if i%2 == 1 {
				res = routing.Result{Outcome: routing.Answered, In: 10, Out: 10}
			}
			<-time.After(100 * time.Millisecond)
			try.Done(res, time.Now())
			r.Refresh(time.Now())
		}
		open := func() bool { return r.Health(s.health.View(), time.Now())[0].Skip != "" }
		if !open() {
			t.Fatal("the breaker is closed after twenty failures")
		}
		log := s.probes(15 * time.Second)
		<-time.After(11 * time.Second)
		if open() || s.peers[0].seen.Load() != 1 {
			t.Fatalf("open %v after ten seconds, %d probes", open(), s.peers[0].seen.Load())
		}
		<-time.After(5 * time.Minute)
		log.mu.Lock()
		defer log.mu.Unlock()
		if len(log.lines) != 3 || len(r.Probes(nil, time.Now())) != 0 {
			t.Errorf("%q, and %v are half-open", log.lines, r.Probes(nil, time.Now()))
		}
		var at [3]float64
		for i, l := range log.lines {
			if _, err := fmt.Sscanf(l, "p0 answered %f", &at[i]); err != nil || i > 0 && at[i]-at[i-1] < 15 {
				t.Errorf("%q: %v", log.lines, err)
			}
		}
	})
}
