package market

import (
	"strings"
	"testing"
	"time"
)

// The bounds of an estimate: what chance does, what the policy changes itself, and what caches may do, each on its side.
func TestEstimate_Within(t *testing.T) {
	for _, c := range []struct{ value, was, less, more, low, high float64 }{
		{10, 10, 0, 0, 8, 12},
		{10, 10, 1, 3, 7, 15},
		{10, 8, 0, 0, 7.4, 15}, // more than it was: 1.5·2 further up, 0.3·2 back
		{10, 12, 0, 0, 5, 12.6},
		{1, 3, 0, 0, 0, 3.6},
	} {
		e := Estimate{Value: c.value}
		e.within(c.was, 1, 2, c.less, c.more)
		if !equal(*e.Low, c.low) || !equal(*e.High, c.high) || *e.Error != 1 {
			t.Errorf("%+v: from %v to %v", c, *e.Low, *e.High)
		}
	}
}

// What the caches of those that get more, or less, may do to the cost, by hand.
func TestReplay_Caches(t *testing.T) {
	r, err := NewReplay([]string{"price", "inverse-square", "routing-cost"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 * leastTried {
		g := drawnAt(n, "a", 1)
		if n%2 == 1 {
			g = drawnAt(n, "b", 1.6)
		}
		c := g.Routing[0].Candidates
		c[0].List, c[0].Price, c[1].List, c[1].Price = 2, 1, 1.6, 1.6 // a's cache saves half of its list, b's nothing
		if err := r.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	out, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	const half = float64(leastTried)
	share := (1 / 4.0) / (1/4.0 + 1/2.56) // of a, by the inverse square
	for k, want := range []struct{ less, more float64 }{
		{0.5 * 2 * half * 1.6 * (1 - half/(2*half)), 0}, // all to b, whose cache may come to save half as well
		{0.5 * 2 * half * (1 - share) * 1.6 * (1 - 1/(2*(1-share))), 2 * half * share * (2 - 1) * (1 - 2*share)},
		{0, 0},
	} {
		if less, more := caches(r.models, k); !equal(less, want.less) || !equal(more, want.more) {
			t.Errorf("%s: -%v +%v, want -%v +%v", out.Policies[k], less, more, want.less, want.more)
		}
	}
	price := out.All.Policies["price"]
	if !equal(price.Moved, 0.5) || !equal(out.All.Policies["routing-cost"].Moved, 0) {
		t.Errorf("%v and %v of the requests go elsewhere", price.Moved, out.All.Policies["routing-cost"].Moved)
	}
	if low := price.Cost.Value - student(39)**price.Cost.Error - half*1.6/2 - replayBack*(price.Cost.Value-half*2.6); !equal(*price.Cost.Low, max(low, 0)) {
		t.Errorf("the cost is at least %v, want %v", *price.Cost.Low, low)
	}
}

// The hours of the day in which there is something to go by are told.
func TestReplay_Hours(t *testing.T) {
	for _, c := range []struct {
		hours, want int
		said        bool
	}{{1, 1, true}, {3, 3, true}, {24, 24, false}, {30, 24, false}} {
		r, err := NewReplay([]string{"price"})
		if err != nil {
			t.Fatal(err)
		}
		for n := range c.hours {
			g := drawnAt(0, "a", 1)
			g.CreatedAt = time.Date(2026, 5, 1, n, 59, 0, 0, time.UTC)
			if err := r.Add(g); err != nil {
				t.Fatal(err)
			}
		}
		out, err := r.Result()
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(strings.Join(out.Warnings, "\n"), "of the 24 hours of the day"); out.Hours != c.want || said != c.said {
			t.Errorf("%d hours: %d, %q", c.hours, out.Hours, out.Warnings)
		}
	}
}
