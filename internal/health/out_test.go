package health

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// outCatalog has four endpoints; the last two share an account.
func outCatalog() *hearth.Catalog {
	a, b := &hearth.Provider{Slug: "a"}, &hearth.Provider{Slug: "b"}
	return &hearth.Catalog{Endpoints: []*hearth.Endpoint{{ID: "a:x", Provider: a}, {ID: "a:y", Provider: a}, {ID: "b:x", Provider: b}, {ID: "b:y", Provider: b}}}
}

// again is a tracker of a later program that has read what an earlier one has written.
func again(t *testing.T, was *Tracker, c *hearth.Catalog, saved, now time.Time) *Tracker {
	t.Helper()
	b, err := json.Marshal(was.State(c, saved))
	if err != nil {
		t.Fatal(err)
	}
	var state []Out
	if err := json.Unmarshal(b, &state); err != nil {
		t.Fatal(err)
	}
	h := NewTracker(c)
	h.Restore(c, state, now)
	return h
}

func TestState(t *testing.T) {
	c := outCatalog()
	h := NewTracker(c)
	for range Threshold {
		h.try(t, 0, t0, Failure)
	}
	p, _ := h.Take(1, t0)
	p.Done(RateLimited, 5*time.Minute, t0)
	h.try(t, 2, t0, KeyRefused)
	later := t0.Add(20 * time.Second)
	n := again(t, h, c, t0.Add(10*time.Second), later)
	t.Run("who was out is out for the rest of the time", func(t *testing.T) {
		if v := n.View()[0]; v.Skip != hearth.SkipCooldown || !v.Until.Equal(t0.Add(Cooldown)) || !n.out(0, t0.Add(59*time.Second)) {
			t.Errorf("%+v", v)
		}
		if v := n.View()[1]; v.Skip != hearth.SkipRateLimited || !n.out(1, t0.Add(5*time.Minute-time.Second)) || n.out(1, t0.Add(5*time.Minute)) {
			t.Errorf("%+v", v)
		}
	})
	t.Run("a refused account is asked again: its key may be another", func(t *testing.T) {
		if n.out(2, later) || n.out(3, later) {
			t.Error("out")
		}
		late := t0.Add(AccountPause - 30*time.Second)
		if m := again(t, h, c, late, late); m.out(2, late) || m.out(3, late) {
			t.Error("out for the rest")
		}
	})
	t.Run("after a cooldown one request finds out", func(t *testing.T) {
		back := t0.Add(Cooldown)
		first, ok := n.Take(0, back)
		if !ok || !n.out(0, back) {
			t.Fatalf("first %v, and a second one at the same time", ok)
		}
		first.Done(Failure, 0, back)
		if !n.out(0, back.Add(Cooldown-time.Second)) {
			t.Error("the probe failed, and it is tried")
		}
	})
	t.Run("what has run out, and endpoints that are gone", func(t *testing.T) {
		if m := again(t, h, c, later, t0.Add(Cooldown)); m.out(0, t0.Add(Cooldown)) || !m.out(1, t0.Add(Cooldown)) {
			t.Errorf("%+v", m.View())
		}
		none := &hearth.Catalog{}
		if m := again(t, h, none, later, later); len(m.View()) != 0 {
			t.Errorf("%+v", m.View())
		}
	})
}

func TestRestore_Nonsense(t *testing.T) {
	c := outCatalog()
	for name, o := range map[string]Out{
		"out for ever":             {"a:x", hearth.SkipCooldown, t0, t0.AddDate(100, 0, 0)},
		"out for longer than ever": {"a:x", hearth.SkipRateLimited, t0, t0.Add(MaxRetryAfter + time.Second)},
		"a word that is none":      {"a:x", "over_budget", t0, t0.Add(time.Second)},
		"the clock was set back":   {"a:x", hearth.SkipCooldown, t0.Add(time.Hour), t0.Add(time.Hour + Cooldown)},
		"begun later than now":     {"a:x", hearth.SkipCooldown, t0.Add(time.Second), t0.Add(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewTracker(c)
			h.Restore(c, []Out{o, {}}, t0)
			if h.out(0, t0) || h.View()[0].Skip != "" {
				t.Errorf("%+v", h.View()[0])
			}
		})
	}
}
