package relay

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/slot"
)

// together makes parts with slots of one node.
func together(exclusive bool, parts ...part) []part {
	node := &hearth.Node{Name: "gpu", Exclusive: exclusive}
	for i := range parts {
		if parts[i].local {
			parts[i].slot = func(s *hearth.Slot) { s.Node = node }
			parts[i].edit = func(e *hearth.Endpoint) { e.Tag = fmt.Sprint("local-gpu/gpu/", i) }
		}
	}
	return parts
}

// Local candidates side by side are one wait with one budget: whichever is ready first serves.
func TestWaitTogether(t *testing.T) {
	const s = time.Second
	runs := func(load time.Duration, h http.HandlerFunc) part { return part{local: true, load: load, serve: h} }
	for _, c := range []struct {
		name     string
		parts    []part
		woken    string // the slot that is up before the request
		attempts string
		took     time.Duration
		waits    []time.Duration // of each attempt
	}{
		{"one that is ready serves for one that loads", together(false, runs(60*s, answers), runs(s, answers)), "slot-1", "slot_loading 200", 0, []time.Duration{0, 0}},
		{"the first serves if it is ready", together(false, runs(s, answers), runs(s, answers)), "slot-0", "200", 0, []time.Duration{0}},
		{"the first is asked for, the others only if they are up", together(false, runs(20*s, answers), runs(10*s, answers)), "", "200", 20 * s, []time.Duration{20 * s}},
		{"the third of three", together(false, runs(60*s, answers), runs(60*s, answers), runs(s, answers)), "slot-2", "slot_loading slot_loading 200", 0, []time.Duration{0, 0, 0}},
		{"after its failure those before it are tried", together(false, runs(20*s, answers), runs(s, boom.serve)), "slot-1", "500 200", 20 * s, []time.Duration{0, 20 * s}},
		{"after its failure those behind it are tried", together(false, runs(time.Hour, answers), runs(s, boom.serve), good), "slot-1", "500 slot_loading 200", 90 * s, []time.Duration{0, 90 * s, 0}},
		{"one budget for all", together(false, runs(time.Hour, answers), runs(time.Hour, answers), good), "", "slot_loading slot_loading 200", 90 * s, []time.Duration{90 * s, 0, 0}},
		{"a stream that breaks is the last attempt", together(false, runs(60*s, answers), runs(s, cut.serve)), "slot-1", "slot_loading 200", s, []time.Duration{0, 0}},
		{"one that cannot be started is passed by", together(false, part{local: true, broken: true, serve: answers}, runs(5*s, answers)), "", "slot_failed 200", 5 * s, []time.Duration{0, 5 * s}},
		{"not across another candidate", together(false, runs(20*s, answers), boom, runs(s, answers)), "slot-2", "200", 20 * s, []time.Duration{20 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stage(t, Options{}, c.parts...)
				if c.woken != "" {
					w.must(w.fleet.Order(context.Background(), slot.Order{Slot: c.woken, Verb: slot.Wake}))
					<-time.After(5 * s)
				}
				body := ""
				if strings.Contains(c.name, "stream") {
					body = stream
				}
				a := w.ask(t.Context(), chat(body))
				g := w.record(a.id)
				var waits []time.Duration
				for _, at := range g.Attempts {
					waits = append(waits, at.SlotWait.Round(50*time.Millisecond))
				}
				if got := words(g.Attempts); got != c.attempts || a.took.Round(50*time.Millisecond) != c.took {
					t.Errorf("attempts %q after %v, %v", got, a.took, a.err)
				}
				if d := cmp.Diff(c.waits, waits); d != "" {
					t.Errorf("slot waits (-want +got):\n%s", d)
				}
				if last := g.Attempts[len(g.Attempts)-1]; last.Status == 200 && g.Endpoint != last.Endpoint {
					t.Errorf("served by %s, recorded as %s", last.Endpoint, g.Endpoint)
				}
				for i, at := range g.Attempts {
					for _, other := range g.Attempts[:i] {
						if other.Endpoint == at.Endpoint {
							t.Errorf("%s stands there twice", at.Endpoint)
						}
					}
				}
				synctest.Wait()
				w.permitsBack()
				w.calm()
			})
		})
	}
}

// Slots of different nodes are waited for one after the other, all of them within one budget.
func TestWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, never, never, never)
		a := s.ask(t.Context(), chat(""))
		g := s.record(a.id)
		total := time.Duration(0)
		for _, at := range g.Attempts {
			total += at.SlotWait
		}
		if got := words(g.Attempts); got != "slot_loading slot_loading slot_loading" || total != 90*time.Second || a.took != total {
			t.Errorf("attempts %q waited %v of %v", got, total, a.took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		short := never
		short.slot = func(s *hearth.Slot) { s.Wait = 7 * time.Second }
		s := stage(t, Options{}, short, never, good)
		a := s.ask(t.Context(), chat(""))
		if got := words(s.record(a.id).Attempts); got != "slot_loading slot_loading 200" || a.took != 90*time.Second || s.record(a.id).Attempts[0].SlotWait != 7*time.Second {
			t.Errorf("a slot with a wait of its own: %q after %v", got, a.took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, engine1(0), engine1(0))
		release := occupiedAt(s, 0)
		defer release()
		a := s.ask(t.Context(), chat(""))
		if got := words(s.record(a.id).Attempts); got != "slot_busy 200" || a.took.Round(time.Second) != 10*time.Second {
			t.Errorf("behind a queue with another node to go to: %q after %v", got, a.took)
		}
	})
}

// A slot whose endpoint has meanwhile gone into cooldown shares no wait.
func TestWaitTogether_Cooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := part{serve: after(5*time.Second, boom.serve)}
		s := stage(t, Options{}, append([]part{bad}, together(false, engine1(20*time.Second), engine1(0))...)...)
		s.must(s.fleet.Order(context.Background(), slot.Order{Slot: "slot-2", Verb: slot.Wake}))
		time.AfterFunc(time.Second, func() {
			for range health.Threshold {
				permit, _ := s.health.Take(2, time.Now())
				permit.Done(health.Failure, 0, time.Now())
			}
		})
		a := s.ask(t.Context(), chat(""))
		if got := words(s.record(a.id).Attempts); got != "500 200" || a.took.Round(time.Second) != 25*time.Second {
			t.Errorf("%q after %v", got, a.took)
		}
	})
}

// The money is held back for the one that serves, and not for the first of those that share a wait.
func TestWaitTogether_Money(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := together(false, engine1(20*time.Second), engine1(0))
		tag := parts[1].edit
		parts[1].edit = func(e *hearth.Endpoint) {
			tag(e)
			e.List = scenePrice.Times(decimal.NewFromInt(2))
		}
		s := stage(t, Options{}, append([]part{{serve: after(10*time.Second, boom.serve)}}, parts...)...)
		s.must(s.fleet.Order(context.Background(), slot.Order{Slot: "slot-2", Verb: slot.Wake}))
		s.key.Limit = 2400 * 1_000_000_000
		time.AfterFunc(time.Second, func() {
			if !s.holds(800 * 1_000_000_000) {
				t.Error("nothing was left for others")
			}
		})
		a := s.ask(t.Context(), chat(""))
		if got := words(s.record(a.id).Attempts); got != "500 over_budget 200" || a.err != nil {
			t.Errorf("%q, %v", got, a.err)
		}
	})
}

// What ends with a slot's word has not been tried: max_attempts does not count it.
func TestLoadingIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := part{local: true, serve: refuses(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`)}
		s := stage(t, Options{MaxAttempts: 2}, loads, loads, boom, good, good)
		a := s.ask(t.Context(), chat(""))
		if got := words(s.record(a.id).Attempts); got != "slot_loading slot_loading 500 200" || a.err != nil {
			t.Errorf("%q, %v", got, a.err)
		}
	})
}

func TestWithout(t *testing.T) {
	for i, want := range []string{"bcd", "acd", "abd", "abc"} {
		var cs []hearth.Candidate
		for _, r := range "abcd" {
			cs = append(cs, hearth.Candidate{Reason: string(r)})
		}
		got := ""
		for _, c := range without(cs, i) {
			got += c.Reason
		}
		if got != want {
			t.Errorf("without %d: %s", i, got)
		}
	}
}

// A slow caller does not hold the GPU: its place is free as soon as the engine is done, and one who takes nothing at all
// is left after the write limit.
func TestSlowCallerHoldsNoPlace(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		pace   time.Duration // of one write
		busy   time.Duration // until when the place is taken
		took   time.Duration
		status bool // served
	}{
		{"a caller who keeps up", 0, 5 * s, 5 * s, true},
		{"a slow caller", 8 * s, 5 * s, 24 * s, true}, // the first word, the others, the end
		{"a caller who takes nothing", time.Hour, 5 * s, 30 * s, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stage(t, Options{}, part{local: true, serve: chatter})
				w.ask(t.Context(), chat(stream)) // the engine is up
				start := time.Now()
				free := make(chan time.Duration, 1)
				go func() {
					<-time.After(s)
					tick := time.NewTicker(10 * time.Millisecond)
					defer tick.Stop()
					for w.fleet.View(w.cat.Slots[0]).Inflight > 0 {
						<-tick.C
					}
					free <- time.Since(start)
				}()
				a := w.ask(t.Context(), chat(stream), func(c2 *caller) {
					c2.write = func(int, []byte) error {
						select {
						case <-time.After(c.pace):
							return nil
						case <-time.After(time.Until(c2.deadline)):
							return context.DeadlineExceeded
						}
					}
				})
				if at := <-free; at.Round(50*time.Millisecond) != c.busy {
					t.Errorf("the place was taken for %v", at)
				}
				if took := a.took.Round(50 * time.Millisecond); took != c.took {
					t.Errorf("it took %v", took)
				}
				if g := w.record(a.id); (g.FinishReason == "stop" && !g.Cancelled) != c.status || g.Usage.CompletionTokens != 2 || (strings.Count(a.body.String(), "[DONE]") == 1) != c.status {
					t.Errorf("record %+v, stream %s", g, a.body.String())
				}
				synctest.Wait()
				w.permitsBack()
				w.calm()
			})
		})
	}
}
