package relay

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// way is a way out of a request.
type way struct {
	name   string
	o      Options
	parts  []part
	body   string
	before func(*scene) (undo func())
	leave  time.Duration // the caller leaves
	stop   time.Duration // the gateway does
	write  func(n int, b []byte) error

	unrecorded bool
	http       int              // of the record
	err        hearth.ErrorType // of the record
	cancelled  bool
	attempts   string // the words or numbers of provider_responses
	cost       hearth.Nano
}

func panics(n int) func(int, []byte) error {
	return func(i int, _ []byte) error {
		if i == n {
			panic("a defect")
		}
		return nil
	}
}

func breaks(n int) func(int, []byte) error {
	return func(i int, _ []byte) error {
		if i >= n {
			return errors.New("broken pipe")
		}
		return nil
	}
}

// outFor takes an endpoint out.
func outFor(o health.Outcome, times int) func(*scene) func() {
	return func(s *scene) func() {
		for range times {
			p, _ := s.health.Take(0, time.Now())
			p.Done(o, 20*time.Second, time.Now())
		}
		return func() {}
	}
}

func occupied(s *scene) func() { return occupiedAt(s, 0) }

// occupiedAt takes a place of a slot, starting its engine if need be.
func occupiedAt(s *scene, i int) (release func()) {
	l, err := s.fleet.Acquire(context.Background(), slot.Ask{Slot: s.cat.Slots[i], Budget: time.Minute})
	s.must(err)
	return l.Release
}

// contextFor is the context of a caller who leaves after a while, 0 = never.
func contextFor(t *testing.T, leaves time.Duration) (context.Context, context.CancelFunc) {
	ctx, leave := context.WithCancel(t.Context())
	if leaves > 0 {
		time.AfterFunc(leaves, leave)
	}
	return ctx, leave
}

const paid = 7_000_000_000 // three prompt and two completion tokens of a scene

var (
	good    = part{serve: answers}
	talks   = part{serve: chatter}
	mute    = part{serve: silent}
	boom    = part{serve: refuses(500, `{"error":{"message":"boom"}}`)}
	cut     = part{serve: speaks(time.Second, word("a"), word("b"))}
	half    = part{serve: halfAnswer}
	engine1 = func(load time.Duration) part { return part{serve: answers, local: true, load: load} }
	never   = engine1(time.Hour)
)

var ways = []way{
	{name: "served", parts: []part{good}, http: 200, attempts: "200", cost: paid},
	{name: "served as a stream", parts: []part{talks}, body: stream, http: 200, attempts: "200", cost: paid},
	{name: "served by the house", parts: []part{engine1(2 * time.Second)}, http: 200, attempts: "200", cost: paid},
	{name: "served by the next", parts: []part{boom, good}, http: 200, attempts: "500 200", cost: paid},
	{name: "a stream that breaks", parts: []part{cut, good}, body: stream, http: 200, err: hearth.ErrProvider, attempts: "200"},
	{name: "a whole answer that breaks", parts: []part{half, good}, http: 502, err: hearth.ErrProvider, attempts: "200"},
	{name: "all failed", parts: []part{boom, boom}, http: 502, err: hearth.ErrProvider, attempts: "500 500"},
	{name: "the engine does not come up", parts: []part{never, boom}, http: 502, err: hearth.ErrProvider, attempts: "slot_loading 500"},
	{name: "the engine cannot be started", parts: []part{{serve: answers, local: true, broken: true}}, http: 503, err: hearth.ErrModelLoading, attempts: "slot_failed"},
	{name: "no place in the slot", parts: []part{engine1(0), good}, before: occupied, http: 200, attempts: "slot_busy 200", cost: paid},
	{name: "no place in the queue", parts: []part{{serve: answers, local: true, slot: func(s *hearth.Slot) { s.Queue = 0 }}, good}, before: occupied,
		http: 200, attempts: "slot_queue_full 200", cost: paid},

	{name: "unknown model alone", parts: []part{good}, body: `{"model": "no/such", "messages": [{"role": "user", "content": "x"}]}`, http: 404, err: hearth.ErrModelNotFound},
	{name: "the key may not", parts: []part{good}, before: func(s *scene) func() { s.key.LocalOnly = true; return func() {} }, http: 403, err: hearth.ErrNotAllowed},
	{name: "nothing left of the caller's conditions", parts: []part{good}, body: `, "provider": {"ignore": ["p0"]}`, http: 404, err: hearth.ErrNoEndpoints},
	{name: "too long for all", parts: []part{{serve: answers, edit: func(e *hearth.Endpoint) { e.Context = 10 }}}, unrecorded: true},
	{name: "all in cooldown", parts: []part{good}, before: outFor(health.Failure, health.Threshold), http: 503, err: hearth.ErrCoolingDown},
	{name: "all rate limited", parts: []part{good}, before: outFor(health.RateLimited, 1), http: 503, err: hearth.ErrCoolingDown},
	{name: "no money", parts: []part{good}, before: func(s *scene) func() { s.key.Limit = 1; return func() {} }, http: 402, err: hearth.ErrInsufficientCredits},
	{name: "not JSON", parts: []part{good}, body: `, ]`, unrecorded: true},
	{name: "too large", parts: []part{good}, body: `, "x": "` + strings.Repeat("x", 1<<20) + `"`, unrecorded: true},

	{name: "the caller leaves before the first token", parts: []part{{serve: headersOnly}}, body: stream, leave: time.Second, http: 499, cancelled: true, attempts: "cancelled"},
	{name: "the caller leaves mid-stream", parts: []part{talks}, body: stream, leave: 2500 * time.Millisecond, http: 200, cancelled: true, attempts: "200"},
	{name: "the caller leaves during a whole answer", parts: []part{mute}, leave: time.Second, http: 499, cancelled: true, attempts: "cancelled"},
	{name: "the caller leaves the queue of a slot", parts: []part{engine1(0)}, before: occupied, leave: time.Second, http: 499, cancelled: true, attempts: "cancelled"},
	{name: "the caller leaves after a failure", parts: []part{boom, mute}, leave: time.Second, http: 499, cancelled: true, attempts: "500 cancelled"},
	{name: "the caller leaves after early headers", o: Options{EarlyHeaders: time.Second}, parts: []part{mute}, body: stream, leave: 2 * time.Second,
		http: 200, cancelled: true, attempts: "cancelled"},
	{name: "the gateway leaves", parts: []part{mute}, stop: time.Second, http: 503, err: hearth.ErrOverloaded, attempts: "cancelled"},
	{name: "the gateway leaves mid-stream", parts: []part{talks}, body: stream, stop: 1500 * time.Millisecond, http: 200, err: hearth.ErrOverloaded, attempts: "200"},

	{name: "the stream cannot be written", parts: []part{talks}, body: stream, write: breaks(2), http: 200, cancelled: true, attempts: "200"},
	{name: "the last bytes of a stream cannot be written", parts: []part{talks}, body: stream, write: breaks(7), http: 200, attempts: "200", cost: paid},
	{name: "the whole answer cannot be written", parts: []part{good}, write: breaks(1), http: 200, attempts: "200", cost: paid},
	{name: "a panic in the stream", parts: []part{talks}, body: stream, write: panics(2), http: 200, attempts: "200", err: hearth.ErrInternal},
	{name: "a panic in the first bytes of a stream", parts: []part{talks}, body: stream, write: panics(1), http: 200, attempts: "200", err: hearth.ErrInternal},
	{name: "a panic in a stream from the house", parts: []part{{serve: chatter, local: true}}, body: stream, write: panics(2), http: 200, attempts: "200", err: hearth.ErrInternal},
	{name: "a panic in the last bytes", parts: []part{talks}, body: stream, write: panics(7), http: 200, attempts: "200", cost: paid},
	{name: "a panic in a whole answer", parts: []part{good}, write: panics(1), http: 200, attempts: "200", cost: paid},
}

// halfAnswer promises more than it gives.
var halfAnswer = refuses(200, whole[:40], "Content-Length", "300")

func TestRecords(t *testing.T) {
	for _, c := range ways {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, c.o, c.parts...)
				undo := func() {}
				if c.before != nil {
					undo = c.before(s)
				}
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				if c.leave > 0 {
					time.AfterFunc(c.leave, func() { end(nil) })
				}
				if c.stop > 0 {
					time.AfterFunc(c.stop, func() { end(upstream.ErrShutdown) })
				}
				body := c.body
				if !strings.HasPrefix(body, "{") {
					body = chat(body)
				}
				a := s.ask(ctx, body, func(k *caller) { k.write = c.write })
				undo()
				checkWay(t, s, &c, a)
				synctest.Wait()
				s.calm()
				s.permitsBack()
			})
		})
	}
}

func checkWay(t *testing.T, s *scene, c *way, a asked) {
	t.Helper()
	g := s.record(a.id)
	if n := s.written()[a.id]; c.unrecorded != (n == 0) || n > 1 {
		t.Fatalf("recorded %d times", n)
	}
	if c.unrecorded {
		if a.err == nil {
			t.Error("no error")
		}
		return
	}
	if g.HTTP != c.http || g.Error != string(c.err) || g.Cancelled != c.cancelled || g.Bill.Cost != c.cost {
		t.Errorf("record: HTTP %d, error %q, cancelled %v, cost %v", g.HTTP, g.Error, g.Cancelled, g.Bill.Cost)
	}
	if got := words(g.Attempts); got != c.attempts {
		t.Errorf("attempts %q, want %q", got, c.attempts)
	}
	if a.err != nil && (a.status != 0 && c.write == nil || c.err != "" && a.err.Type != c.err) {
		t.Errorf("told %v after status %d", a.err, a.status)
	}
	if a.err == nil && a.status == 0 && !c.cancelled {
		t.Error("the caller was told nothing")
	}
}

// words are what provider_responses says of each attempt.
func words(attempts []hearth.Attempt) string {
	var out []string
	for _, a := range attempts {
		if a.Skip != "" {
			out = append(out, string(a.Skip))
		} else {
			out = append(out, strconv.Itoa(a.Status))
		}
	}
	return strings.Join(out, " ")
}

// A record that cannot be written: no answer is given that nobody could check, and nothing is kept back.
func TestRecords_Unwritable(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		part part
		o    Options
	}{
		"whole answer":                  {"", good, Options{}},
		"stream":                        {stream, talks, Options{}},
		"stream with early headers":     {stream, part{serve: after(3*time.Second, chatter)}, Options{EarlyHeaders: time.Second}},
		"failure":                       {"", boom, Options{}},
		"failure in an early answer":    {stream, part{serve: after(3*time.Second, refuses(500, "{}"))}, Options{EarlyHeaders: time.Second}},
		"a caller who leaves":           {"", mute, Options{}},
		"a stream that breaks half-way": {stream, cut, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, c.o, c.part)
				ctx, leave := context.WithCancel(t.Context())
				time.AfterFunc(500*time.Millisecond, func() { _ = s.journal.Close() })
				time.AfterFunc(20*time.Second, leave)
				serve := s.peers[0].serve
				s.peers[0].serve = after(600*time.Millisecond, serve)
				a := s.ask(ctx, chat(c.body))
				if strings.Contains(a.body.String(), `"cost"`) || strings.Contains(a.body.String(), "chat.completion\"") {
					t.Errorf("an answer was given: %s", a.body.String())
				}
				if a.status == 200 {
					ev := a.answer().events()
					last := object(t, ev[len(ev)-2])
					if ev[len(ev)-1] != "[DONE]" || at(last, "choices", 0, "finish_reason") != "error" {
						t.Errorf("events %q", ev)
					}
				} else if a.err == nil && a.took < 20*time.Second {
					t.Error("the caller was told nothing")
				}
				synctest.Wait()
				if n := s.relay.bodies.Load(); n != 0 || s.peers[0].inflight.Load() != 0 {
					t.Errorf("%d bytes of bodies are held", n)
				}
			})
		})
	}
}
