package slot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// visit is a request that asks, uses the engine for a while and gives it back.
type visit struct {
	asked, in, done time.Time
	slot            *hearth.Slot // that served it
	err             error        // it was not served
}

// waited is how long it waited for its place or its refusal.
func (v visit) waited() time.Duration { return v.in.Sub(v.asked) }

// visit has somebody ask, and use the engine for so long.
func (h *house) visit(ctx context.Context, a Ask, takes time.Duration) <-chan visit {
	out := make(chan visit, 1)
	go func() {
		v := visit{asked: time.Now()}
		l, err := h.Acquire(ctx, a)
		v.in = time.Now()
		if v.err = err; err == nil {
			v.slot = l.Slot
			pass(takes)
			l.Release()
			v.done = time.Now()
		}
		out <- v
	}()
	synctest.Wait()
	return out
}

// come is visit for one who waits as long as the slot lets it.
func (h *house) come(s *hearth.Slot, takes time.Duration) <-chan visit {
	return h.visit(h.t.Context(), Ask{Slot: s, Budget: time.Hour}, takes)
}

// calm wants that nobody uses or waits for anything, and ends the house.
func (h *house) calm() {
	h.t.Helper()
	synctest.Wait()
	for _, s := range h.cat.Slots {
		if v := h.View(s); v.Inflight != 0 || v.Waiting != 0 || v.Batch != 0 || v.Votes != 0 {
			h.t.Errorf("%s is left with %d in it, %d waiting (%d batch), %d votes", s.Name, v.Inflight, v.Waiting, v.Batch, v.Votes)
		}
	}
	h.close()
}

// shuttle has both models loaded once, so that all of their times are known, and a up last. Each load takes 2 s, each stop 1 s.
func shuttle(t *testing.T, change ...func(*hearth.Slot)) *house {
	t.Helper()
	h := newHouse(t, &gpu{load: 2 * time.Second, stops: time.Second}, change...)
	for _, s := range []*hearth.Slot{h.b, h.a} {
		if v := <-h.come(s, time.Second); v.err != nil {
			t.Fatal(v.err)
		}
	}
	h.state(h.a, hearth.SlotReady)
	pass(time.Minute)
	return h
}

// stream has requests come for a slot, one a second, until stop is called; that returns them all.
func (h *house) stream(s *hearth.Slot, takes time.Duration) (stop func() []visit) {
	ctx, cancel := context.WithCancel(h.t.Context())
	var all []<-chan visit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			out := make(chan visit, 1)
			all = append(all, out)
			go func() {
				v := visit{asked: time.Now()}
				l, err := h.Acquire(context.Background(), Ask{Slot: s, Budget: time.Hour})
				v.in, v.err = time.Now(), err
				if err == nil {
					pass(takes)
					l.Release()
				}
				out <- v
			}()
			pass(time.Second)
		}
	}()
	return func() (list []visit) {
		cancel()
		<-ended
		for _, v := range all {
			list = append(list, <-v)
		}
		return list
	}
}

func TestTurnChange(t *testing.T) {
	four := func(s *hearth.Slot) { s.Concurrency = 4 }
	bubble(t, "whoever asks for another model waits for no more than a turn, what is in the engine, a stop and a load", func(t *testing.T) {
		h := shuttle(t, four)
		stop := h.stream(h.a, 3*time.Second)
		pass(30*time.Second + 500*time.Millisecond)
		asked := time.Now()
		b := h.come(h.b, time.Second)
		pass(h.a.Node.Turn - 1)
		h.state(h.a, hearth.SlotReady)
		pass(1)
		if v := h.state(h.a, hearth.SlotDraining); v.Inflight == 0 {
			t.Errorf("a model that is in use drains: %+v", v)
		}
		v := <-b
		between(t, "the other model", v.waited(), h.a.Node.Turn, h.a.Node.Turn+3*time.Second+time.Second+2*time.Second+notice)
		for _, v := range stop() {
			late := v.asked.Sub(asked)
			if late < h.a.Node.Turn && v.waited() != 0 || v.err != nil {
				t.Errorf("one who came %v after that waited %v, %v", late, v.waited(), v.err)
			}
			if in := v.in.Sub(asked); in > h.a.Node.Turn && in < 14*time.Second {
				t.Errorf("somebody was let in %v after that", in)
			}
		}
		h.calm()
	})
	bubble(t, "who would be late if the turn lasted is in time", func(t *testing.T) {
		h := shuttle(t, four)
		stop := h.stream(h.a, 3*time.Second)
		pass(30 * time.Second)
		<-h.come(h.b, time.Second) // by now it is known how long a drain takes
		stop()
		stop = h.stream(h.a, 2*time.Second)
		pass(2 * time.Minute)
		h.state(h.a, hearth.SlotReady)
		budget := 9 * time.Second
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: budget}, time.Second)
		if v.err != nil || v.waited() > budget {
			t.Errorf("after %v of %v: %v", v.waited(), budget, v.err)
		}
		stop()
		h.calm()
	})
	bubble(t, "a model that nobody has asked for in a while leaves at once", func(t *testing.T) {
		h := shuttle(t)
		v := <-h.come(h.b, time.Second)
		between(t, "the swap", v.waited(), 3*time.Second, 3*time.Second+notice)
		h.calm()
	})
	bubble(t, "one that was used a moment ago stays for as long as the loads there and back take at most", func(t *testing.T) {
		h := shuttle(t)
		<-h.come(h.a, time.Second)
		v := <-h.come(h.b, time.Second)
		between(t, "the swap", v.waited(), 7*time.Second, 7*time.Second+3*notice)
		h.calm()
	})
	bubble(t, "and serves who comes in that time", func(t *testing.T) {
		h := shuttle(t)
		<-h.come(h.a, time.Second)
		b := h.come(h.b, time.Second)
		pass(time.Second)
		if v := <-h.come(h.a, time.Second); v.waited() != 0 {
			t.Errorf("waited %v", v.waited())
		}
		if v := <-b; v.err != nil || v.waited() > 10*time.Second {
			t.Errorf("the other waited %v, %v", v.waited(), v.err)
		}
		h.calm()
	})
	bubble(t, "a model that has just come stays for min_resident", func(t *testing.T) {
		h := shuttle(t)
		<-h.come(h.b, time.Second)
		ready := h.gpu.engine().born.Add(2 * time.Second)
		a := <-h.come(h.a, time.Second)
		if left := h.gpu.engine().born.Add(-time.Second); left.Sub(ready) < h.a.Node.MinResident {
			t.Errorf("it stayed for %v", left.Sub(ready))
		}
		if a.waited() > h.a.Node.MinResident+3*time.Second+notice {
			t.Errorf("the other waited %v", a.waited())
		}
		h.calm()
	})
	bubble(t, "those who waited for a model are served in the turn that it got for them, though the others wait on", func(t *testing.T) {
		h := shuttle(t)
		var list []<-chan visit
		for range 5 {
			list = append(list, h.come(h.b, 3*time.Second)) // one after the other: 15 s, longer than a turn
		}
		pass(time.Second)
		a := h.come(h.a, time.Second)
		var last visit
		for _, b := range list {
			if last = <-b; last.err != nil {
				t.Error(last.err)
			}
		}
		if v := <-a; v.in.Before(last.done) || v.in.After(last.done.Add(3*time.Second+notice)) {
			t.Errorf("the other was let in %v after the last of them", v.in.Sub(last.done))
		}
		if h.gpu.starts != 4 {
			t.Errorf("%d starts", h.gpu.starts)
		}
		h.calm()
	})
}

// What a turn is counted from, and what it lasts at least.
func TestTurnBegins(t *testing.T) {
	bubble(t, "whoever waits for another model while this one loads waits for a turn from when it is ready", func(t *testing.T) {
		h := shuttle(t)
		long := h.come(h.b, time.Minute)
		pass(2 * time.Second)
		a := h.come(h.a, time.Second)
		for h.View(h.b).State != hearth.SlotReady {
			pass(time.Millisecond)
			synctest.Wait()
		}
		ready := h.View(h.b).Since
		pass(time.Until(ready.Add(h.b.Node.Turn - 1)))
		h.state(h.b, hearth.SlotReady)
		pass(1)
		h.state(h.b, hearth.SlotDraining)
		<-long
		if v := <-a; v.err != nil {
			t.Error(v.err)
		}
		h.calm()
	})
	bubble(t, "a model that was loaded is not left for another before it has served for as long as it loaded, if requests are lost by that", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 20 * time.Second, stops: time.Second})
		for _, s := range []*hearth.Slot{h.a, h.b} {
			<-h.come(s, time.Second)
		}
		pass(time.Hour)
		var list []<-chan visit
		for range 3 {
			list = append(list, h.visit(t.Context(), Ask{Slot: h.a, Budget: 45 * time.Second}, 8*time.Second))
		}
		pass(time.Second)
		b := h.visit(t.Context(), Ask{Slot: h.b, Budget: 50 * time.Second}, time.Second)
		for i, v := range list {
			if v := <-v; v.err != nil {
				t.Errorf("request %d: %v", i, v.err)
			}
		}
		<-b
		pass(time.Minute)
		h.calm()
	})
}

func TestDrain(t *testing.T) {
	bubble(t, "if those who wait leave while the model drains, it goes on as if nothing had been", func(t *testing.T) {
		h := shuttle(t)
		engine := h.gpu.engine()
		long := h.come(h.a, time.Minute)
		ctx, leave := context.WithCancel(t.Context())
		b := h.visit(ctx, Ask{Slot: h.b, Budget: time.Hour}, 0)
		pass(h.a.Node.Turn + time.Second)
		h.state(h.a, hearth.SlotDraining)
		next := h.come(h.a, time.Second)
		leave()
		h.state(h.a, hearth.SlotReady)
		if v := <-b; v.err == nil {
			t.Error("who left was served")
		}
		if l, v := <-long, <-next; v.in != l.done || v.err != nil || l.err != nil {
			t.Errorf("the next was let in %v after the one before, %v, %v", v.in.Sub(l.done), v.err, l.err)
		}
		if h.gpu.engine() != engine || h.gpu.starts != 2 {
			t.Errorf("another engine, %d starts", h.gpu.starts)
		}
		h.calm()
	})
	// history is a with two places, of which one is taken for 20 s from now on, and that drains for b. It was seen that most
	// take 2 s and some 20 s.
	history := func(t *testing.T) (h *house, long, b <-chan visit) {
		h = shuttle(t, func(s *hearth.Slot) { s.Concurrency = 2 })
		for _, d := range []time.Duration{2, 2, 2, 20} {
			<-h.come(h.a, d*time.Second)
		}
		pass(time.Minute)
		long = h.come(h.a, 20*time.Second)
		b = h.come(h.b, time.Second)
		pass(h.a.Node.Turn + time.Second)
		h.state(h.a, hearth.SlotDraining)
		return h, long, b
	}
	bubble(t, "a short request is let in beside a long one that the drain waits for", func(t *testing.T) {
		h, long, b := history(t)
		if v := <-h.come(h.a, 2*time.Second); v.waited() != 0 {
			t.Errorf("it waited %v", v.waited())
		}
		l, v := <-long, <-b
		between(t, "the swap, from the end of the long one on", v.in.Sub(l.done), 3*time.Second, 3*time.Second+notice)
		h.calm()
	})
	bubble(t, "not if it is likely to make the drain longer: it waits for the next turn", func(t *testing.T) {
		h, long, b := history(t)
		pass(8 * time.Second)
		h.state(h.a, hearth.SlotDraining)
		late := h.come(h.a, 2*time.Second)
		l, v := <-long, <-b
		between(t, "the swap, from the end of the long one on", v.in.Sub(l.done), 3*time.Second, 3*time.Second+notice)
		if a := <-late; a.err != nil || a.in.Before(v.in) {
			t.Errorf("it was let in %v after the other model, %v", a.in.Sub(v.in), a.err)
		}
		h.calm()
	})
}

// Whoever leaves in the very moment in which a place comes free for it takes nothing with it.
func TestLeavesAsItIsGranted(t *testing.T) {
	bubble(t, "of those who wait in a ready slot, and for a load", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 2 * time.Second, stops: time.Second})
		served := 0
		for i := range 200 {
			var first <-chan visit
			if i%2 == 0 {
				first = h.come(h.a, time.Second) // whose place comes free then
			}
			ctx, leave := context.WithCancel(t.Context())
			var list []<-chan visit
			for range 1 + i%3 {
				list = append(list, h.visit(ctx, Ask{Slot: h.a, Class: []hearth.Class{hearth.Interactive, hearth.Batch}[i/2%2], Budget: time.Hour}, 0))
			}
			time.AfterFunc(time.Second, leave)
			for _, c := range list {
				if v := <-c; v.err == nil {
					served++
				}
			}
			if first != nil {
				<-first
			}
			leave()
			synctest.Wait()
			if v := h.View(h.a); v.Inflight != 0 || v.Waiting != 0 {
				t.Fatalf("after %d: %d in it, %d waiting", i, v.Inflight, v.Waiting)
			}
		}
		if served == 0 {
			t.Error("nobody was served")
		}
		if v := <-h.visit(t.Context(), Ask{Slot: h.a}, 0); v.err != nil {
			t.Errorf("a free place is not given: %v", v.err)
		}
		h.calm()
	})
}
