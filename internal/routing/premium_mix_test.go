package routing

import "testing"

// The mix goes by the inverse square of prices: of two that cost 1 and 2 it pays (1·1 + ¼·2) ÷ 1¼ = 1.2.
func TestPremium_Mix(t *testing.T) {
	for place, want := range []float64{1/1.2 - 1, 2/1.2 - 1} {
		b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 2, out: 6})
		a := b.ask()
		try := b.Begin(&a, place, Share, b.now)
		try.Done(Result{Outcome: Answered, In: a.In, Out: 100}, b.now)
		if part, _, ok := b.Premium("m/m", b.now); !ok || !near(part, want, 1e-6) {
			t.Errorf("endpoint %d: %.4f on top, want %.4f (%v)", place, part, want, ok)
		}
	}
}
