package health

import (
	"sync"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// newer is the catalog of tracker after a reload: endpoint 1 of before is 0, 0 is 2, 2 is gone, and 1 and 3 are new, 1 of
// the account of before.
func newer() (c *hearth.Catalog, from []int) {
	a := &hearth.Provider{Slug: "a", Limits: hearth.Limits{FirstByte: 20 * time.Second}}
	c = &hearth.Catalog{Endpoints: []*hearth.Endpoint{{Provider: a}, {Provider: a}, {Provider: a}, {Provider: &hearth.Provider{Slug: "c"}}}}
	return c, []int{1, -1, 0, -1}
}

func TestTracker_Next(t *testing.T) {
	t.Run("what was known of an endpoint is known under its new number", func(t *testing.T) {
		h := tracker()
		h.try(t, 0, t0, Failure)
		h.try(t, 0, t0, Failure)
		n := h.Next(newer())
		if n.out(2, t0) {
			t.Fatal("out after two failures")
		}
		n.try(t, 2, t0, Failure)
		for i, want := range []bool{false, false, true, false} {
			if got := n.out(i, t0); got != want || (n.View()[i].Skip != "") != want {
				t.Errorf("endpoint %d: out %v, view %+v", i, got, n.View()[i])
			}
		}
		if !h.out(0, t0) || h.View()[0] != n.View()[2] || len(h.View()) != 3 {
			t.Errorf("a request that began before sees %+v", h.View())
		}
	})
	t.Run("an endpoint that is out stays out", func(t *testing.T) {
		h := cooled(t)
		n := h.Next(newer())
		if !n.out(2, t0.Add(Cooldown-1)) || n.out(2, t0.Add(Cooldown)) {
			t.Error("not out for exactly the rest")
		}
	})
	t.Run("requests that began before count", func(t *testing.T) {
		h := tracker()
		var late []Permit
		for range Threshold {
			p, _ := h.Take(0, t0)
			late = append(late, p)
		}
		n := h.Next(newer())
		for i := range late {
			late[i].Done(Failure, 0, t0)
		}
		if !n.out(2, t0) || n.out(0, t0) {
			t.Errorf("%+v", n.View())
		}
	})
	t.Run("so do their successes", func(t *testing.T) {
		h := tracker()
		h.try(t, 0, t0, Failure)
		h.try(t, 0, t0, Failure)
		p, _ := h.Take(0, t0)
		n := h.Next(newer())
		p.Done(Success, 0, t0)
		n.try(t, 2, t0, Failure)
		if n.out(2, t0) {
			t.Error("the counter was not cleared")
		}
	})
	t.Run("there is one probe for both", func(t *testing.T) {
		h := cooled(t)
		after := t0.Add(Cooldown)
		p, ok := h.Take(0, after)
		n := h.Next(newer())
		if _, second := n.Take(2, after); !ok || second {
			t.Fatalf("granted %v and %v", ok, second)
		}
		p.Answering(after)
		if n.out(2, after) || n.View()[2].Skip != "" {
			t.Errorf("still out after the probe was answered: %+v", n.View()[2])
		}
	})
	t.Run("a probe lasts as long as the newer limit says", func(t *testing.T) {
		n := cooled(t).Next(newer())
		after := t0.Add(Cooldown)
		if _, ok := n.Take(2, after); !ok {
			t.Fatal("no probe")
		}
		if _, ok := n.Take(2, after.Add(19*time.Second)); ok {
			t.Error("a second probe within the limit")
		}
		if _, ok := n.Take(2, after.Add(20*time.Second)); !ok {
			t.Error("no probe after the limit")
		}
	})
	t.Run("a refused key takes out the whole account, as it is now", func(t *testing.T) {
		h := tracker()
		p, _ := h.Take(0, t0)
		n := h.Next(newer())
		p.Done(KeyRefused, 0, t0)
		for i, want := range []bool{true, true, true, false} {
			if n.out(i, t0) != want {
				t.Errorf("endpoint %d: out %v", i, !want)
			}
		}
	})
	t.Run("what is said of an endpoint that is gone hurts nobody", func(t *testing.T) {
		h := tracker()
		p, _ := h.Take(2, t0)
		q, _ := h.Take(2, t0)
		n := h.Next(newer())
		p.Done(KeyRefused, 0, t0)
		q.Done(RateLimited, time.Minute, t0)
		for i := range n.View() {
			if n.out(i, t0) || n.View()[i].Skip != "" {
				t.Errorf("endpoint %d is out", i)
			}
		}
		if !h.out(2, t0) {
			t.Error("a request that began before tries it all the same")
		}
	})
	t.Run("and again", func(t *testing.T) {
		h := cooled(t)
		n := h.Next(newer())
		last := n.Next(&hearth.Catalog{Endpoints: []*hearth.Endpoint{{Provider: &hearth.Provider{}}}}, []int{2})
		if !last.out(0, t0) || !n.out(2, t0) || !h.out(0, t0) {
			t.Error("forgotten")
		}
		p, _ := h.TakeAnyway(0, t0)
		p.Done(Success, 0, t0)
		if last.out(0, t0) || n.out(2, t0) || h.out(0, t0) {
			t.Error("still out after a success")
		}
	})
}

// Requests of all configurations at once, while one follows the other.
func TestTracker_NextUnderLoad(t *testing.T) {
	h := tracker()
	c, stop := &hearth.Catalog{Endpoints: []*hearth.Endpoint{{Provider: &hearth.Provider{}}, {Provider: &hearth.Provider{}}, {Provider: &hearth.Provider{}}}}, make(chan struct{})
	var wg sync.WaitGroup
	use := func(h *Tracker) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if p, ok := h.TakeAnyway(i%3, t0); ok {
					p.Answering(t0)
					p.Done([]Outcome{Failure, Success, NoVerdict, Failure}[i%4], 0, t0)
				}
				if n := len(h.View()); n != 3 {
					t.Errorf("%d endpoints", n)
				}
			}
		})
	}
	use(h)
	for range 50 {
		h = h.Next(c, []int{0, 1, 2})
		use(h)
	}
	close(stop)
	wg.Wait()
	for i, e := range h.ends {
		if v := h.View()[i]; v != e.health {
			t.Errorf("endpoint %d: published %+v, known %+v", i, v, e.health)
		}
	}
}
