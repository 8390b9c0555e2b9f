package routing

import (
	"math"
	"testing"
)

func TestPremiumMove(t *testing.T) {
	over := func(part float64) *premium {
		p := &premium{Kappa: 0.2, Stepped: 100}
		p.Paid.add(100, premiumHalf, 1, 1+part)
		return p
	}
	for _, c := range []struct {
		name              string
		p                 *premium
		now, bound, kappa float64
	}{
		{"no bound", over(1), 105, 0, 0.35}, {"nothing was paid yet", &premium{}, 105, 0.05, 0.35}, {"not so soon", over(1), 104.9, 0.05, 0.2},
		{"far over it: down", over(1), 105, 0.05, 0.2 * math.Exp(-0.02)}, {"at it: stays", over(0.05), 105, 0.05, 0.2}, {"half of it: up", over(0.025), 105, 0.05, 0.2 * math.Exp(0.005)},
		{"cheaper than the mix: up, no faster than that", over(-0.5), 105, 0.05, 0.2 * math.Exp(0.01)}, {"after a pause as in a minute", over(1), 1e5, 0.05, 0.2 * math.Exp(-0.24)},
		{"no more than configured", over(-0.5), 200, 0.05, 0.2 * math.Exp(0.12)}, {"the clock was set back", over(1), 50, 0.05, 0.2 * math.Exp(-0.02)},
	} {
		if got := c.p.move(c.now, 0.35, c.bound); !near(got, c.kappa, 1e-9) {
			t.Errorf("%s: %v, want %v", c.name, got, c.kappa)
		}
	}
	if got := over(1).move(105, 0.05, 0.01); got != 0.05 {
		t.Errorf("less than the least is configured: %v", got)
	}
	p := over(-0.5)
	for at := 105.0; at < 600; at += 5 {
		p.move(at, 0.35, 0.05)
	}
	if p.Kappa != 0.35 {
		t.Errorf("%v", p.Kappa)
	}
}

// A fast endpoint costs more than the others: the bound holds what is paid for its speed.
func TestMaxPremium(t *testing.T) {
	const plays = 5
	play := func(bound float64) (premium, kappa, ttft float64) {
		for seed := range uint64(plays) {
			sites := six()
			sites[5].in, sites[5].out, sites[5].ttft, sites[5].speed = 1.25, 3.75, 0.4, 180
			w := newWorld(t, seed+1, sites...)
			w.Router = NewRouter(w.cat, Options{Kappa: 3, MaxPremium: bound}, began)
			w.run(2, 2400)
			part, k, _ := w.Premium("m/m", w.time())
			premium, kappa, ttft = premium+part/plays, kappa+k/plays, ttft+w.wait/float64(w.waits)/plays
		}
		return premium, kappa, ttft
	}
	free, kappa, fast := play(1e6)
	held, less, slow := play(0.05)
	t.Logf("free: %.3f on top at a kappa of %.2f, ttft %.2f s; held: %.3f at %.2f, %.2f s", free, kappa, fast, held, less, slow)
	if free < 0.15 || !near(kappa, 3, 1e-9) || held > 0.06 || less > 2 || slow < fast {
		t.Error("not so")
	}
	w := newWorld(t, 1, six()...)
	if _, kappa, ok := w.Premium("m/m", w.time()); ok || kappa != 0.7 {
		t.Error("nothing was sent, and yet there is a premium")
	}
}
