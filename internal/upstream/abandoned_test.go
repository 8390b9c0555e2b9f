package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// settles makes a provider one whose streams are read on for so long.
func settles(d time.Duration) func(*hearth.Provider) {
	return func(p *hearth.Provider) {
		p.Settle = d
		p.Limits = hearth.Limits{FirstByte: time.Minute, Answer: time.Minute, Idle: 20 * s}
	}
}

var errLeft = errors.New("left")

// soFar is a piece of a stream with a count on the way.
func soFar(w string, made int) string {
	return event(fmt.Sprintf(`{"id":"up-1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`, w, made))
}

// TestAbandoned: what is learned of a stream whose caller left in its middle, and when that is over.
func TestAbandoned(t *testing.T) {
	const leaves = 1500 * time.Millisecond
	first := line{time.Second, chunked + part(role+word("one")+word("two"))}
	stream := func(rest ...line) []line { return append([]line{first}, rest...) }
	told := hearth.Usage{PromptTokens: 3, CompletionTokens: 2, Reported: true}
	made := func(n int64) hearth.Usage { return hearth.Usage{PromptTokens: 3, CompletionTokens: n, Reported: true} }
	for _, c := range []struct {
		name     string
		settle   time.Duration
		script   []line
		over     time.Duration // when the call comes back
		usage    hearth.Usage
		unbilled int
		failure  string
		kept     bool // the connection can be used again
	}{
		{"to its end", 30 * s, stream(line{2 * s, part(word("three"))}, line{2 * s, part(finish+usage+done) + lastPart}), 5 * s, told, 0, "", true},
		{"to its end without [DONE]", 30 * s, stream(line{4 * s, part(finish+usage) + lastPart}), 5 * s, told, 0, "", true},
		{"to its end without usage", 30 * s, stream(line{4 * s, part(word("three")+finish+done) + lastPart}), 5 * s, hearth.Usage{}, 2, "", true},
		{"until the limit", 4 * s, stream(line{30 * s, part(finish + usage + done)}), leaves + 4*s, hearth.Usage{}, 2, "", false},
		{"until the limit, with running counts", 4 * s, stream(line{s, part(soFar("three", 3))}, line{s, part(soFar("four", 4))}, line{30 * s, part(finish + usage + done)}), leaves + 4*s, made(4), 0, "", false},
		{"chatter does not lengthen the limit", 4 * s, stream(line{2 * s, part(": a\n\n")}, line{2 * s, part(word("x"))}, line{2 * s, part(word("y"))}), leaves + 4*s, hearth.Usage{}, 2, "", false},
		{"to an error", 30 * s, stream(line{s, part(soFar("three", 3) + oops)}), 2 * s, made(3), 0, "provider answered with an error", false},
		{"to a cut", 30 * s, stream(line{s, part(soFar("three", 3))}, line{s, "no chunk\r\n"}), 3 * s, made(3), 0, "the stream was cut off", false},
		{"to a stall", 60 * s, stream(line{s, part(soFar("three", 3))}), 22 * s, made(3), 0, "the stream stalled", false},
		{"to what is no JSON", 30 * s, stream(line{s, part(event(`{"choices"`))}), 2 * s, hearth.Usage{}, 2, "the stream held an event that is not JSON", false},
		{"at once", 0, stream(line{s, part(usage)}), leaves, hearth.Usage{}, 2, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := within(t, c.script, settles(c.settle))
				ctx, leave := context.WithCancelCause(t.Context())
				time.AfterFunc(leaves, func() { leave(errLeft) })
				r := attempt(ctx, client, &Call{Endpoint: e, Stream: true})
				over := time.Since(b.start)
				if r.end != "gone" || !errors.Is(r.err, errLeft) || r.text != "onetwo" || over != c.over {
					t.Errorf("%v, %v after %v", r, r.err, over)
				}
				if r.stream.Usage != c.usage || r.stream.Unbilled != c.unbilled {
					t.Errorf("%+v, %d unbilled", r.stream.Usage, r.stream.Unbilled)
				}
				if got := messageOf(r.failure); got != c.failure {
					t.Errorf("failure %q", got)
				}
				if len(client.settlement.going) != 0 {
					t.Error("its place did not come back")
				}
				synctest.Wait()
				if kept := len(b.closed) == 0; kept != c.kept {
					t.Errorf("the connection was kept: %v", kept)
				}
				client.Close()
				if closed := <-b.closed; closed != over {
					t.Errorf("the upstream was told after %v", closed)
				}
			})
		})
	}
}

func messageOf(f *Failure) string {
	if f == nil {
		return ""
	}
	return f.Message
}

// TestAbandoned_Bytes: a stream that brings ever more is not read on for long.
func TestAbandoned_Bytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := []line{{time.Second, chunked + part(word("one"))}}
		for range 20 {
			script = append(script, line{time.Second, part(word(strings.Repeat("x", 1000)))})
		}
		b, client, e := within(t, script, settles(time.Minute))
		client.settlement.bytes = 5000
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { leave(errLeft) })
		r := attempt(ctx, client, &Call{Endpoint: e, Stream: true})
		if over := time.Since(b.start); r.end != "gone" || r.failure != nil || over != 7*s {
			t.Errorf("%v after %v", r, over)
		}
		client.Close()
	})
}

// TestAbandoned_Count: only so many are read on at once, and places come back.
func TestAbandoned_Count(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, client, e := within(t, []line{{0, chunked + part(word("one"))}, {10 * s, part(finish+usage+done) + lastPart}}, settles(time.Minute))
		client.settlement.most = 2
		ctx, leave := context.WithCancelCause(t.Context())
		ends := make(chan *result, 5)
		for range 5 {
			go func() { ends <- amongOthers(ctx, client, &Call{Endpoint: e, Stream: true}) }()
		}
		time.AfterFunc(s, func() { leave(errLeft) })
		at := map[time.Duration]int{}
		for range 5 {
			r := <-ends
			at[time.Since(b.start)]++
			if r.end != "gone" {
				t.Error(r)
			}
		}
		if at[s] != 3 || at[10*s] != 2 {
			t.Errorf("they came back after %v", at)
		}
		client.Close() // the kept connections serve no second request
		again, leaveAgain := context.WithCancelCause(t.Context())
		time.AfterFunc(s, func() { leaveAgain(errLeft) })
		if r := amongOthers(again, client, &Call{Endpoint: e, Stream: true}); r.stream == nil || !r.stream.Usage.Reported {
			t.Errorf("no place came back: %v", r)
		}
		client.Close()
	})
}

// TestAbandoned_Unwritable: a caller who cannot be written to has left, even if nobody has said so.
func TestAbandoned_Unwritable(t *testing.T) {
	t.Run("a write fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, client, e := within(t, []line{{s, chunked + part(word("one"))}, {4 * s, part(finish+usage+done) + lastPart}}, settles(30*s))
			w := &sluggish{ResponseRecorder: httptest.NewRecorder(), err: os.ErrClosed}
			st := commit(t, client, &Call{Endpoint: e, Stream: true})
			end := st.Copy(w, time.Minute)
			if over := time.Since(b.start); end.Verdict != hearth.Gone || !errors.Is(end.Err, os.ErrClosed) || over != 5*s || !st.Usage.Reported || st.Unbilled != 0 {
				t.Errorf("%+v after %v, %+v", end, over, st.Usage)
			}
			client.Close()
		})
	})
	t.Run("a comment fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// Nothing is taken from the first comment on, at 11 s; it fails at 41 s.
			b, client, e := within(t, []line{{s, chunked + part(word("one"))}, {59 * s, part(finish+usage+done) + lastPart}}, settles(30*s),
				func(p *hearth.Provider) { p.Limits.Idle = 0 })
			w := hears(1)
			st := commit(t, client, &Call{Endpoint: e, Stream: true})
			end := st.Copy(w, 30*s)
			if over := time.Since(b.start); end.Verdict != hearth.Gone || !errors.Is(end.Err, os.ErrDeadlineExceeded) || over != 60*s || !st.Usage.Reported {
				t.Errorf("%+v after %v, %+v", end, over, st.Usage)
			}
			client.Close()
		})
	})
	t.Run("a comment fails, and nothing more comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, client, e := within(t, []line{{s, chunked + part(word("one"))}}, settles(5*s), func(p *hearth.Provider) { p.Limits.Idle = 0 })
			st := commit(t, client, &Call{Endpoint: e, Stream: true})
			end := st.Copy(hears(1), 30*s)
			if over := time.Since(b.start); end.Verdict != hearth.Gone || over != 46*s || st.Usage.Reported {
				t.Errorf("%+v after %v, %+v", end, over, st.Usage)
			}
			client.Close()
		})
	})
}

// TestAbandoned_AtOnce: nothing is read on for callers who leave before there is a stream, or of an answer that is none.
func TestAbandoned_AtOnce(t *testing.T) {
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := within(t, []line{{time.Millisecond, m.sent}}, settles(30*s))
				ctx, leave := context.WithCancelCause(t.Context())
				time.AfterFunc(s, func() { leave(errLeft) })
				r := attempt(ctx, client, &Call{Endpoint: e, Stream: m.stream})
				over := time.Since(b.start)
				if began := r.stream != nil; r.end != "gone" || !errors.Is(r.err, errLeft) || began && over != 20*s+time.Millisecond || !began && over != s {
					t.Errorf("%v, %v after %v", r, r.err, over)
				}
				client.Close()
			})
		})
	}
}

// TestAbandoned_Shutdown: the end of the gateway is no caller's leaving, and nobody is read on for after it.
func TestAbandoned_Shutdown(t *testing.T) {
	script := []line{{s, chunked + part(word("one"))}, {9 * s, part(finish+usage+done) + lastPart}}
	t.Run("a caller is told", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, client, e := within(t, script, settles(30*s))
			ctx, end := context.WithCancelCause(t.Context())
			time.AfterFunc(2*s, func() { end(ErrShutdown) })
			r := attempt(ctx, client, &Call{Endpoint: e, Stream: true})
			if over := time.Since(b.start); r.String() != "broken one: the gateway is shutting down" || over != 2*s {
				t.Errorf("%v after %v", r, over)
			}
			client.Close()
		})
	})
	t.Run("who has left is read on for no longer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, before, e := within(t, script, settles(30*s))
			after, err := before.Next(&hearth.Catalog{Currency: "KRW"}, Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancelCause(t.Context())
			time.AfterFunc(2*s, func() { leave(errLeft) })
			time.AfterFunc(3*s, after.EndAbandoned)
			for _, want := range []time.Duration{3 * s, 5 * s} {
				r := attempt(ctx, before, &Call{Endpoint: e, Stream: true})
				if over := time.Since(b.start); r.end != "gone" || r.failure != nil || over != want {
					t.Errorf("%v after %v, want %v", r, over, want)
				}
				ctx, leave = context.WithCancelCause(t.Context())
				time.AfterFunc(2*s, func() { leave(errLeft) })
			}
			before.Close()
		})
	})
}

// TestAbandoned_Engine: an engine of the house never works for nobody, whatever its provider says.
func TestAbandoned_Engine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{start: time.Now(), closed: make(chan time.Duration, 10)}
		_, e := engineAt(t, "http://127.0.0.1:9")
		e.Provider.Settle = 30 * s
		client := clientWith(t, Options{LocalDial: b.dial(func(int) []line {
			return []line{{s, chunked + part(soFar("one", 1))}, {9 * s, part(finish + usage + done)}}
		})}, e)
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(2*s, func() { leave(errLeft) })
		r := attempt(ctx, client, &Call{Endpoint: e, EngineURL: "http://127.0.0.1:9", Stream: true})
		if over := time.Since(b.start); r.end != "gone" || over != 2*s || r.stream.Usage.CompletionTokens != 1 || r.stream.Unbilled != 0 {
			t.Errorf("%v after %v, %+v", r, over, r.stream.Usage)
		}
		client.Close()
		if closed := <-b.closed; closed > 2*s+promptly {
			t.Errorf("the engine was told after %v", closed)
		}
	})
}
