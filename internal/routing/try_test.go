package routing

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestTry(t *testing.T) {
	t.Run("requests under way are counted, and given back once", func(t *testing.T) {
		b := calm(t, 2)
		a := b.ask()
		one, two := b.Begin(&a, 1, Share, b.now), b.Begin(&a, 1, Retry, b.now)
		e := b.markets[0].ends[1]
		if got := e.flight.Load(); got != 2 || two.flight != 1 {
			t.Errorf("%d under way, the second saw %v", got, two.flight)
		}
		one.Done(Result{Outcome: Unjudged}, b.now)
		one.Done(Result{Outcome: Failed}, b.now)
		two.First(b.now)
		two.Done(Result{Outcome: Answered}, b.now)
		two.First(b.now)
		if got := e.flight.Load(); got != 0 || e.waiting != (waiting{}) || e.Fast.Errors != 0 {
			t.Errorf("%d under way, %+v", got, e.waiting)
		}
	})
	t.Run("an endpoint that the router does not know learns nothing", func(t *testing.T) {
		b := calm(t, 2)
		a := b.ask()
		for _, i := range []int{-1, 99} {
			try := b.Begin(&a, i, Share, b.now)
			try.First(b.now)
			try.Done(Result{Outcome: Answered}, b.now)
			b.Judge(i, 1, 1, b.now)
			b.Flag(i, true)
		}
		var none Try
		none.First(b.now)
		none.Done(Result{}, b.now)
	})
	t.Run("who waits too long makes the endpoint look slow before it is over", func(t *testing.T) {
		b := calm(t, 2)
		before := b.markets[0].view.Load().rows[0]
		a := b.ask()
		for range 5 {
			b.Begin(&a, 0, Share, b.now)
		}
		b.pass(10 * time.Second)
		after := b.markets[0].view.Load().rows[0]
		if after.ttft < 2*before.ttft || after.errors < 2*before.errors || after.slowTTFT > 1.01*before.slowTTFT {
			t.Errorf("level %.2f then %.2f, errors %.3f then %.3f", before.ttft, after.ttft, before.errors, after.errors)
		}
	})
	t.Run("whole answers may take as long as they are", func(t *testing.T) {
		b := calm(t, 2)
		before := b.markets[0].view.Load().rows[0]
		a := b.ask()
		a.Stream = false
		for range 5 {
			b.Begin(&a, 0, Share, b.now)
		}
		b.pass(10 * time.Second)
		if after := b.markets[0].view.Load().rows[0]; after.ttft > 1.01*before.ttft || after.errors > 2*before.errors {
			t.Errorf("level %.2f then %.2f", before.ttft, after.ttft)
		}
	})
	t.Run("whole answers tell how fast the first token is", func(t *testing.T) {
		b := bazaarOf(t, same(7)...)
		a := b.ask()
		a.Stream = false
		for range 40 {
			for i := range 7 {
				try, took := b.Begin(&a, i, Share, b.now), 930*time.Millisecond
				if i == 3 {
					took = 60 * time.Millisecond
				}
				try.Done(Result{Outcome: Answered, In: 1000, Out: 10}, b.now.Add(took))
			}
			b.pass(time.Second)
		}
		rows := b.markets[0].view.Load().rows
		for i := range rows {
			got, want := rows[i].ttft+10*rows[i].decode, 0.93
			if i == 3 {
				want = 0.06
			}
			if got < want/1.15 || got > want*1.15 {
				t.Errorf("endpoint %d: %.3f s to the first token and %.3f s for ten in all, the answers took %.2f s", i, rows[i].ttft, got, want)
			}
		}
		if n := b.shares(1000, func(a *Ask) { a.Stream = false })[3]; n < 900 {
			t.Errorf("%d of 1000 go to the one that is fifteen times as fast", n)
		}
	})
	t.Run("whole answers that take what streams make one expect change nothing", func(t *testing.T) {
		b := calm(t, 2)
		before := b.markets[0].view.Load().rows[0]
		a := b.ask()
		a.Stream = false
		for i := range 200 {
			try := b.Begin(&a, 0, Share, b.now)
			out := 1 + i%400
			took := try.level*try.length + try.queue + float64(out)*try.decode
			try.Done(Result{Outcome: Answered, In: 1000, Out: out}, b.now.Add(time.Duration(took*1e9)))
			b.pass(time.Second)
		}
		after := b.markets[0].view.Load().rows[0]
		if after.ttft < 0.97*before.ttft || after.ttft > 1.03*before.ttft || after.decode < 0.97*before.decode || after.decode > 1.03*before.decode {
			t.Errorf("%.3f s and %.4f s per token, then %.3f s and %.4f s", before.ttft, before.decode, after.ttft, after.decode)
		}
	})
	t.Run("one who gave up counts for the time that he waited too long", func(t *testing.T) {
		b := calm(t, 2)
		a := b.ask()
		e := b.markets[0].ends[0]
		before := e.Slow
		try := b.Begin(&a, 0, Share, b.now)
		try.Done(Result{Outcome: Unjudged}, b.now.Add(11*time.Second))
		if got := e.Slow.TTFT - before.TTFT; got < 9 || got > 10.5 || e.Slow.First > before.First || e.Slow.Tries > before.Tries {
			t.Errorf("%v s more, %+v", got, e.Slow)
		}
		level := e.Slow.TTFT
		soon := b.Begin(&a, 0, Share, b.now)
		if soon.Done(Result{Outcome: Unjudged}, b.now); e.Slow.TTFT != level {
			t.Error("who left at once says something")
		}
	})
	t.Run("an answer that came as a whole is shared out to the wait and the rest as they were expected", func(t *testing.T) {
		b := calm(t, 2)
		a := b.ask()
		a.Stream, a.In, a.Out = false, 1000, 450
		e := b.markets[0].ends[0]
		before := e.estimate
		try := b.Begin(&a, 0, Share, b.now)
		wait, rest := try.level*try.length, 450*try.decode
		try.First(b.now) // nothing is seen of the first token of such an answer
		try.Done(Result{Outcome: Answered, In: 1000, Out: 450}, b.now.Add(time.Duration(1.5*(wait+rest)*1e9)))
		before.both(e.Slow.At)
		if first, secs := e.Slow.TTFT-before.Slow.TTFT, e.Slow.Secs-before.Slow.Secs; !near(first, 1.5*wait, 0.001) || !near(secs, 1.5*rest, 0.001) {
			t.Errorf("%v s to the first token, %v s of decoding; expected were %v s and %v s", first, secs, wait, rest)
		}
	})
	t.Run("a failure after the first token is a failure, and the token was seen", func(t *testing.T) {
		b := calm(t, 2)
		a := b.ask()
		e := b.markets[0].ends[0]
		before := e.Slow
		try := b.Begin(&a, 0, Share, b.now)
		try.First(b.now.Add(time.Second))
		try.Done(Result{Outcome: Failed}, b.now.Add(3*time.Second))
		if e.Slow.First < before.First+0.9 || e.Slow.Errors < 0.9 || e.Row != 1 || !near(e.FailTime, 2.1, 1e-6) {
			t.Errorf("%+v", e.estimate)
		}
	})
	t.Run("a rate limit takes it out of the draw at once", func(t *testing.T) {
		b := calm(t, 2)
		b.fail(b.ask(), 0, Limited, 0)
		for range 50 {
			if d := b.choose(nil); d.Endpoint != 1 {
				t.Fatalf("%+v", d)
			}
		}
		b.now = b.now.Add(700 * time.Millisecond)
		if d := b.choose(func(a *Ask) { a.Retry = true }); b.markets[0].ends[0].cool.Load() > b.nanos(b.now) {
			t.Errorf("%+v, cooling for longer than 0.575 s", d)
		}
	})
}

func TestCacheLearning(t *testing.T) {
	b := calm(t, 2)
	e := b.markets[0].ends[0]
	a := b.ask()
	a.Session, a.Explicit, a.In = 7, true, 10_000
	turn := func(cached int) {
		try := b.Begin(&a, 0, Share, b.now)
		try.Done(Result{Outcome: Answered, In: 10_000, Cached: cached, Written: 5000, Out: 100, Cost: 2 * (10_000e-6 + 300e-6)}, b.now)
	}
	cold, real := e.Cold.Of, b.markets[0].view.Load().real
	if turn(0); e.Cold.Of != cold+10_000 || e.Warm.Of != 0 || !near(e.Bills.Part/e.Bills.Of, 2, 1e-9) || e.Written.Part != 5000 {
		t.Errorf("%+v %+v %+v", e.Cold, e.Warm, e.Bills)
	}
	turn(8000)
	if could := min(10_000*real, 10_000); e.Cold.Of != cold+10_000 || !near(e.Warm.Of, could, 1e-6) || e.Warm.Part != 8000 {
		t.Errorf("%+v %+v", e.Cold, e.Warm)
	}
	b.pass(time.Second)
	r := b.markets[0].view.Load().rows[0]
	if !near(r.hit, (8000+600)/11_000.0, 0.01) || !near(r.written, 7000/23_000.0, 0.01) || r.adjust != 2 {
		t.Errorf("hit %v, written %v, adjust %v", r.hit, r.written, r.adjust)
	}
}

func TestMeans(t *testing.T) {
	b := bazaarOf(t, same(2)...)
	for range 200 {
		a := b.ask()
		a.In = 3000 // estimates are generous
		try := b.Begin(&a, 0, Share, b.now)
		try.Done(Result{Outcome: Answered, In: 2000, Out: 100}, b.now)
		b.pass(time.Second)
	}
	v := b.markets[0].view.Load()
	if !near(v.in, 2000, 0.03) || !near(v.out, 100, 0.1) || !near(v.real, 2.0/3, 0.03) {
		t.Errorf("prompts of %v, answers of %v, %v tokens per token estimated", v.in, v.out, v.real)
	}
}

func TestBreaker(t *testing.T) {
	b := calm(t, 3)
	e := b.markets[0].ends[0]
	for range 12 {
		b.fail(b.ask(), 0, Failed, 0)
	}
	usual := make([]hearth.EndpointHealth, 3)
	if got := b.Health(usual, b.now); &got[0] != &usual[0] {
		t.Error("nothing is open, and yet the view is another")
	}
	late := b.ask()
	straggler := b.Begin(&late, 0, Share, b.now)
	later, latest := b.Begin(&late, 0, Share, b.now), b.Begin(&late, 0, Share, b.now)
	b.pass(250 * time.Millisecond)
	out := b.Health(usual, b.now)
	until := out[0].Until.Sub(b.now)
	if !out[0].Out(b.now) || out[0].Skip != hearth.SkipCooldown || until < 8*time.Second || until > 12*time.Second || out[1] != usual[1] {
		t.Fatalf("%+v", out)
	}
	if straggler.Done(Result{Outcome: Answered}, b.now); e.shut.Load() == 0 || e.Breaker.Wins > 0 {
		t.Error("the answer to a request from before closes it")
	}
	if got := b.Probes(nil, b.now); len(got) != 0 {
		t.Errorf("%v", got)
	}
	b.pass(13 * time.Second)
	later.Done(Result{Outcome: Answered}, b.now)
	if latest.Done(Result{Outcome: Failed}, b.now); e.Breaker.Wins > 0 || e.shut.Load() > b.nanos(b.now) {
		t.Errorf("what was sent before it opened moves it: %+v", e.Breaker)
	}
	b.edit(func(v *view) { v.explore, v.probe = 0, 1 })
	if got := b.Probes(nil, b.now); len(got) != 1 || got[0] != 0 || b.Health(usual, b.now)[0].Out(b.now) {
		t.Errorf("half-open: %v", got)
	}
	if d := b.choose(nil); d.Endpoint != 0 || d.Reason != Probe {
		t.Errorf("%+v", d)
	}
	a := b.ask()
	try := b.Begin(&a, 0, Probe, b.now)
	if d := b.choose(nil); d.Endpoint == 0 || !b.Health(usual, b.now)[0].Out(b.now) || len(b.Probes(nil, b.now)) > 0 {
		t.Errorf("two at a time: %+v", d)
	}
	try.Done(Result{Outcome: Failed}, b.now)
	if again := b.Health(usual, b.now)[0].Until.Sub(b.now); again < 14*time.Second || again > 20*time.Second {
		t.Errorf("open again for %s", again)
	}
	b.pass(21 * time.Second)
	for i := range 3 {
		if e.shut.Load() == 0 {
			t.Errorf("closed after %d", i)
		}
		b.serve(b.ask(), 0, Probe, time.Second, 45)
	}
	b.pass(5 * time.Second)
	r := b.markets[0].view.Load().rows[0]
	if e.shut.Load() != 0 || b.open.Load() != 0 || r.ramp != 0.1 || r.errors > 0.05 {
		t.Errorf("closed: %+v, ramp %v, errors %v", e.Breaker, r.ramp, r.errors)
	}
	for range 17 {
		b.serve(b.ask(), 0, Share, time.Second, 45)
	}
	if e.Breaker.Ramp != 0 {
		t.Errorf("%v of its share after 17 answers", e.Breaker.Ramp)
	}
}

func TestBreakerWaits(t *testing.T) {
	var b breaker
	for i, want := range []float64{10, 17, 28.9, 49.13, 83.521, 120, 120} {
		if b.open(100, 0.5); !near(b.Until-100, want, 1e-9) {
			t.Errorf("opening %d: %v s", i+1, b.Until-100)
		}
	}
	b.Until, b.Shut = 0, 200
	if b.open(801, 0); !near(b.Until-801, 8.5, 1e-9) {
		t.Errorf("after ten minutes: %v s", b.Until-801)
	}
}

// The breaker stays closed if the endpoints that are left could not take the load.
func TestCarry(t *testing.T) {
	for _, c := range []struct {
		name   string
		flight int64
		cap    float64 // of each of the others
		row    int     // failures in a row at one of the others
		opens  bool
	}{
		{"room enough", 10, 6, 0, true}, {"not enough room", 14, 6, 0, false}, {"no caps are known", 1000, 0, 0, true},
		{"one of the others is out", 10, 6, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := calm(t, 3)
			for range 20 {
				b.fail(b.ask(), 0, Failed, 0)
			}
			for i, e := range b.markets[0].ends[1:] {
				if c.cap > 0 {
					e.estimate.Limit = limit{Max: c.cap / 0.9, Last: b.secs(b.now), Peak: 100, Faded: b.secs(b.now)}
				}
				if i == 0 {
					e.Row = c.row
				}
			}
			b.markets[0].ends[1].flight.Store(c.flight)
			b.pass(250 * time.Millisecond)
			if got := b.open.Load() > 0; got != c.opens {
				t.Errorf("opens: %v", got)
			}
		})
	}
	t.Run("the only one", func(t *testing.T) {
		b := calm(t, 1)
		for range 50 {
			b.fail(b.ask(), 0, Failed, 0)
		}
		if b.pass(time.Second); b.open.Load() > 0 {
			t.Error("open")
		}
	})
	t.Run("all fail: one stays", func(t *testing.T) {
		b := calm(t, 3)
		for range 50 {
			for i := range 3 {
				b.fail(b.ask(), i, Failed, 0)
			}
		}
		if b.pass(time.Second); b.open.Load() > 2 {
			t.Error("all are open")
		}
	})
}

func TestToolFlag(t *testing.T) {
	b := calm(t, 3)
	e := b.markets[0].ends[0]
	judge := func(i, n, bad int) {
		for j := range n {
			b.Judge(i, 2, map[bool]int{true: 1}[j < bad], b.now)
		}
	}
	judge(1, 100, 1)
	judge(0, 100, 4)
	if b.pass(time.Second); e.Flag.Tools {
		t.Error("flagged at four in a hundred")
	}
	judge(0, 30, 10)
	if b.pass(time.Second); !e.Flag.Tools || b.markets[0].ends[1].Flag.Tools {
		t.Errorf("%+v", e.Flag)
	}
	b.Judge(0, 0, 0, b.now) // an answer without calls says nothing
	judge(0, 5000, 0)
	if b.pass(time.Minute); !e.Flag.Tools {
		t.Error("cleared within two minutes")
	}
	if b.pass(2 * time.Minute); e.Flag.Tools {
		t.Errorf("not cleared: %+v", e.Tools)
	}
	t.Run("peers that are as bad excuse it", func(t *testing.T) {
		b := calm(t, 3)
		for range 50 {
			for i := range 3 {
				b.Judge(i, 1, map[bool]int{true: 1}[b.ids%8 == 0], b.now)
				b.ids++
			}
		}
		if b.pass(time.Second); b.markets[0].ends[0].Flag.Tools {
			t.Error("flagged")
		}
	})
}
