package routing

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// offer is an endpoint of the model "m/m": prices per million tokens.
type offer struct {
	in, out  float64
	cached   float64 // 0 = as in
	priority int
}

var began = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// bazaar is a router with its catalog, and a clock.
type bazaar struct {
	t   testing.TB
	cat *hearth.Catalog
	*Router
	now time.Time
	ids int
}

func catalog(t interface{ Fatal(...any) }, offers ...offer) *hearth.Catalog {
	m := &hearth.Model{ID: "m/m"}
	c := &hearth.Catalog{Currency: "USD", Models: []*hearth.Model{m}}
	for i, o := range offers {
		p := &hearth.Provider{Slug: fmt.Sprintf("p%d", i), Name: fmt.Sprintf("P%d", i), Kind: hearth.External, BaseURL: "http://p", Currency: "USD"}
		c.Providers = append(c.Providers, p)
		price := hearth.Price{Prompt: decimal.NewFromFloat(o.in), Completion: decimal.NewFromFloat(o.out)}
		if price.CacheRead = price.Prompt; o.cached > 0 {
			price.CacheRead = decimal.NewFromFloat(o.cached)
		}
		price.CacheWrite, price.Reasoning = price.Prompt, price.Completion
		c.Endpoints = append(c.Endpoints, &hearth.Endpoint{
			Model: m, Provider: p, Tag: p.Slug, UpstreamModel: "m", Priority: 50 + o.priority, List: price, Rate: decimal.NewFromInt(1),
		})
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a bazaar with as many offers, each of them a little dearer than the one before.
func bazaarOf(t testing.TB, offers ...offer) *bazaar {
	c := catalog(t, offers...)
	return &bazaar{t: t, cat: c, Router: NewRouter(c, Options{Kappa: 0.7}, began), now: began}
}

func same(n int) []offer {
	out := make([]offer, n)
	for i := range out {
		out[i] = offer{in: 1, out: 3}
	}
	return out
}

// pass lets time go by, with a refresh every 250 ms of at most a minute.
func (b *bazaar) pass(d time.Duration) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(min(end.Sub(b.now), max(250*time.Millisecond, d/240)))
		b.Refresh(b.now)
	}
}

func (b *bazaar) tier(priority int) []hearth.Candidate {
	var out []hearth.Candidate
	for _, e := range b.cat.Endpoints {
		if e.Priority == 50+priority {
			out = append(out, hearth.Candidate{Endpoint: e})
		}
	}
	return out
}

// ask is a request of the mean size with a draw of its own.
func (b *bazaar) ask() Ask {
	b.ids++
	return Ask{Draw: Seed(fmt.Sprint("gen-", b.ids)), In: 1000, Out: 500, Stream: true}
}

// serve makes endpoint i answer a request: first token and tokens per second as given.
func (b *bazaar) serve(a Ask, i int, why Reason, ttft time.Duration, speed float64) {
	t := b.Begin(&a, i, why, b.now)
	t.First(b.now.Add(ttft))
	rest := time.Duration(float64(a.Out) / speed * 1e9)
	t.Done(Result{Outcome: Answered, In: a.In, Out: a.Out}, b.now.Add(ttft+rest))
}

// fail makes it fail after a while.
func (b *bazaar) fail(a Ask, i int, o Outcome, after time.Duration) {
	t := b.Begin(&a, i, Share, b.now)
	t.Done(Result{Outcome: o}, b.now.Add(after))
}

// warm gives every endpoint ten ordinary answers.
func (b *bazaar) warm() {
	for range 10 {
		for i := range b.cat.Endpoints {
			b.serve(b.ask(), i, Share, 1200*time.Millisecond, 45)
		}
		b.pass(time.Second)
	}
}

// shares counts where n requests would go.
func (b *bazaar) shares(n int, change func(*Ask)) map[int]int {
	got := map[int]int{}
	for range n {
		a := b.ask()
		if change != nil {
			change(&a)
		}
		got[b.Pick(&a, b.tier(0), b.now).Endpoint]++
	}
	return got
}

func near(a, b, within float64) bool {
	return math.Abs(a-b) <= within*math.Max(math.Abs(a), math.Abs(b))
}

func TestOrder(t *testing.T) {
	t.Run("the cheapest of equals gets most, a much dearer one next to nothing", func(t *testing.T) {
		b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 1.04, out: 3.12}, offer{in: 2, out: 6})
		b.warm()
		got := b.shares(2000, nil)
		if got[0] < 1100 || got[1] < 500 || got[2] > 120 {
			t.Errorf("%v", got)
		}
	})
	t.Run("same draw, same order", func(t *testing.T) {
		b := bazaarOf(t, same(20)...)
		b.warm()
		a := b.ask()
		one, two := b.tier(0), b.tier(0)
		d1, d2 := b.Order(&a, one, nil, b.now), b.Order(&a, two, nil, b.now)
		if d1 != d2 {
			t.Errorf("%+v\n%+v", d1, d2)
		}
		for i := range one {
			if one[i] != two[i] {
				t.Errorf("place %d differs", i)
			}
		}
	})
}
