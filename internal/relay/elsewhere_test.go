package relay

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// far is another machine that owns a slot.
type far struct {
	slot.Node
	asks  []slot.Ask
	waits time.Duration // before it answers
	does  func(*http.Request) (*http.Response, error)
}

func (*far) View(string) hearth.SlotView { return hearth.SlotView{State: hearth.SlotReady} }
func (*far) Watch(func(slot.Event))      {}
func (*far) Close(context.Context) error { return nil }

func (f *far) Acquire(_ context.Context, a slot.Ask) (*slot.Lease, error) {
	f.asks = append(f.asks, a)
	return &slot.Lease{URL: "http://far/v1/slots/x", Slot: a.Slot, Remote: true, Transport: f, Waited: func() time.Duration { return f.waits }}, nil
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(f.waits):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return f.does(r)
}

// cutOff is an answer whose connection breaks behind some text.
type cutOff struct {
	text string
	err  error
}

func (b *cutOff) Read(p []byte) (int, error) {
	if b.text == "" {
		return 0, b.err
	}
	n := copy(p, b.text)
	b.text = b.text[n:]
	return n, nil
}

func farAnswer(status int, text string, err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: io.NopCloser(&cutOff{text, err})}, nil
	}
}

func TestElsewhere(t *testing.T) {
	loading := &slot.Refusal{Word: hearth.SkipLoading, RetryAfter: 7 * time.Second, Message: "the model is loading over there"}
	lost := &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: 5 * time.Second, Message: "the machine gpu-2 does not answer"}
	refuse := func(r *slot.Refusal) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return nil, r }
	}
	for _, c := range []struct {
		name   string
		far    far
		words  string // of the attempts
		blame  hearth.Blame
		out    bool // of the far endpoint, after three requests
		broken string
	}{
		{"it refuses after a wait", far{waits: 20 * time.Second, does: refuse(loading)}, "slot_loading 200", hearth.BlameNobody, false, ""},
		{"it cannot be reached", far{does: refuse(lost)}, "slot_failed 200", hearth.BlameNobody, false, ""},
		{"it is lost before the first text", far{does: farAnswer(200, ": hello\n\n", lost)}, "slot_failed 200", hearth.BlameNobody, false, ""},
		{"it is lost in the middle", far{does: farAnswer(200, word("a"), lost)}, "200", hearth.BlameNobody, false, "gpu-2 does not answer"},
		{"its engine does not answer", far{does: farAnswer(502, `{"error":{"message":"the engine does not answer"}}`, io.EOF)}, "502 200", hearth.BlameEndpoint, true, ""},
		{"its engine breaks off in the middle", far{does: farAnswer(200, word("a"), io.ErrUnexpectedEOF)}, "200", hearth.BlameEndpoint, true, "cut off"},
		{"it waits longer than the first-byte limit", far{waits: 40 * time.Second, does: farAnswer(200, word("a")+lastWord, io.EOF)}, "200", hearth.BlameNobody, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.far
				s := stage(t, Options{MaxAttempts: 1}, part{local: true, far: &f}, part{serve: speaks(0, word("b"), lastWord)})
				if c.blame == hearth.BlameEndpoint {
					s = stage(t, Options{}, part{local: true, far: &f}, part{serve: speaks(0, word("b"), lastWord)})
				}
				for i := range 3 {
					a := s.ask(t.Context(), chat(stream))
					g := s.record(a.id)
					if a.err != nil || words(g.Attempts) != c.words || g.Attempts[0].Blame != c.blame {
						t.Fatalf("request %d: %v, attempts %+v", i, a.err, g.Attempts)
					}
					if got := g.Attempts[0].SlotWait; got < f.waits || got > f.waits+time.Second {
						t.Errorf("slot wait %s", got)
					}
					if !strings.Contains(a.body.String(), c.broken) || (c.broken != "") != strings.Contains(a.body.String(), `"finish_reason":"error"`) {
						t.Errorf("%s", a.body.String())
					}
				}
				synctest.Wait()
				if h := s.health.View()[0]; h.Out(time.Now()) != c.out {
					t.Errorf("health %+v", h)
				}
				if a := f.asks[0]; a.Budget != 90*time.Second || !a.HasNext || a.Generation == "" || a.Key != s.key.ID {
					t.Errorf("asked %+v", a)
				}
				s.permitsBack()
			})
		})
	}
	t.Run("slots over there share a wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &far{waits: 20 * time.Second}
			f.does = func(r *http.Request) (*http.Response, error) {
				if len(f.asks) == 1 {
					return nil, loading
				}
				return farAnswer(200, word("a")+lastWord, io.EOF)(r)
			}
			s := stage(t, Options{}, together(false, part{local: true, far: f}, part{local: true, far: f})...)
			a := s.ask(t.Context(), chat(stream))
			g := s.record(a.id)
			if got := words(g.Attempts); got != "slot_loading 200" || g.Endpoint != s.cat.Endpoints[1].ID || a.took.Round(time.Second) != 40*time.Second {
				t.Errorf("%q after %v by %s", got, a.took, g.Endpoint)
			}
			if len(f.asks) != 2 || f.asks[0].HasNext || len(f.asks[0].Also) != 1 || f.asks[0].Also[0] != s.cat.Slots[1] || f.asks[1].Budget != 70*time.Second {
				t.Errorf("asked %+v", f.asks)
			}
		})
	})
	t.Run("one budget holds for slots over there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &far{waits: 40 * time.Second, does: refuse(loading)}
			s := stage(t, Options{}, together(false, part{local: true, far: f}, part{local: true, far: f}, part{local: true, far: f})...)
			a := s.ask(t.Context(), chat(stream))
			if got := words(s.record(a.id).Attempts); got != "slot_loading slot_loading slot_loading" {
				t.Errorf("%q", got)
			}
			if len(f.asks) != 3 || f.asks[1].Budget != 50*time.Second || f.asks[2].Budget != 10*time.Second || len(f.asks[1].Also) != 1 {
				t.Errorf("asked %+v", f.asks)
			}
		})
	})
	t.Run("nobody else could serve", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, part{local: true, far: &far{does: refuse(loading)}})
			a := s.ask(t.Context(), chat(stream))
			if a.err == nil || a.err.Type != hearth.ErrModelLoading || a.err.SlotStatus != hearth.SkipLoading || a.err.RetryAfter < 7*time.Second || !strings.Contains(a.err.Message, loading.Message) {
				t.Errorf("%+v", a.err)
			}
		})
	})
}

// What a request may wait for a slot over there is no part of its engine's time for the first token: the slot's wait, or what
// the caller leaves of it. What it did wait is no part of what is measured.
func TestElsewhere_Time(t *testing.T) {
	for _, c := range []struct{ patience, took string }{{"", "40s"}, {"4", "34s"}} {
		synctest.Test(t, func(t *testing.T) {
			f := &far{waits: time.Hour}
			patient := part{local: true, load: time.Hour, serve: answers} // it may be waited for longer
			s := stage(t, Options{}, part{local: true, far: f, slot: func(s *hearth.Slot) { s.Wait = 10 * time.Second }}, good, patient)
			a := s.send(t.Context(), s.caller(), chat(stream), "X-MyIP-Max-Wait", c.patience)
			g := s.record(a.id)
			if words(g.Attempts) != "0 200" || !g.Attempts[0].TimedOut || a.took.String() != c.took {
				t.Errorf("%q: %q after %v", c.patience, words(g.Attempts), a.took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := &far{waits: 20 * time.Second}
		f.does = func(r *http.Request) (*http.Response, error) {
			<-time.After(2 * time.Second) // for the first token
			return farAnswer(200, word("a")+lastWord, io.EOF)(r)
		}
		s := stage(t, Options{}, part{local: true, far: f})
		s.ask(t.Context(), chat(stream))
		if v := s.windows.Speeds()[0]; v.Latency.P50 != 2 || v.Throughput.P50 != 1 {
			t.Errorf("measured %+v", v)
		}
	})
}
