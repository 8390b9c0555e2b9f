package routing

import (
	"math"
	"testing"

	"myip.co.kr/hearth"
)

// A forecast is what the order of a tier goes by, and what waiting is worth is what its terms were made with.
func TestForecast(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 2, out: 6}, offer{in: 4, out: 12})
	ask := Ask{Draw: 7, In: 1000, MaxTokens: 300, NoExplore: true, Kappa: 0.5}
	tier := make([]hearth.Candidate, 0, 3)
	for _, e := range b.cat.Endpoints {
		tier = append(tier, hearth.Candidate{Endpoint: e})
	}
	why := make([]Terms, len(tier))
	b.Order(&ask, tier, why, began)
	w, ok := b.Worth(&ask, b.cat.Models[0], began)
	if !ok {
		t.Fatal("the router does not know its own model")
	}
	for i := range why {
		f, ok := b.Forecast(&ask, why[i].Endpoint, began)
		if !ok || !f.Free || f.Cost != why[i].R || f.First != why[i].TTFT || f.Rest != why[i].Rest {
			t.Errorf("forecast %+v of %+v", f, why[i])
		}
		if got := w.First * f.First; math.Abs(got-why[i].Wait) > 1e-12 {
			t.Errorf("the wait costs %v by its worth, %v in the order", got, why[i].Wait)
		}
		if got := w.Rest * f.Rest; math.Abs(got-why[i].Decode) > 1e-12 {
			t.Errorf("the rest costs %v by its worth, %v in the order", got, why[i].Decode)
		}
	}
	if w.Out != 300 || math.Abs(w.Out*w.PerToken-why[0].Rest) > 1e-9 {
		t.Errorf("%v tokens of %v s, where %v s were expected in all", w.Out, w.PerToken, why[0].Rest)
	}
	t.Run("a flagged endpoint is not free", func(t *testing.T) {
		b.Flag(why[0].Endpoint, true)
		b.Refresh(began)
		if f, ok := b.Forecast(&ask, why[0].Endpoint, began); !ok || f.Free {
			t.Errorf("%+v, %v", f, ok)
		}
	})
	t.Run("what the router does not know has none", func(t *testing.T) {
		if _, ok := b.Forecast(&ask, 99, began); ok {
			t.Error("an endpoint that is not there")
		}
		if _, ok := b.Worth(&ask, &hearth.Model{ID: "x/none"}, began); ok {
			t.Error("a model without endpoints")
		}
	})
}

// Requests for one token, as probes and warm-ups are, say nothing of how long a model's prompts and answers are.
func TestBegin_OneToken(t *testing.T) {
	b := bazaarOf(t, same(2)...)
	mean := func(most int) float64 {
		ask := Ask{In: 1000, MaxTokens: most, Stream: true}
		for range 50 {
			try := b.Begin(&ask, 0, Share, b.now)
			try.Done(Result{Outcome: Answered, In: 5, Out: 1}, b.now)
		}
		b.Refresh(b.now)
		w, _ := b.Worth(&Ask{}, b.cat.Models[0], b.now)
		return w.Out
	}
	before, probed, used := mean(1), mean(1), mean(2)
	if probed != before || used > before/2 {
		t.Errorf("an answer is expected to have %v tokens, %v after probes, %v after short answers", before, probed, used)
	}
}
