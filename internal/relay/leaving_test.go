package relay

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// prompt is how soon an upstream is told that its caller left, and a place in its slot is free again.
const prompt = 100 * time.Millisecond

// headersOnly begins a stream and says nothing.
func headersOnly(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

var chatter = speaks(time.Second, word("a"), word("b"), word("c"), word("d"), word("e"), lastWord)

const stream = `, "stream": true`

func TestLeaving(t *testing.T) {
	const at = 3500 * time.Millisecond
	for _, c := range []struct {
		name   string
		body   string
		local  part
		busy   bool // somebody else has the place
		asked  bool // the engine was asked
		status int
		skip   hearth.SkipReason
	}{
		{"before the first token", stream, part{serve: headersOnly}, false, true, 499, hearth.SkipCancelled},
		{"before the headers", stream, part{serve: silent}, false, true, 499, hearth.SkipCancelled},
		{"mid-stream", stream, part{serve: chatter}, false, true, 200, ""},
		{"during a whole answer", "", part{serve: silent}, false, true, 499, hearth.SkipCancelled},
		{"while the engine loads", stream, part{serve: chatter, load: time.Minute}, false, false, 499, hearth.SkipCancelled},
		{"in the queue of a busy slot", "", part{serve: answers}, true, false, 499, hearth.SkipCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.local.local = true
				s := stage(t, Options{}, c.local, part{serve: answers})
				if c.busy {
					l, err := s.fleet.Acquire(t.Context(), slot.Ask{Slot: s.cat.Slots[0], Budget: time.Minute})
					s.must(err)
					defer l.Release()
				}
				before := s.fleet.View(s.cat.Slots[0]).Inflight
				start := time.Since(s.start)
				ctx, leave := context.WithCancel(t.Context())
				time.AfterFunc(at, leave)
				a := s.ask(ctx, chat(c.body))
				if a.err != nil || a.took < at || a.took > at+prompt {
					t.Errorf("over after %v with %v", a.took, a.err)
				}
				synctest.Wait()
				if now := time.Since(s.start) - start; now > at+prompt {
					t.Errorf("it took until %v", now)
				}
				if v := s.fleet.View(s.cat.Slots[0]); v.Inflight != before || v.Waiting != 0 {
					t.Errorf("%d in flight, %d waiting", v.Inflight, v.Waiting)
				}
				left := s.peers[0].departures()
				if told := len(left) == 1 && left[0]-start >= at && left[0]-start <= at+prompt; told != c.asked {
					t.Errorf("the engine was told at %v", left)
				}
				if n := s.peers[1].seen.Load(); n != 0 {
					t.Errorf("the next candidate was asked %d times", n)
				}
				g := s.record(a.id)
				if g == nil || !g.Cancelled || g.HTTP != c.status || g.Error != "" || g.Bill.Cost != 0 || len(g.Attempts) != 1 {
					t.Fatalf("record %+v", g)
				}
				if p := g.Attempts[0]; p.Skip != c.skip || p.Blame != hearth.BlameNobody || p.Verdict != hearth.Gone {
					t.Errorf("attempt %+v", p)
				}
				if h := s.health.View()[0]; h.Skip != "" {
					t.Errorf("health %+v", h)
				}
			})
		})
	}
}

// A thousand callers who leave at a thousand moments leave nothing behind.
func TestLeaving_AThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := func(s *hearth.Slot) { s.Concurrency, s.Queue = 300, 1000 }
		s := stageFor(t, 64<<20, Options{EarlyHeaders: 2 * time.Second}, part{serve: chatter, local: true, load: 2 * time.Second, slot: places}, part{serve: silent})
		ended := make(chan asked)
		for i := range 1000 {
			ctx, leave := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() { leave(context.Canceled) })
			go func() {
				extra := stream
				if i%3 == 0 {
					extra = ""
				}
				ended <- s.ask(ctx, chat(extra))
			}()
		}
		recorded := 0
		for range 1000 {
			a := <-ended
			if g := s.record(a.id); g != nil && g.Cancelled {
				recorded++
			}
			if a.met {
				t.Error("two wrote to one caller at once")
			}
		}
		synctest.Wait()
		for i, p := range s.peers {
			if n := p.inflight.Load(); n != 0 {
				t.Errorf("upstream %d: %d requests", i, n)
			}
		}
		if v := s.fleet.View(s.cat.Slots[0]); v.Inflight != 0 || v.Waiting != 0 || recorded != 1000 {
			t.Errorf("%d in flight, %d waiting, %d recorded", v.Inflight, v.Waiting, recorded)
		}
		if n := s.relay.bodies.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are held", n)
		}
	})
}

// The end of the grace of a shutdown is no leaving: the caller is told.
func TestShutdown(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		local  part
		o      Options
		status int // 0: the error is told by the server
	}{
		"before the first token":  {stream, part{serve: headersOnly}, Options{}, 0},
		"during a whole answer":   {"", part{serve: silent}, Options{}, 0},
		"while the engine loads":  {stream, part{serve: chatter, local: true, load: time.Minute}, Options{}, 0},
		"mid-stream":              {stream, part{serve: chatter}, Options{}, 200},
		"after the early headers": {stream, part{serve: silent}, Options{EarlyHeaders: time.Second}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, c.o, c.local, part{serve: answers})
				ctx, end := context.WithCancelCause(t.Context())
				time.AfterFunc(2500*time.Millisecond, func() { end(upstream.ErrShutdown) })
				a := s.ask(ctx, chat(c.body))
				var told any
				switch {
				case a.err != nil:
					told = string(a.err.Type)
				default:
					ev := a.answer().events()
					told = at(object(t, ev[len(ev)-2]), "error", "type")
				}
				if told != "overloaded" || a.status != c.status || a.took != 2500*time.Millisecond {
					t.Errorf("told %v, status %d, after %v", told, a.status, a.took)
				}
				g := s.record(a.id)
				if g == nil || g.Cancelled || g.Error != "overloaded" || g.HTTP != max(c.status, 200) && g.HTTP != 503 || s.peers[1].seen.Load() != 0 {
					t.Errorf("record %+v", g)
				}
				synctest.Wait()
				s.calm()
			})
		})
	}
}
