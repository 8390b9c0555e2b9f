package relay

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// mortal is an engine that answers several at once until it is killed.
type mortal struct {
	t    *testing.T
	s    *scene
	load time.Duration // of the engines after the first

	mu     sync.Mutex
	engine *pipeEngine
	killed chan struct{} // its sockets are closed
}

// starts is called with each new engine.
func (m *mortal) starts(e *pipeEngine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.engine != nil {
		e.ready = time.Now().Add(m.load)
	}
	m.engine = e
}

// ends lets the engine's death be seen.
func (m *mortal) ends() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.engine.Stop(context.Background(), 0)
}

// sockets is closed when those of the present engine are.
func (m *mortal) sockets() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed
}

// rises opens the sockets of the next engine.
func (m *mortal) rises() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killed = make(chan struct{})
	m.s.peers[0].dead.Store(false)
}

// part is the mortal as the first part of a scene.
func (m *mortal) part(serve http.HandlerFunc) part {
	m.killed = make(chan struct{})
	return part{
		local: true, made: m.starts, slot: func(s *hearth.Slot) { s.Concurrency = 4 },
		serve: func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			killed := m.sockets()
			go func() {
				select {
				case <-killed:
					cancel()
				case <-ctx.Done():
				}
			}()
			serve(w, r.WithContext(ctx))
			select {
			case <-killed:
				panic(http.ErrAbortHandler)
			default:
			}
		},
	}
}

// kill closes the engine's sockets now, and lets its death be seen later.
func (m *mortal) kill(seen time.Duration) {
	m.s.peers[0].dead.Store(true)
	close(m.sockets())
	time.AfterFunc(seen, m.ends)
}

// crowd sends n requests at once and waits for all.
func (s *scene) crowd(n int, body string) []asked {
	all := make([]asked, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = s.ask(s.t.Context(), body) })
	}
	wg.Wait()
	return all
}

// The death of an engine breaks all that is in it, and counts for nothing against its endpoint: the next request has
// another engine.
func TestEngineDies(t *testing.T) {
	const s = time.Second
	for name, seen := range map[string]time.Duration{
		"seen at once": 0, "seen before its answers break": -1, "seen late: a GPU's memory was to be given back": deathNews - 1,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mortal{t: t}
				m.s = stage(t, Options{}, m.part(speaks(s, word("a"), word("b"), word("c"), word("d"), word("e"), word("f"), lastWord)))
				at := 3500 * time.Millisecond
				if seen < 0 {
					time.AfterFunc(at, m.ends)
					at += time.Millisecond
				}
				time.AfterFunc(at, func() { m.kill(max(seen, 0)) })
				for _, a := range m.s.crowd(4, chat(stream)) {
					g := m.s.record(a.id)
					if g.Error != string(hearth.ErrProvider) || g.FinishReason != "error" || words(g.Attempts) != "200" || g.Attempts[0].Blame != hearth.BlameEndpoint ||
						!strings.Contains(g.Attempts[0].Message, "cut off") || !strings.Contains(a.body.String(), `"finish_reason":"error"`) {
						t.Errorf("%+v, %s", g, a.body.String())
					}
				}
				<-time.After(seen + 2*s) // the death is known
				m.rises()
				if a := m.s.ask(t.Context(), chat(stream)); a.err != nil {
					t.Errorf("the slot is not used: %v", a.err)
				}
				<-time.After(2 * deathNews)
				if h := m.s.health.View()[0]; h.Skip != "" {
					t.Errorf("health %+v", h)
				}
				if o := m.s.windows.Outcomes(0, time.Hour, time.Now()); o.Failed != 0 {
					t.Errorf("measured %+v", o)
				}
				if a := m.s.ask(t.Context(), chat(stream)); a.err != nil {
					t.Errorf("the slot is not used again: %v", a.err)
				}
				synctest.Wait()
				m.s.permitsBack()
				m.s.calm()
			})
		})
	}
}

// What an engine that is alive does counts: broken connections once it is sure that it lives, errors at once.
func TestEngineThatLivesIsBlamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		after time.Duration
	}{
		{"broken connections", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, deathNews},
		{"errors", boom.serve, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, part{local: true, serve: c.serve}, good)
				for range 3 {
					s.ask(t.Context(), chat(""))
				}
				last := time.Now()
				out := func() bool {
					synctest.Wait()
					out, failed := s.health.View()[0].Skip == hearth.SkipCooldown, s.windows.Outcomes(0, time.Hour, time.Now()).Failed
					if out != (failed == 3) || failed%3 != 0 {
						t.Errorf("out: %v, but %d failures are measured", out, failed)
					}
					return out
				}
				if c.after > 0 {
					<-time.After(c.after - 1)
					if out() {
						t.Error("it is out before it is sure that the engine lives")
					}
					<-time.After(1)
				}
				if !out() {
					t.Errorf("%v after three failures the endpoint is still in use", time.Since(last))
				}
				s.permitsBack()
			})
		})
	}
}

// A request that finds nobody at a dead engine's address was not sent: the slot is asked once more, if there is no other
// candidate, and has another engine once the death is known.
func TestNobodyListens(t *testing.T) {
	for _, most := range []int{0, 1} { // max_attempts: a candidate that is asked once more is one
		testNobodyListens(t, most)
	}
}

func testNobodyListens(t *testing.T, most int) {
	for _, c := range []struct {
		name     string
		next     []part
		seen     time.Duration // when the death is noticed after the request
		wait     string        // the caller's Max-Wait
		load     time.Duration // of the next engine
		attempts string
		kind     hearth.ErrorType
		took     time.Duration
	}{
		{"the only candidate", nil, 200 * time.Millisecond, "", 0, "0 200", "", 200 * time.Millisecond},
		{"its death is known already", nil, 0, "0", 0, "0 slot_loading", hearth.ErrModelLoading, 0},
		{"no wait is wanted", nil, 200 * time.Millisecond, "0", 0, "0", hearth.ErrProvider, 0},
		{"a short wait is wanted", nil, 200 * time.Millisecond, "0.1", 0, "0", hearth.ErrProvider, 100 * time.Millisecond},
		{"there is another candidate", []part{good}, 200 * time.Millisecond, "", 0, "0 200", "", 0},
		{"the other candidates failed as well", []part{boom}, 200 * time.Millisecond, "", 0, "0 500", hearth.ErrProvider, 0},
		{"the wait for the news is part of the wait for the next engine", nil, 2 * time.Second, "10", time.Hour, "0 slot_loading", hearth.ErrModelLoading, 10 * time.Second},
		{"its death is not noticed", nil, time.Hour, "", 0, "0", hearth.ErrProvider, deathNews},
	} {
		if most > 0 && len(c.next) > 0 {
			continue
		}
		t.Run(fmt.Sprint(c.name, ", at most ", most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mortal{t: t, load: c.load}
				m.s = stage(t, Options{MaxAttempts: most}, append([]part{m.part(answers)}, c.next...)...)
				m.s.ask(t.Context(), chat(""))
				close(m.sockets())
				m.s.peers[0].dead.Store(true)
				m.s.relay.upstream.Close() // the connections of a process end with it
				if c.seen == 0 {
					m.s.onDial = func() { m.ends(); synctest.Wait() }
				} else {
					time.AfterFunc(c.seen, func() {
						m.rises()
						m.ends()
					})
				}
				a := m.s.send(t.Context(), m.s.caller(), chat(""), "X-MyIP-Max-Wait", c.wait)
				g := m.s.record(a.id)
				if got := words(g.Attempts); got != c.attempts || hearth.ErrorType(g.Error) != c.kind || a.took != c.took {
					t.Errorf("attempts %q, %v after %v", got, a.err, a.took)
				}
				if g.Attempts[0].Message != "connection refused" || g.Attempts[0].Blame != hearth.BlameEndpoint {
					t.Errorf("attempt %+v", g.Attempts[0])
				}
				if c.kind == hearth.ErrModelLoading && (a.err.SlotStatus != hearth.SkipLoading || a.err.RetryAfter < time.Second) {
					t.Errorf("error %+v", a.err)
				}
				<-time.After(2 * deathNews)
				synctest.Wait()
				lives, answered := 0, 1
				if c.seen == time.Hour {
					lives = 1
				} else if g.Attempts[len(g.Attempts)-1].Endpoint == m.s.cat.Endpoints[0].ID && c.kind == "" {
					answered = 2
				}
				if o := m.s.windows.Outcomes(0, time.Hour, time.Now()); o.Failed != lives || o.Answered != answered {
					t.Errorf("measured %+v", o)
				}
				m.s.permitsBack()
				m.s.calm()
			})
		})
	}
}

// A slot is asked once more, and not again and again, and a caller who leaves meanwhile has left.
func TestNobodyListens_Twice(t *testing.T) {
	for _, c := range []struct {
		name     string
		leave    time.Duration // 0 = never
		attempts string
		took     time.Duration
	}{
		{"the next engine is gone as well", 0, "0 0", time.Second},
		{"the caller leaves before the news", time.Second / 2, "0 cancelled", time.Second / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mortal{t: t}
				m.s = stage(t, Options{}, m.part(answers))
				m.s.ask(t.Context(), chat(""))
				close(m.sockets())
				m.s.peers[0].dead.Store(true)
				m.s.relay.upstream.Close()
				m.s.onDial = func() { time.AfterFunc(time.Second, m.ends) }
				ctx, leave := contextFor(t, c.leave)
				defer leave()
				a := m.s.ask(ctx, chat(""))
				g := m.s.record(a.id)
				if got := words(g.Attempts); got != c.attempts || a.took != c.took || g.Cancelled != (c.leave > 0) {
					t.Errorf("attempts %q after %v, %v: %+v", got, a.took, a.err, g)
				}
				<-time.After(2 * deathNews)
				synctest.Wait()
				m.s.permitsBack()
				m.s.calm()
			})
		})
	}
}

// A request that a dying engine's address still takes is not lost with it, but one that the engine may have died of is
// not sent to the next.
func TestEngineDiesUnderTheNextRequest(t *testing.T) {
	for _, c := range []struct {
		name     string
		works    time.Duration // on the request
		lives    bool
		attempts string
		took     time.Duration
	}{
		{"its connection breaks at once", 0, false, "0 200", 50 * time.Millisecond},
		{"and it lives", 0, true, "0", deathNews},
		{"it has worked on it", lastGasp, false, "0", lastGasp},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mortal{t: t}
				died := false // one request at a time
				m.s = stage(t, Options{}, m.part(func(w http.ResponseWriter, r *http.Request) {
					if died {
						answers(w, r)
						return
					}
					died = true
					if !c.lives {
						time.AfterFunc(c.works+50*time.Millisecond, m.ends)
					}
					<-time.After(c.works)
					panic(http.ErrAbortHandler)
				}))
				a := m.s.ask(t.Context(), chat(""))
				g := m.s.record(a.id)
				if got := words(g.Attempts); got != c.attempts || a.took != c.took || g.Attempts[0].Message != "the connection broke before an answer" {
					t.Errorf("attempts %q, %+v after %v", got, g.Attempts, a.took)
				}
				<-time.After(2 * deathNews)
				synctest.Wait()
				m.s.permitsBack()
				m.s.calm()
			})
		})
	}
}

// An engine that is to go now ends what is in it with an error, and nobody is to blame.
func TestEngineIsCut(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name     string
		serve    http.HandlerFunc
		body     string
		next     []part
		attempts string
		kind     hearth.ErrorType
	}{
		{"mid-stream", speaks(4*s, word("a"), word("b"), word("c"), lastWord), stream, []part{good}, "200", hearth.ErrProvider},
		{"before the first token", headersOnly, stream, nil, "slot_failed", hearth.ErrModelLoading},
		{"before the first token, with another candidate", headersOnly, stream, []part{talks}, "slot_failed 200", ""},
		{"a whole answer", silent, "", []part{good}, "slot_failed 200", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stage(t, Options{MaxAttempts: 1}, append([]part{{local: true, serve: c.serve, slot: func(s *hearth.Slot) { s.DrainMax = 5 * time.Second }}}, c.next...)...)
				time.AfterFunc(s, func() { w.must(w.fleet.Order(context.Background(), slot.Order{Slot: "slot-0", Verb: slot.Drain})) })
				a := w.ask(t.Context(), chat(c.body))
				g := w.record(a.id)
				if got := words(g.Attempts); got != c.attempts || hearth.ErrorType(g.Error) != c.kind || g.Attempts[0].Blame != hearth.BlameNobody || g.Attempts[0].Message != "the engine is being stopped" {
					t.Errorf("attempts %q %+v, %v", got, g.Attempts, a.err)
				}
				synctest.Wait()
				if left := w.peers[0].departures(); len(left) != 1 || left[0].Round(100*time.Millisecond) != 6*s {
					t.Errorf("the engine was left at %v", left)
				}
				if c.body == stream && c.kind == hearth.ErrProvider && !strings.Contains(a.body.String(), "the engine is being stopped") {
					t.Errorf("stream %s", a.body.String())
				}
				if h := w.health.View()[0]; h.Skip != "" {
					t.Errorf("health %+v", h)
				}
				w.permitsBack()
				w.calm()
			})
		})
	}
}
