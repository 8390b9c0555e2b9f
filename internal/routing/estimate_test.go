package routing

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSums(t *testing.T) {
	t.Run("a window halves in its half-life", func(t *testing.T) {
		s := sums{Tries: 8, Errors: 4, First: 8, TTFT: 16, Scale: 8, Answers: 8, Tokens: 800, Sent: 8, Limits: 2}
		s.fade(15, halfFast, 0)
		if s.Tries != 4 || s.Errors != 2 || s.TTFT != 8 || s.Tokens != 400 || s.Limits != 1 || s.At != 15 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("time alone takes none of the last samples of the slow one, but 429s fade", func(t *testing.T) {
		s := sums{Tries: 100, Errors: 50, First: 3, TTFT: 6, Scale: 3, Sent: 100, Limits: 50}
		s.fade(1e6, halfSlow, keep)
		if s.Tries != keep || s.Errors != 3 || s.First != 3 || s.TTFT != 6 || s.Limits > 1e-9 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("new samples replace those that time does not take", func(t *testing.T) {
		e := estimate{}
		for i := range 30 {
			e.tried(float64(i), 1, 10, Failed)
		}
		for i := range 20 {
			e.tried(1e5*float64(i+1), 1, 10, Answered)
		}
		if e.Slow.Tries > keep+1.01 || e.Slow.Errors/e.Slow.Tries > 0.1 {
			t.Errorf("%+v", e.Slow)
		}
	})
	t.Run("results out of order and clocks set back fade nothing", func(t *testing.T) {
		s := sums{At: 100, Tries: 8}
		s.fade(99.5, halfFast, 0)
		if s.At != 100 || s.Tries != 8 {
			t.Errorf("%+v", s)
		}
		s.fade(10, halfFast, 0)
		if s.At != 10 || s.Tries != 8 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLevels(t *testing.T) {
	typ := typical{ttft: 1, decode: 0.02, out: 500}
	t.Run("a new endpoint is as its model usually is", func(t *testing.T) {
		l := new(estimate).levels(typ, 0)
		if l.ttft != 1 || l.slowTTFT != 1 || l.decode != 0.02 || l.flight != 0 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("two samples weigh as much as what was known before", func(t *testing.T) {
		e := estimate{Slow: sums{TTFT: 6, Scale: 2, Tokens: 1000, Secs: 60}}
		l := e.levels(typ, 0)
		if !near(l.slowTTFT, 2, 1e-9) || !near(l.ttft, 2, 1e-9) || !near(l.slowDecode, 0.04, 1e-9) {
			t.Errorf("%+v", l)
		}
	})
	t.Run("those who wait too long count before they give up", func(t *testing.T) {
		e := estimate{Fast: sums{TTFT: 2, Scale: 2}, Slow: sums{TTFT: 98, Scale: 98}}
		if l := e.levels(typ, 12); !near(l.ttft, 4, 1e-9) || l.slowTTFT != 1 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("long prompts are no slow endpoint", func(t *testing.T) {
		e := estimate{}
		for i := range 50 {
			e.first(float64(i), seen{ttft: 3, scale: 3, level: 1})
		}
		if l := e.levels(typ, 0); !near(l.ttft, 1, 1e-9) {
			t.Errorf("%+v", l)
		}
	})
	t.Run("an expected queue is not the endpoint's level, but for three tenths of the wait", func(t *testing.T) {
		e := estimate{}
		e.first(1, seen{ttft: 4, scale: 1, level: 1, queue: 2})
		e.first(1, seen{ttft: 4, scale: 1, level: 1, queue: 9})
		if !near(e.Slow.TTFT, 2+1.2, 1e-9) {
			t.Errorf("%+v", e.Slow)
		}
	})
}

func TestRates(t *testing.T) {
	t.Run("nothing seen", func(t *testing.T) {
		var e estimate
		if !near(e.errorRate(0), firstError, 1e-9) || !near(e.limitRate(), firstLimit, 1e-9) {
			t.Errorf("%v %v", e.errorRate(0), e.limitRate())
		}
	})
	t.Run("a burst of failures shows at once, a calm minute forgives half", func(t *testing.T) {
		e := estimate{Fast: sums{Tries: 10, Errors: 10}, Slow: sums{Tries: 80, Errors: 20}}
		slow := (20 + 0.2) / 100
		if got := e.errorRate(0); !near(got, (10+10*slow)/20, 1e-9) {
			t.Errorf("%v", got)
		}
		e.Fast = sums{Tries: 1000}
		if got := e.errorRate(0); !near(got, slow/2, 1e-9) {
			t.Errorf("%v", got)
		}
	})
	t.Run("tries that hang count before they fail", func(t *testing.T) {
		var e estimate
		if got := e.errorRate(suspects(80, 1)); !near(got, (10+10*firstError)/20, 1e-9) {
			t.Errorf("%v", got)
		}
	})
	t.Run("failures are timed", func(t *testing.T) {
		var e estimate
		e.tried(1, 12, 10, Failed)
		e.tried(1, 1.3, 10, Limited)
		if !near(e.FailTime, 3, 1e-9) || !near(e.LimitTime, 0.4, 1e-9) || e.Row != 1 {
			t.Errorf("%+v", e)
		}
		if e.tried(2, 1, 10, Answered); e.Row != 0 {
			t.Error("an answer ends the row")
		}
	})
}

func TestWilson(t *testing.T) {
	for _, c := range []struct{ part, n, want float64 }{
		{0, 0, 0}, {0, 50, 0}, {5, 5, 0.5655}, {50, 100, 0.4038}, {1, 100, 0.0018}, {20, 10, 0.7225}, {-1, 10, 0},
	} {
		if got := wilson(c.part, c.n); math.Abs(got-c.want) > 5e-4 {
			t.Errorf("%v of %v: %.4f, want %.4f", c.part, c.n, got, c.want)
		}
	}
}

func TestSlope(t *testing.T) {
	feed := func(n, most int, b float64) *slope {
		s := new(slope)
		for i := range n {
			x := float64(i % (most + 1))
			s.add(float64(i)/100, x, 1+b*x)
		}
		return s
	}
	for _, c := range []struct {
		name               string
		s                  *slope
		factor, low, hight float64
	}{
		{"nothing seen: the guess", new(slope), 1, 0.15, 0.15}, {"half of it for the speed", new(slope), 0.5, 0.075, 0.075},
		{"much seen: what it is", feed(3000, 10, 0.1), 1, 0.09, 0.11}, {"few seen: between", feed(11, 10, 0.1), 1, 0.03, 0.1},
		{"never the other way", feed(3000, 10, -0.09), 1, 0, 0}, {"bounded", feed(3000, 1, 3.5), 1, 2, 2}, {"hangs do not rule it", feed(3000, 10, 2), 1, 0.2, 0.3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.s.per(c.factor); got < c.low-1e-9 || got > c.hight+1e-9 {
				t.Errorf("%v", got)
			}
		})
	}
}

// Whatever is fed in, the estimates stay numbers within their bounds.
func TestEstimatesStaySane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e estimate
		now := 1.0
		num := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			now += rapid.SampledFrom([]float64{0, 0.1, 7, 400, -50, 1e6}).Draw(t, "step")
			n := float64(rapid.IntRange(0, 300).Draw(t, "flight"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				e.first(now, seen{ttft: num("ttft", 600) + 1e-3, scale: 0.5 + num("scale", 100), level: 1e-3 + num("level", 100), queue: num("queue", 100), flight: n})
			case 1:
				e.decoded(now, num("secs", 1000)+1e-4, num("tokens", 1e6), num("total", 2000), 1e-6+num("expected", 1), n)
			case 2:
				e.tried(now, num("took", 600), num("usual", 600), rapid.SampledFrom([]Outcome{Answered, Failed, Limited}).Draw(t, "outcome"))
			case 3:
				e.Limit.refused(now, n, e.Limit.at(now, e.perSecond(), cycleMax), num("asked", 1e6), num("jitter", 1))
			case 4:
				e.late(now, num("overdue", 1e4)-5e3)
			case 5:
				e.judged(now, num("jitter", 1), rapid.Bool().Draw(t, "ok"))
			}
			e.both(now)
			l := e.levels(typical{ttft: 1, decode: 0.02, out: 500}, 0)
			for name, x := range map[string]float64{
				"ttft": l.ttft, "slow ttft": l.slowTTFT, "decode": l.decode, "flight": l.flight, "slope": e.TTFTSlope.per(1), "cap": e.Limit.at(now, e.perSecond(), cycleMax),
				"knee": e.Knee.value(now, e.Limit.peak(now)),
			} {
				if math.IsNaN(x) || x < 0 || math.IsInf(x, 0) && name != "cap" {
					t.Fatalf("%s is %v", name, x)
				}
			}
			if p, q := e.errorRate(0), e.limitRate(); !(p > 0 && p < 1 && q >= 0 && q < 1) {
				t.Fatalf("rates %v and %v", p, q)
			}
			if c := e.Limit.at(now, e.perSecond(), cycleMax); c < 1 {
				t.Fatalf("a cap of %v", c)
			}
		}
	})
}
