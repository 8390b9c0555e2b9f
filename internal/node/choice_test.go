package node

import (
	"context"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// Of the slots that would do the first that is ready with a free place is asked for, else the first of all; the others that
// the machine serves are named.
func TestAcquire_Choice(t *testing.T) {
	ready := func(name string, inflight int) seen {
		return seen{Name: name, Model: "x/" + name, State: hearth.SlotReady.String(), Limit: 1, Inflight: inflight}
	}
	is := func(f func(*seen)) []seen {
		b := ready("b", 0)
		f(&b)
		return []seen{ready("a", 1), b}
	}
	for name, c := range map[string]struct {
		seen       []seen
		slot, also string
	}{
		"the first is free":                       {[]seen{ready("a", 0), ready("b", 0), ready("c", 0)}, "a", "b,c"},
		"the second is free, and the third":       {[]seen{ready("a", 1), ready("b", 0), ready("c", 0)}, "b", "a,c"},
		"the third is free":                       {[]seen{ready("a", 1), ready("b", 1), ready("c", 0)}, "c", "a,b"},
		"none is free":                            {[]seen{ready("a", 1), ready("b", 1), ready("c", 1)}, "a", "b,c"},
		"the first is unknown":                    {[]seen{ready("b", 0), ready("c", 0)}, "b", "c"},
		"another has another model":               {is(func(p *seen) { p.Model = "x/z" }), "a", ""},
		"another starts":                          {is(func(p *seen) { p.State = hearth.SlotStarting.String() }), "a", "b"},
		"another is disabled":                     {is(func(p *seen) { p.Disabled = true }), "a", "b"},
		"another is drained":                      {is(func(p *seen) { p.Drained = true }), "a", "b"},
		"another belongs to somebody else":        {is(func(p *seen) { p.Foreign = true }), "a", "b"},
		"another is paused":                       {is(func(p *seen) { p.Paused = 1 }), "a", "b"},
		"another is outside of its hours":         {is(func(p *seen) { p.Shut = 1 }), "a", "b"},
		"another is waited for":                   {is(func(p *seen) { p.Waiting = 1 }), "a", "b"},
		"another has as many as its engine takes": {is(func(p *seen) { p.Limit, p.Parallel, p.Inflight = 0, 2, 2 }), "a", "b"},
		"another has fewer":                       {is(func(p *seen) { p.Limit, p.Parallel, p.Inflight = 0, 2, 1 }), "b", "a"},
		"what the engine takes is not known":      {is(func(p *seen) { p.Limit, p.Parallel = 0, 0 }), "b", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &hearth.Node{Name: "gpu-2", Remote: &hearth.Remote{URL: "http://machine", Token: token}}
			var slots []*hearth.Slot
			for _, name := range []string{"a", "b", "c"} {
				slots = append(slots, &hearth.Slot{Name: name, Node: n, Model: &hearth.Model{ID: "x/" + name}})
			}
			client, err := Dial(n, slots, ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			client.sight.Store(&sight{at: time.Now(), slots: c.seen})
			l, err := client.Acquire(context.Background(), slot.Ask{Slot: slots[0], Also: slots[1:]})
			if err != nil || l.Slot.Name != c.slot || l.Transport.(*carrier).also != c.also {
				t.Errorf("%+v, %v", l, err)
			}
			if len(c.seen) == 3 { // who would not go elsewhere names nobody
				if l, err := client.Acquire(context.Background(), slot.Ask{Slot: slots[1]}); err != nil || l.Slot != slots[1] || l.Transport.(*carrier).also != "" {
					t.Errorf("%+v, %v", l, err)
				}
			}
		})
	}
}

// A view grows older with its picture.
func TestSight_View(t *testing.T) {
	at := time.Now()
	s := &sight{at: at, slots: []seen{{Name: "a", Model: "x/a", State: hearth.SlotStarting.String(), LoadRest: 1000, Soonest: 900, Drained: true}}}
	conf := &hearth.Slot{Name: "a", Model: &hearth.Model{ID: "x/a"}}
	for after, want := range map[time.Duration]time.Duration{0: time.Second, 400 * time.Millisecond: 600 * time.Millisecond, 1500 * time.Millisecond: 0} {
		if v := s.view(conf, at.Add(after)); v.LoadRest != want || v.Soonest != max(0, want-100*time.Millisecond) || !v.Drained || v.Unknown {
			t.Errorf("after %v: %+v", after, v)
		}
	}
	if v := s.view(conf, at.Add(stale+1)); !v.Unknown || !v.Since.Equal(at) {
		t.Errorf("%+v", v)
	}
}
