package market

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// TestReplay_Warnings: what the figures rest on is said.
func TestReplay_Warnings(t *testing.T) {
	r, err := NewReplay([]string{"price"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 300 { // all but two of them to b, five a minute
		g := drawnAt(0, "b", 2)
		if n < 2 {
			g = drawnAt(0, "a", 1)
		}
		g.CreatedAt = time.Unix(int64(12*n), 0).UTC()
		c := g.Routing[0].Candidates
		c[0].Share, c[1].Share, c[0].Cap = 0.005, 0.995, 0.5
		if err := r.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	out, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	if w := r.models[0].byID["a:m"].under[0].weight; w != 2*heaviest {
		t.Errorf("two records weigh %v", w)
	}
	all := strings.Join(out.Warnings, "\n")
	for _, want := range []string{
		"price: what really happened to requests that it would have sent the same way is worth 2 requests; its figures rest on expectations",
		"price: 100 % of the weight lies on records that your traffic was too unlikely to bring",
		"price would have sent 100 % of the requests to a:m, which your traffic tried 2 times: what is said of it rests on expectations alone",
		"price would have had 0.6 requests at once at a:m on average, where 0.5 were once as many as it took",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not among\n%s", want, all)
		}
	}
	if p := out.All.Policies["price"]; p.Clipped != 1 || p.Overlap < 0.999 || p.Cost.Low == nil || *p.Cost.Low > p.Cost.Value || *p.Cost.High < p.Cost.Value {
		t.Errorf("%+v", p)
	}
}

// The interval of a jackknife over records that are groups of their own is that of a mean.
func TestReplay_Interval(t *testing.T) {
	r, err := NewReplay([]string{"price"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		if err := r.Add(drawnAt(n, []string{"a", "b"}[n/10], 1+0.1*float64(n%2))); err != nil {
			t.Fatal(err)
		}
	}
	out, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	// What is expected at a comes true as 0.9 (all of the model as 0.7), so a record there says 0.9+2·(1.05-0.9) = 1.2, and one at b 0.9:
	// against the 1.05 that came, 0.15 more or less. The mean of 20 such is off by 0.16/√20 = 0.035, and 2.1 times that is 0.074.
	e := out.All.Policies["price"].Cost
	if half := (*e.High - e.Value) / 20; half < 0.065 || half > 0.085 {
		t.Errorf("± %.3f of %.3f", half, e.Value/20)
	}
}

// What was tried before the choice is no part of what came of it.
func TestReplay_Before(t *testing.T) {
	r, err := NewReplay([]string{"price"})
	if err != nil {
		t.Fatal(err)
	}
	g := drawnAt(0, "a", 1)
	g.Attempts = append([]hearth.Attempt{{Endpoint: "own", Status: 500, Latency: 2 * time.Second}}, g.Attempts...)
	g.FirstToken, g.Duration = 3*time.Second, 9*time.Second
	if err := r.Add(g); err != nil {
		t.Fatal(err)
	}
	s := r.models[0].byID["a:m"]
	if b, l := s.base[0].got, s.under[0].groups[0].got; b[first] != 1 || b[whole] != 7 || b[spoilt] != 0 || l[first] != 2 {
		t.Errorf("%v, by weight %v", b, l)
	}
}

// What is not used, and what a queue and failed tries add to the wait.
func TestReplay_Expectations(t *testing.T) {
	g := drawnAt(0, "a", 1)
	c := &g.Routing[0].Candidates[0]
	c.TTFT, c.Wait, c.Queue = 5, 2, 4 // of which one second is a queue
	c.Failed, c.Fixed = 0.6, 0.2      // 0.2 and 0.2 again by kappa; the rest is half a second of waiting
	f := fateOf(g)
	if q := f.expected(0, false); !equal(q[first], 1+1+0.5) || !equal(q[whole], 2.5+6) {
		t.Errorf("%v", q)
	}
	tier := &g.Routing[0]
	if cheapestOf(tier) != 0 {
		t.Error("a is the cheapest")
	}
	tier.Candidates[1].List, tier.Candidates[1].Price = 0.5, 9
	if cheapestOf(tier) != 1 {
		t.Error("b is the cheapest by its list")
	}
	if tier.Candidates[1].State = string(routing.Cooling); cheapestOf(tier) != 0 {
		t.Error("b is cooling")
	}
	g.Routing = append([]hearth.Routed{{Reason: "retry", Endpoint: "a:m", Share: 1}}, g.Routing...)
	if fateOf(g).tier == nil {
		t.Error("a choice after a failure is taken for the first one")
	}
}

func TestSurvey(t *testing.T) {
	s := NewSurvey("")
	for n := range 4 {
		g := drawnAt(n, "a", 1)
		g.Usage.PromptTokens, g.Usage.CachedTokens, g.Generating, g.Attempts[0].Model = 1000, 400, 6*time.Second, "m"
		g.Bill.List = &hearth.Price{Prompt: decimal.NewFromInt(2), Completion: decimal.NewFromInt(6), CacheRead: decimal.NewFromInt(1)}
		g.Bill.Rate, g.Bill.Margin, g.Routing[0].Session = decimal.NewFromInt(10), decimal.New(5, -2), 9
		if n == 3 { // b failed before
			g.Attempts = append([]hearth.Attempt{{Endpoint: "a:m", Model: "m", Status: 500}}, g.Attempts...)
		}
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	var m, w bytes.Buffer
	if err := s.WriteMarket(&m); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteWorkload(&w); err != nil {
		t.Fatal(err)
	}
	list, err := ReadListings(&m)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if l := list[0]; l.Name != "a:m" || l.In != 21 || l.Out != 63 || l.Cache != 10.5 || l.Uptime != 0.8 || l.TTFT < 0.95 || l.TTFT > 1.05 || l.TPS < 19 || l.TPS > 21 {
		t.Errorf("%+v", l)
	}
	if want := "seconds,input,output,session,shared\n0.000,1000,100,9,400\n120.000,1000,100,9,400\n"; !strings.HasPrefix(w.String(), want) {
		t.Error(w.String())
	}
	if err := NewSurvey("").WriteMarket(&m); err == nil || NewSurvey("").WriteWorkload(&w) == nil {
		t.Error("of nothing there is no market")
	}
}
