package routing

import (
	"math"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestOverview(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 0.9, out: 2.7}, offer{in: 0.1, out: 0.3, priority: 10}, offer{in: 1.05, out: 3})
	b.warm()
	got := b.Overview("m/m", b.now)
	if len(got) != 4 || got[0].Endpoint != 1 || got[3].Endpoint != 2 {
		t.Fatalf("%+v", got)
	}
	sum := 0.0
	for i, w := range got[:3] {
		sum += w.Share
		if w.R != w.Price+w.Wait+w.Decode+w.Failed+w.Quality || w.Standing != InUse || w.New || i > 0 && w.R < got[i-1].R {
			t.Errorf("%+v", w)
		}
	}
	if math.Abs(sum-1) > 1e-9 || got[3].Share != 1 {
		t.Errorf("shares of %v and %v", sum, got[3].Share)
	}
	if b.Overview("x/y", b.now) != nil {
		t.Error("an unknown model has endpoints")
	}
}

// Who is not tried has no share, and the others have all of it; a tier of which nobody is tried has none.
func TestOverviewOf(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 0.9, out: 2.7}, offer{in: 0.1, out: 0.3, priority: 10}, offer{in: 1.05, out: 3})
	b.warm()
	whole := map[int]Terms{}
	for _, w := range b.Overview("m/m", b.now) {
		whole[w.Endpoint] = w
	}
	sum := 0.0
	for _, w := range b.OverviewOf("m/m", false, b.now, func(e *hearth.Endpoint) bool { return e.Index == 1 || e.Index == 2 }) {
		if out := w.Endpoint == 1 || w.Endpoint == 2; out != (w.Share == 0) || w.R != whole[w.Endpoint].R {
			t.Errorf("%+v", w)
		}
		sum += w.Share
	}
	if math.Abs(sum-1) > 1e-9 || whole[1].Share == 0 || whole[2].Share != 1 {
		t.Errorf("the shares add up to %v; with nobody out: %+v", sum, whole)
	}
	if of := b.OverviewOf("m/m", true, b.now, func(*hearth.Endpoint) bool { return true }); len(of) != 4 || of[0].Share != 0 || of[0].R == 0 {
		t.Errorf("%+v", of)
	}
}

// What the terms say of an endpoint's state.
func TestStanding(t *testing.T) {
	b := calm(t, 4)
	b.markets[0].ends[0].shut.Store(math.MaxInt64)
	b.markets[0].ends[1].shut.Store(1)
	b.fail(b.ask(), 2, Limited, 0)
	b.edit(func(v *view) {
		v.rows[2].cap, v.rows[2].perCap, v.rows[3].knee, v.rows[3].flaggedAll = 4, 0.25, 7, true
	})
	a := b.ask()
	b.Begin(&a, 2, Share, b.now)
	want := []Standing{Open, HalfOpen, Cooling, InUse}
	for _, w := range b.Overview("m/m", b.now) {
		if w.Standing != want[w.Endpoint] {
			t.Errorf("endpoint %d is %s", w.Endpoint, w.Standing)
		}
		if w.Endpoint == 2 && (w.Cap != 4 || w.InFlight != 1 || w.Load != 0.5) {
			t.Errorf("%+v", w)
		}
		if (w.Endpoint == 3) != (w.Knee == 7 && w.Flagged) {
			t.Errorf("%+v", w)
		}
	}
}

// A model's view is made anew when something has happened, now and then while it is in use, and rarely if it is not.
func TestRefresh(t *testing.T) {
	b := bazaarOf(t, same(2)...)
	number := func(after time.Duration) uint64 {
		b.now = b.now.Add(after)
		b.Refresh(b.now)
		return b.markets[0].view.Load().number
	}
	first := number(0)
	if n := number(59 * time.Second); n != first {
		t.Error("a model that nobody uses has a new view within a minute")
	}
	if n := number(1001 * time.Millisecond); n != first+1 {
		t.Error("no new view after a minute")
	}
	b.serve(b.ask(), 0, Share, time.Second, 45)
	if n := number(time.Millisecond); n != first+2 {
		t.Error("something has happened, and the view is old")
	}
	if n := number(4 * time.Second); n != first+2 {
		t.Error("nothing has happened, and the view is new")
	}
	if n := number(1001 * time.Millisecond); n != first+3 {
		t.Error("no new view after five seconds")
	}
	if number(20 * time.Minute); number(59*time.Second) != first+4 {
		t.Error("a model that is not used any more is looked at all the time")
	}
}

func TestWarmestSessions(t *testing.T) {
	b := calm(t, 2)
	at := b.secs(b.now)
	for key := range uint64(10_000) {
		b.sessions.put(key+1, session{end: b.markets[0].ends[0], at: at - float64(key)/100})
	}
	b.sessions.put(99_999, session{end: b.markets[0].ends[0], at: at - 301})
	s := b.State(b.now).Sessions
	if len(s) != sessionsKept || s[0].Key != 1 || s[len(s)-1].Key != sessionsKept {
		t.Errorf("%d sessions, the first %+v, the last %+v", len(s), s[0], s[len(s)-1])
	}
}
