package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestEarlyHeaders(t *testing.T) {
	const s = time.Second
	late := func(d time.Duration) part { return part{serve: after(d, chatter)} }
	for _, c := range []struct {
		name     string
		o        Options
		key      time.Duration
		body     string
		parts    []part
		comments []time.Duration // all of them
		headers  time.Duration   // when the first bytes came
		named    bool            // in the headers
		end      string          // the type of the error at the end, "" = none
		over     time.Duration
	}{
		{"headers and a comment after the wait, the winner in each chunk", Options{EarlyHeaders: 20 * s}, 0, stream,
			[]part{late(25 * s)}, []time.Duration{20 * s}, 20 * s, false, "", 30 * s},
		{"a winner within the wait is named in the headers", Options{EarlyHeaders: 20 * s}, 0, stream,
			[]part{late(19 * s)}, nil, 19 * s, true, "", 24 * s},
		{"a comment every so often while an engine loads", Options{EarlyHeaders: 20 * s, KeepAlive: 7 * s}, 0, stream,
			[]part{{local: true, load: 40 * s, serve: chatter}}, []time.Duration{20 * s, 27 * s, 34 * s}, 20 * s, false, "", 45 * s},
		{"not without the option", Options{}, 0, stream, []part{late(25 * s)}, nil, 25 * s, true, "", 30 * s},
		{"the key's own wait", Options{EarlyHeaders: 20 * s}, 5 * s, stream, []part{late(8 * s)}, []time.Duration{5 * s}, 5 * s, false, "", 13 * s},
		{"only the key asks for it", Options{}, 5 * s, stream, []part{late(8 * s)}, []time.Duration{5 * s}, 5 * s, false, "", 13 * s},
		{"the key wants none", Options{EarlyHeaders: 5 * s}, hearth.NoEarlyHeaders, stream, []part{late(8 * s)}, nil, 8 * s, true, "", 13 * s},
		{"never for a whole answer", Options{EarlyHeaders: 5 * s}, 0, "", []part{{serve: after(9*s, answers)}}, nil, 9 * s, true, "", 9 * s},
		{"the next candidate wins after the early headers", Options{EarlyHeaders: 10 * s}, 0, stream,
			[]part{{serve: after(15*s, refuses(500, "{}"))}, late(3 * s)}, []time.Duration{10 * s}, 10 * s, false, "", 23 * s},
		{"a chain that fails later says so within the stream", Options{EarlyHeaders: 10 * s}, 0, stream,
			[]part{{serve: after(15*s, refuses(500, "{}"))}, {serve: silent}}, []time.Duration{10 * s, 20 * s, 30 * s, 40 * s}, 10 * s, false, "provider_error", 45 * s},
		{"a chain that fails within the wait is an ordinary error", Options{EarlyHeaders: 10 * s}, 0, stream,
			[]part{{serve: after(5*s, refuses(500, "{}"))}}, nil, 0, false, "provider_error", 5 * s},
		{"an answer that breaks after early headers", Options{EarlyHeaders: 10 * s}, 0, stream,
			[]part{{serve: after(15*s, speaks(s, word("a"), word("b")))}}, []time.Duration{10 * s}, 10 * s, false, "provider_error", 16 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, c.o, c.parts...)
				sc.key.EarlyHeaders = c.key
				a := sc.ask(t.Context(), chat(c.body))
				if a.took < c.over || a.took > c.over+100*time.Millisecond || a.met { // an engine is asked in steps whether it is ready
					t.Errorf("over after %v; two wrote at once: %v", a.took, a.met)
				}
				checkEarly(t, sc, a, c.end, c.headers, c.named)
				if d := cmp.Diff(c.comments, a.comments()); d != "" {
					t.Errorf("comments (-want +got):\n%s", d)
				}
				synctest.Wait()
				sc.calm()
			})
		})
	}
}

// checkEarly checks the answer and its record: when it began, whether its headers name the winner, how it ended.
func checkEarly(t *testing.T, sc *scene, a asked, end string, headers time.Duration, named bool) {
	t.Helper()
	g := sc.record(a.id)
	if g == nil || g.Error != end {
		t.Fatalf("record %+v", g)
	}
	if headers == 0 {
		if a.err == nil || string(a.err.Type) != end || a.status != 0 || g.HTTP != a.err.HTTPStatus() {
			t.Errorf("error %v, status %d, recorded as %d", a.err, a.status, g.HTTP)
		}
		return
	}
	if a.err != nil || a.status != 200 || g.HTTP != 200 || len(a.heard) == 0 || a.heard[0].at != headers {
		t.Fatalf("%v, status %d, recorded as %d, heard %+v", a.err, a.status, g.HTTP, a.heard)
	}
	names := namesFor("X-MyIP") // as they are written, which is not the canonical form
	if got := a.sentTo[names.provider] != nil; got != named || a.sentTo[names.generation][0] != a.id || a.sentTo.Get("X-Generation-Id") != a.id {
		t.Errorf("headers %v", a.sentTo)
	}
	if !g.Streamed {
		return
	}
	if a.sentTo.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers %v", a.sentTo)
	}
	ev := a.answer().events()
	if len(ev) < 2 || ev[len(ev)-1] != "[DONE]" {
		t.Fatalf("events %q", ev)
	}
	for i, e := range ev[:len(ev)-1] {
		o := object(t, e)
		if o["id"] != a.id || o["model"] != model || g.Provider != "" && o["provider"] != g.Provider {
			t.Errorf("chunk %s", e)
		}
		last := i == len(ev)-2
		if failed := last && end != ""; (at(o, "choices", 0, "finish_reason") == "error") != failed || (o["error"] != nil) != failed {
			t.Errorf("chunk %s", e)
		}
	}
}

// A caller who does not take the comments is gone: whoever is at work for it is told.
func TestEarlyHeaders_ToNobody(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		write func(*caller) func(int, []byte) error
		at    time.Duration
	}{
		"the connection is gone": {func(*caller) func(int, []byte) error {
			return func(int, []byte) error { return errors.New("broken pipe") }
		}, 5 * s},
		"it takes nothing": {func(k *caller) func(int, []byte) error {
			return func(int, []byte) error {
				<-time.After(time.Until(k.deadline))
				return context.DeadlineExceeded
			}
		}, 35 * s},
		"writing panics": {func(*caller) func(int, []byte) error {
			return func(int, []byte) error { panic("a defect") }
		}, 5 * s},
	} {
		for _, p := range []part{{serve: silent}, {serve: chatter, local: true, load: 80 * s}} {
			t.Run(fmt.Sprintf("%s, local %v", name, p.local), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sc := stage(t, Options{EarlyHeaders: 5 * s, WriteLimit: 30 * s}, p, part{serve: chatter})
					sc.cat.Endpoints[0].Provider.Limits.FirstByte = 100 * s
					a := sc.ask(t.Context(), chat(stream), func(k *caller) { k.write = c.write(k) })
					g := sc.record(a.id)
					if a.took != c.at || a.err != nil || g == nil || !g.Cancelled || g.HTTP != 200 || sc.peers[1].seen.Load() != 0 || a.met {
						t.Errorf("after %v: %v, record %+v", a.took, a.err, g)
					}
					synctest.Wait()
					if left := sc.peers[0].departures(); !p.local && (len(left) != 1 || left[0] != c.at) {
						t.Errorf("the upstream was told at %v", left)
					}
					sc.calm()
				})
			})
		}
	}
}

// Whatever the moment at which the winner comes: nobody writes beside it, and the stream is whole.
func TestEarlyHeaders_EveryMoment(t *testing.T) {
	for ms := range 40 {
		wait := time.Duration(ms) * 250 * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			sc := stage(t, Options{EarlyHeaders: 2 * time.Second, KeepAlive: time.Second}, part{serve: after(wait, chatter)})
			a := sc.ask(t.Context(), chat(stream))
			text := strings.ReplaceAll(a.body.String(), string(comment), "")
			for e := range strings.SplitAfterSeq(text, "\n\n") {
				if e != "" && (!strings.HasPrefix(e, "data: ") || strings.Count(e, "\n") != 2) {
					t.Errorf("after %v: an event that is none: %q", wait, e)
				}
			}
			if g := sc.record(a.id); a.met || a.err != nil || g.Error != "" || g.Bill.Cost != 7_000_000_000 || strings.Count(text, "[DONE]") != 1 {
				t.Errorf("after %v: two at once %v, %v, %s", wait, a.met, a.err, text)
			}
		})
	}
}

// A comment that its caller does not take holds up no engine: the place is free when the engine is done.
func TestEarlyHeaders_NotTaken(t *testing.T) {
	const s = time.Second
	for name, taken := range map[string]time.Duration{"never": 35 * s, "late": 25 * s, "while the engine speaks": 10 * s} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, Options{EarlyHeaders: 5 * s, WriteLimit: 30 * s}, part{local: true, load: 7 * s, serve: chatter})
				time.AfterFunc(12*s+s/2, func() { // the engine was ready at 7 s and spoke for 5 s
					if v := sc.fleet.View(sc.cat.Slots[0]); v.Inflight != 0 {
						t.Errorf("%d requests are still in the engine", v.Inflight)
					}
				})
				a := sc.ask(t.Context(), chat(stream), func(k *caller) {
					k.write = func(n int, _ []byte) error {
						if n > 1 {
							return nil
						}
						<-time.After(taken - 5*s)
						if !time.Now().Before(k.deadline) {
							return context.DeadlineExceeded
						}
						return nil
					}
				})
				g, text := sc.record(a.id), strings.ReplaceAll(a.body.String(), string(comment), "")
				if taken == 35*s {
					if a.took != taken || !g.Cancelled || g.HTTP != 200 || text != "" {
						t.Errorf("over after %v with %q: %+v", a.took, text, g)
					}
				} else if a.took > max(taken, 12*s)+s/2 || g.Cancelled || g.Error != "" || strings.Count(text, `"content":"`) != 5 || !strings.HasSuffix(text, "[DONE]\n\n") {
					t.Errorf("over after %v with %s: %+v", a.took, text, g)
				}
				if a.met || a.sentTo[namesFor("X-MyIP").provider] != nil {
					t.Errorf("two wrote at once: %v; headers %v", a.met, a.sentTo)
				}
				synctest.Wait()
				sc.calm()
			})
		})
	}
}
