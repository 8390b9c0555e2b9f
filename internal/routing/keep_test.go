package routing

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// Whoever could not win even with a favourable surprise is tried more rarely.
func TestLimits(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 1.1, out: 3.3}, offer{in: 10, out: 30})
	b.warm()
	rows := b.markets[0].view.Load().rows
	for i, want := range []float64{1e-9 / exploreSoon, 1e-9 / exploreSoon, 1e-9 / exploreLate} {
		if rows[i].perLimit != want {
			t.Errorf("endpoint %d is overdue after %v s, want %v", i, 1e-9/rows[i].perLimit, 1e-9/want)
		}
	}
}

// The ceiling outlives the program: what was paid over the mix, and the value of time that it had come down to.
func TestState_Premium(t *testing.T) {
	offers := []offer{{in: 1, out: 3}, {in: 4, out: 12}}
	b := bazaarOf(t, offers...)
	b.Router = NewRouter(b.cat, Options{Kappa: 0.5, MaxPremium: 0.05}, b.now)
	for range 300 { // all of them to the dear one
		b.serve(b.ask(), 1, Share, time.Second, 50)
		b.pass(time.Second)
	}
	part, kappa, ok := b.Premium("m/m", b.now)
	if !ok || part < 0.5 || kappa > 0.4 {
		t.Fatalf("%v over the mix, and the value of time is %v", part, kappa)
	}
	text, err := json.Marshal(b.State(b.now))
	if err != nil {
		t.Fatal(err)
	}
	var known State
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	next := NewRouter(b.cat, Options{Kappa: 0.5, MaxPremium: 0.05}, b.now)
	next.Restore(known, b.now)
	next.Refresh(b.now)
	if again, now, ok := next.Premium("m/m", b.now); !ok || !near(again, part, 1e-6) || now > kappa*1.01 {
		t.Errorf("after a restart %v over the mix, value of time %v (%v); before it %v and %v", again, now, ok, part, kappa)
	}
}
