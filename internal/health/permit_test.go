package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func (t *Tracker) anyway(tt interface{ Fatalf(string, ...any) }, i int, now time.Time, o Outcome) {
	p, ok := t.TakeAnyway(i, now)
	if !ok {
		tt.Fatalf("endpoint %d is refused as the last resort at +%s", i, now.Sub(t0))
	}
	p.Done(o, 0, now)
}

func cooled(t *testing.T) *Tracker {
	h := tracker()
	for range Threshold {
		h.try(t, 0, t0, Failure)
	}
	return h
}

func TestLastResort(t *testing.T) {
	at := t0.Add(10 * time.Second)
	t.Run("a success ends the cooldown", func(t *testing.T) {
		h := cooled(t)
		h.anyway(t, 0, at, Success)
		if h.out(0, at) {
			t.Error("still out")
		}
		h.try(t, 0, at, Failure)
		if h.out(0, at) {
			t.Error("out again after one failure")
		}
	})
	t.Run("the first word of the answer ends it already", func(t *testing.T) {
		h := cooled(t)
		p, _ := h.TakeAnyway(0, at)
		p.Answering(at)
		if h.out(0, at) {
			t.Error("still out")
		}
		p.Done(Failure, 0, at)
		if h.out(0, at) {
			t.Error("out again after one failure")
		}
	})
	t.Run("a failure begins it anew", func(t *testing.T) {
		h := cooled(t)
		h.anyway(t, 0, at, Failure)
		if until := h.View()[0].Until; !until.Equal(at.Add(Cooldown)) {
			t.Errorf("out until +%s", until.Sub(t0))
		}
	})
	t.Run("no verdict changes nothing", func(t *testing.T) {
		h := cooled(t)
		h.anyway(t, 0, at, NoVerdict)
		if until := h.View()[0].Until; !until.Equal(t0.Add(Cooldown)) {
			t.Errorf("out until +%s", until.Sub(t0))
		}
	})
	t.Run("several at once: one that succeeds is enough", func(t *testing.T) {
		h := cooled(t)
		a, _ := h.TakeAnyway(0, at)
		b, ok := h.TakeAnyway(0, at)
		a.Done(Failure, 0, at)
		b.Done(Success, 0, at)
		if !ok || h.out(0, at) {
			t.Errorf("second granted: %v; out: %v", ok, h.out(0, at))
		}
	})
	t.Run("it does not take the place of the probe", func(t *testing.T) {
		h := cooled(t)
		held, _ := h.TakeAnyway(0, at)
		if h.out(0, t0.Add(Cooldown)) {
			t.Error("no probe after the cooldown")
		}
		held.Done(NoVerdict, 0, at)
	})
	t.Run("an endpoint in use is simply taken", func(t *testing.T) { tracker().anyway(t, 0, t0, Success) })
	t.Run("after the cooldown there is one probe, and no more", func(t *testing.T) {
		h := cooled(t)
		p, ok := h.TakeAnyway(0, t0.Add(Cooldown))
		if _, second := h.TakeAnyway(0, t0.Add(Cooldown)); !ok || second || p.probe == 0 {
			t.Errorf("granted %v and %v", ok, second)
		}
	})
	for name, o := range map[string]Outcome{"a rate limit stands": RateLimited, "a refused key stands": KeyRefused} {
		t.Run(name, func(t *testing.T) {
			h := tracker()
			p, _ := h.Take(0, t0)
			p.Done(o, time.Minute, t0)
			if _, ok := h.TakeAnyway(0, at); ok {
				t.Error("tried all the same")
			}
		})
	}
}

// The late word of a request that was under way before is no news.
func TestLateWords(t *testing.T) {
	at := t0.Add(10 * time.Second)
	for _, c := range []struct {
		name  string
		first Outcome // takes the endpoint out, at t0
		late  Outcome
		asked time.Duration
		until time.Duration
	}{
		{"a failure does not prolong a cooldown", Failure, Failure, 0, Cooldown},
		{"a success does not end a cooldown", Failure, Success, 0, Cooldown},
		{"a 429 without a time does not prolong a cooldown", Failure, RateLimited, 0, Cooldown},
		{"a 429 with a time that is longer does", Failure, RateLimited, 2 * time.Minute, 130 * time.Second},
		{"a success does not end a rate limit", RateLimited, Success, 0, 20 * time.Second},
		{"a failure does not prolong a rate limit", RateLimited, Failure, 0, 20 * time.Second},
		{"a refused key prolongs a rate limit", RateLimited, KeyRefused, 0, 310 * time.Second},
		{"a success does not end the pause of an account", KeyRefused, Success, 0, AccountPause},
		{"a refused key does not prolong the pause of an account", KeyRefused, KeyRefused, 0, AccountPause},
		{"a failure does not shorten the pause of an account", KeyRefused, Failure, 0, AccountPause},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := tracker()
			late, _ := h.Take(0, t0)
			last, _ := h.Take(0, t0)
			for range Threshold - 1 {
				if c.first == Failure {
					h.try(t, 0, t0, Failure)
				}
			}
			last.Done(c.first, 20*time.Second, t0)
			late.Done(c.late, c.asked, at)
			if until := h.View()[0].Until.Sub(t0); until != c.until {
				t.Errorf("out until +%s, want +%s", until, c.until)
			}
		})
	}
	t.Run("a crowd that is limited together is one limit", func(t *testing.T) {
		h := tracker()
		var crowd []Permit
		for range 50 {
			p, _ := h.Take(0, t0)
			crowd = append(crowd, p)
		}
		for i := range crowd {
			crowd[i].Done(RateLimited, 0, t0)
		}
		if until := h.View()[0].Until.Sub(t0); until != rateLimitFirst {
			t.Errorf("out for %s, want %s", until, rateLimitFirst)
		}
	})
	t.Run("so is one that is told when to come back", func(t *testing.T) {
		h := tracker()
		var crowd []Permit
		for range 50 {
			p, _ := h.Take(0, t0)
			crowd = append(crowd, p)
		}
		for i := range crowd {
			crowd[i].Done(RateLimited, time.Duration(i+1)*time.Second, t0)
		}
		at := t0.Add(50 * time.Second)
		h.try(t, 0, at, RateLimited)
		if until := h.View()[0].Until.Sub(at); until != rateLimitFirst*8/5 {
			t.Errorf("the second limit is %s, want %s", until, rateLimitFirst*8/5)
		}
	})
	t.Run("a permit that is given back twice counts once", func(t *testing.T) {
		h := tracker()
		p, _ := h.Take(0, t0)
		for range Threshold {
			p.Done(Failure, 0, t0)
		}
		if h.out(0, t0) {
			t.Error("one failure counted as three")
		}
	})
	t.Run("a failure after a rate limit is the first, not the third", func(t *testing.T) {
		h := tracker()
		h.try(t, 0, t0, RateLimited)
		h.try(t, 0, t0.Add(rateLimitFirst), Failure)
		if h.out(0, t0.Add(rateLimitFirst)) {
			t.Error("out after one failure")
		}
	})
	t.Run("a probe that was overtaken by a refused key lifts nothing", func(t *testing.T) {
		h := cooled(t)
		probe, _ := h.Take(0, t0.Add(Cooldown))
		h.try(t, 1, t0.Add(Cooldown), KeyRefused)
		probe.Answering(t0.Add(Cooldown))
		probe.Done(Success, 0, t0.Add(Cooldown))
		if !h.out(0, t0.Add(Cooldown)) || !h.out(1, t0.Add(Cooldown)) {
			t.Error("tried with a refused key")
		}
	})
}

func TestKeyRefused_Pause(t *testing.T) {
	after := t0.Add(AccountPause)
	t.Run("is over for all endpoints of the account when one answers", func(t *testing.T) {
		h := tracker()
		h.try(t, 0, t0, KeyRefused)
		p, ok := h.Take(1, after)
		if !ok {
			t.Fatal("no probe after the pause")
		}
		p.Answering(after)
		if v := h.View(); v[0].Skip != "" || v[1].Skip != "" {
			t.Errorf("published %+v", v)
		}
	})
	t.Run("begins anew for all when the key is refused again", func(t *testing.T) {
		h := tracker()
		h.try(t, 0, t0, KeyRefused)
		h.try(t, 1, after, KeyRefused)
		if !h.out(0, after.Add(AccountPause-1)) || h.out(0, after.Add(AccountPause)) {
			t.Error("not out for one more pause")
		}
	})
	t.Run("leaves a longer rate limit alone", func(t *testing.T) {
		h := tracker()
		p, _ := h.Take(1, t0)
		p.Done(RateLimited, 9*time.Minute, t0)
		h.try(t, 0, t0, KeyRefused)
		if !h.out(1, t0.Add(8*time.Minute)) {
			t.Error("tried before the provider's time")
		}
	})
}

// A clock that jumps leaves no endpoint out for longer than anything may, and the monotonic clock keeps to the letter.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-1000 * time.Hour, -time.Hour, -10 * time.Minute, -9 * time.Minute, -30 * time.Second, 30 * time.Second, time.Hour, 1000 * time.Hour} {
		for name, o := range map[string]Outcome{"cooldown": Failure, "rate limit": RateLimited, "account": KeyRefused} {
			for _, probing := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s, probing %v", jump, name, probing), func(t *testing.T) {
					h, now := tracker(), t0
					for range Threshold {
						p, _ := h.TakeAnyway(0, now)
						p.Done(o, MaxRetryAfter, now)
					}
					if probing { // the one who probes never comes back
						now = h.View()[0].Until
						if _, ok := h.Take(0, now); !ok {
							t.Fatal("no probe")
						}
					}
					// However long it is looked at from then on, it is never out for longer than it would have been.
					out := time.Duration(0)
					for now = now.Add(jump); out < time.Hour && now.Before(t0.Add(time.Hour)); now = now.Add(time.Second) {
						if h.out(0, now) {
							out += time.Second
						}
						if jump < -time.Hour {
							now = now.Add(time.Minute)
						}
					}
					if out > MaxRetryAfter+6*time.Second { // the limit, and a probe
						t.Errorf("out for %s in all", out)
					}
				})
			}
		}
	}
	t.Run("with its monotonic reading a time is not touched by the wall clock", func(t *testing.T) {
		h, now := tracker(), time.Now()
		for range Threshold {
			h.try(t, 0, now, Failure)
		}
		if until := h.View()[0].Until; !strings.Contains(until.String(), " m=") || !strings.Contains(now.String(), " m=") {
			t.Errorf("%s has lost it", until)
		}
	})
}

// scene is one request of a script: when it comes, when its answer begins and ends and how, and when its caller leaves.
type scene struct {
	at, first, end, leaves time.Duration
	outcome                Outcome
	anyway                 bool
}

// Under callers who leave at any moment, permits are given back once, at most one probe is out within the first-byte
// limit, and in the end the endpoint is in use again or has exactly one probe to give after a cooldown.
func TestPermits_RandomCancels(t *testing.T) {
	seconds := func(rt *rapid.T, name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most*4).Draw(rt, name)) * time.Second / 4
	}
	rapid.Check(t, func(rt *rapid.T) {
		var script []scene
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			script = append(script, scene{
				at: seconds(rt, "at", 240), first: seconds(rt, "first", 20), end: seconds(rt, "end", 20), leaves: seconds(rt, "leaves", 40),
				outcome: Outcome(rapid.SampledFrom([]int{0, 1, 2, 2, 2, 2, 3, 4}).Draw(rt, "outcome")), anyway: rapid.Bool().Draw(rt, "anyway"),
			})
		}
		var wrong []string
		synctest.Test(t, func(*testing.T) { wrong = play(script) })
		if len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "\n"))
		}
	})
}

func play(script []scene) (wrong []string) {
	h, begin := tracker(), time.Now()
	var mu sync.Mutex
	note := func(format string, args ...any) { // mu is held
		wrong = append(wrong, fmt.Sprintf("+%s: ", time.Since(begin))+fmt.Sprintf(format, args...))
	}
	probes := make(map[*Permit]time.Time) // under way, with when they were given
	var wg sync.WaitGroup
	for _, s := range script {
		wg.Go(func() {
			<-time.After(s.at)
			ctx, cancel := context.WithTimeout(context.Background(), s.leaves)
			defer cancel()
			mu.Lock()
			now, health, take := time.Now(), h.View()[0], h.Take
			if s.anyway {
				take = h.TakeAnyway
			}
			p, ok := take(0, now)
			switch resort := s.anyway && health.Skip == hearth.SkipCooldown && !health.Account; {
			case ok && health.Out(now) && !resort, !ok && health.Out(now) && resort, !ok && health.Skip == "":
				note("granted %v with %+v", ok, health)
			}
			if p.probe != 0 {
				for other, given := range probes {
					// One of an earlier reason is no probe any more: another request has brought the endpoint back since.
					if now.Sub(given) < 5*time.Second && other.reason == p.reason {
						note("two probes at once")
					}
				}
				probes[&p] = now
			}
			mu.Unlock()
			if !ok {
				return
			}
			o := s.outcome
			select {
			case <-time.After(s.first):
				if o == Success || o == Failure {
					mu.Lock()
					p.Answering(time.Now())
					delete(probes, &p)
					mu.Unlock()
				}
				select {
				case <-time.After(s.end):
				case <-ctx.Done():
					o = NoVerdict
				}
			case <-ctx.Done():
				o = NoVerdict
			}
			mu.Lock()
			p.Done(o, 0, time.Now())
			p.Done(Failure, 0, time.Now()) // does nothing
			delete(probes, &p)
			mu.Unlock()
		})
	}
	wg.Wait()
	if n := h.ends[0].probing; n != 0 {
		note("probe %d was never given back", n)
	}
	<-time.After(MaxRetryAfter)
	healthy, granted := h.View()[0].Skip == "", 0
	for range 50 {
		if _, ok := h.Take(0, time.Now()); ok {
			granted++
		}
	}
	free := healthy || h.View()[0].Skip == hearth.SkipRateLimited // of which nothing is left when its time is over
	if free && granted != 50 || !free && granted != 1 {
		note("%d of 50 were granted in the end, with %+v", granted, h.View()[0])
	}
	return wrong
}
