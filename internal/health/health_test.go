package health

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// tracker has three endpoints; 0 and 1 share an account.
func tracker() *Tracker {
	a := &hearth.Provider{Slug: "a", Limits: hearth.Limits{FirstByte: 5 * time.Second}}
	b := &hearth.Provider{Slug: "b", Limits: hearth.Limits{FirstByte: 5 * time.Second}}
	return NewTracker(&hearth.Catalog{Endpoints: []*hearth.Endpoint{{Provider: a}, {Provider: a}, {Provider: b}}})
}

func (t *Tracker) try(tt interface{ Fatalf(string, ...any) }, i int, now time.Time, o Outcome) {
	p, ok := t.Take(i, now)
	if !ok {
		tt.Fatalf("endpoint %d is refused at +%s", i, now.Sub(t0))
	}
	p.Done(o, 0, now)
}

func (t *Tracker) out(i int, now time.Time) bool {
	p, ok := t.Take(i, now)
	p.Done(NoVerdict, 0, now)
	return !ok
}

func TestCooldown(t *testing.T) {
	t.Run("three failures in a row are sixty seconds out", func(t *testing.T) {
		h := tracker()
		for n := range Threshold {
			if h.out(0, t0) {
				t.Fatalf("out after %d failures", n)
			}
			h.try(t, 0, t0, Failure)
		}
		if !h.out(0, t0.Add(59*time.Second)) {
			t.Error("tried inside the cooldown")
		}
		if h.View()[0].Skip != hearth.SkipCooldown || !h.View()[0].Until.Equal(t0.Add(Cooldown)) {
			t.Errorf("published %+v", h.View()[0])
		}
		if h.out(1, t0) || h.out(2, t0) {
			t.Error("another endpoint is out too")
		}
		if h.out(0, t0.Add(Cooldown)) {
			t.Error("still out after the cooldown")
		}
	})
	t.Run("one success clears the counter at once", func(t *testing.T) {
		h := tracker()
		for range 5 {
			h.try(t, 0, t0, Failure)
			h.try(t, 0, t0, Failure)
			h.try(t, 0, t0, Success)
		}
		if h.out(0, t0) {
			t.Error("out although no three failures came in a row")
		}
	})
	t.Run("a late failure of an earlier request does not prolong the cooldown", func(t *testing.T) {
		h := tracker()
		late, _ := h.Take(0, t0)
		for range Threshold {
			h.try(t, 0, t0, Failure)
		}
		late.Done(Failure, 0, t0.Add(30*time.Second))
		if h.out(0, t0.Add(Cooldown)) {
			t.Error("prolonged")
		}
	})
}

func TestCooldown_LateRateLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		first Outcome
		times int
		until time.Duration
	}{
		{"a late 429 does not shorten the cooldown", Failure, Threshold, Cooldown},
		{"nor the pause of an account", KeyRefused, 1, AccountPause},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := tracker()
			late, _ := h.Take(0, t0)
			for range c.times {
				h.try(t, 0, t0, c.first)
			}
			late.Done(RateLimited, 2*time.Second, t0.Add(time.Second))
			if !h.out(0, t0.Add(c.until-time.Second)) || h.out(0, t0.Add(c.until)) {
				t.Errorf("out until %s, want %s", h.View()[0].Until.Sub(t0), c.until)
			}
		})
	}
	t.Run("a wish for longer than the cooldown counts", func(t *testing.T) {
		h := tracker()
		late, _ := h.Take(0, t0)
		for range Threshold {
			h.try(t, 0, t0, Failure)
		}
		late.Done(RateLimited, 5*time.Minute, t0)
		if !h.out(0, t0.Add(4*time.Minute)) {
			t.Error("tried before the provider's time")
		}
	})
}

func TestHalfOpen(t *testing.T) {
	after := t0.Add(Cooldown)
	cooled := func() *Tracker {
		h := tracker()
		for range Threshold {
			h.try(t, 0, t0, Failure)
		}
		return h
	}
	t.Run("exactly one request probes", func(t *testing.T) {
		h := cooled()
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for range 50 {
			wg.Go(func() {
				if _, ok := h.Take(0, after); ok {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if granted != 1 {
			t.Errorf("%d probes at once", granted)
		}
	})
	t.Run("a failed probe is sixty seconds more", func(t *testing.T) {
		h := cooled()
		h.try(t, 0, after, Failure)
		if !h.out(0, after.Add(Cooldown-time.Second)) || h.out(0, after.Add(Cooldown)) {
			t.Error("not out for exactly one more cooldown")
		}
	})
	t.Run("a probe without verdict lets the next request probe at once", func(t *testing.T) {
		h := cooled()
		h.try(t, 0, after, NoVerdict)
		h.try(t, 0, after, Success)
		if h.out(0, after) {
			t.Error("out after a success")
		}
	})
	t.Run("a permit older than the first-byte limit is void", func(t *testing.T) {
		h := cooled()
		old, ok := h.Take(0, after)
		if !ok {
			t.Fatal("no probe")
		}
		if !h.out(0, after.Add(4*time.Second)) {
			t.Error("second probe while the first is out")
		}
		p, ok := h.Take(0, after.Add(5*time.Second))
		if !ok {
			t.Fatal("the void permit still blocks")
		}
		old.Done(NoVerdict, 0, after.Add(6*time.Second))
		if _, ok := h.Take(0, after.Add(6*time.Second)); ok {
			t.Error("the void permit gave back somebody else's probe")
		}
		p.Done(Success, 0, after.Add(7*time.Second))
	})
}

func TestRateLimit(t *testing.T) {
	h := tracker()
	p, _ := h.Take(0, t0)
	p.Done(RateLimited, 7*time.Second, t0)
	if !h.out(0, t0.Add(6*time.Second)) || h.out(0, t0.Add(7*time.Second)) {
		t.Error("not out for exactly the Retry-After")
	}
	now := t0
	for range 20 {
		p, ok := h.Take(2, now)
		if !ok {
			t.Fatalf("refused at +%s, after the back-off", now.Sub(t0))
		}
		p.Done(RateLimited, 0, now)
		now = h.View()[2].Until
	}
	if got := now.Sub(t0); got < 4*time.Minute {
		t.Errorf("twenty rate limits cost only %s", got)
	}
	p, _ = h.Take(2, now)
	p.Done(RateLimited, 0, now)
	if got := h.View()[2].Until.Sub(now); got != rateLimitMax {
		t.Errorf("back-off %s, want the maximum %s", got, rateLimitMax)
	}
	p, _ = h.Take(1, t0)
	p.Done(RateLimited, 24*time.Hour, t0)
	if got := h.View()[1].Until.Sub(t0); got != MaxRetryAfter {
		t.Errorf("Retry-After of a day gives %s, want the cap %s", got, MaxRetryAfter)
	}
}

func TestRateLimit_ASuccessBeginsTheBackOffAnew(t *testing.T) {
	h := tracker()
	now := t0
	for range 5 {
		h.try(t, 0, now, RateLimited)
		now = h.View()[0].Until
	}
	h.try(t, 0, now, Success)
	h.try(t, 0, now, RateLimited)
	if got := h.View()[0].Until.Sub(now); got != rateLimitFirst {
		t.Errorf("back-off %s after a success, want %s", got, rateLimitFirst)
	}
}

func TestKeyRefused(t *testing.T) {
	h := tracker()
	h.try(t, 0, t0, KeyRefused)
	if !h.out(0, t0) || !h.out(1, t0) {
		t.Error("an endpoint of the refused account is still tried")
	}
	if h.out(2, t0) {
		t.Error("another account is out")
	}
}

// Whatever the order of takes and returns, at most one probe is out at a time, and an endpoint that only succeeds is
// never out.
func TestPermitProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := tracker()
		now := t0
		var held []Permit
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "op") {
			case 0:
				if p, ok := h.Take(0, now); ok {
					held = append(held, p)
				}
			case 1:
				if len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
					held[i].Done(Outcome(rapid.IntRange(0, int(KeyRefused)).Draw(rt, "outcome")), 0, now)
					held = append(held[:i], held[i+1:]...)
				}
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(rt, "secs")) * time.Second)
			}
			probes := 0
			for _, p := range held {
				if p.probe != 0 && p.probe == h.ends[0].probing && now.Before(h.ends[0].probeEnds) {
					probes++
				}
			}
			if probes > 1 {
				rt.Fatalf("%d probes in force", probes)
			}
			if h.out(2, now) {
				rt.Fatalf("an untouched endpoint is out")
			}
		}
	})
}

func BenchmarkTakeDone(b *testing.B) {
	h := tracker()
	b.ReportAllocs()
	for b.Loop() {
		p, _ := h.Take(0, t0)
		p.Done(Success, 0, t0)
	}
}

// When its time is over nobody is held back, and a crowd that is limited again is one limit.
func TestRateLimit_IsOver(t *testing.T) {
	h := tracker()
	h.try(t, 0, t0, RateLimited)
	at := t0.Add(rateLimitFirst)
	var crowd []Permit
	for range 50 {
		p, ok := h.Take(0, at)
		if !ok {
			t.Fatalf("%d of 50 were let through", len(crowd))
		}
		crowd = append(crowd, p)
	}
	for i := range crowd {
		crowd[i].Done(RateLimited, 0, at)
	}
	if until := h.View()[0].Until.Sub(at); until != rateLimitFirst*8/5 {
		t.Errorf("the second limit is %s, want %s", until, rateLimitFirst*8/5)
	}
}
