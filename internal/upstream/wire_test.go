package upstream

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

func TestStreamOnTheWire(t *testing.T) {
	const (
		early    = "next: the stream ended before its first token"
		cut      = "broken one two: the stream was cut off"
		noFinish = "broken one two: the stream ended without a finish reason"
		garbled  = "broken one two: the stream held an event that is not JSON"
		counted  = 1
		maxEvent = 8 << 20 // here; the reader's own bound is its test's
	)
	two := word("one ") + word("two")
	whole := func(body string) string { return chunked + part(body) + lastPart }
	inParts := func(body string, size int) string {
		var b strings.Builder
		b.WriteString(chunked)
		for len(body) > 0 {
			n := min(size, len(body))
			b.WriteString(part(body[:n]))
			body = body[n:]
		}
		return b.String() + lastPart
	}
	for _, c := range []struct {
		name   string
		script func(net.Conn, int)
		want   string
		usage  int // of two completion tokens, or none
	}{
		{"a good answer", says(whole(role+two+finish+usage+done), false), "served one two", counted},
		{"without usage", says(whole(role+two+finish+done), false), "served one two", 0},
		{"without [DONE]", says(whole(two+finish), false), "served one two", 0},
		{"without [DONE], usage last", says(whole(two+finish+usage), false), "served one two", counted},
		{"without finish reason", says(whole(two+done), false), "served one two", 0},
		{"usage in place of a finish reason", says(whole(two+usage), false), "served one two", counted},
		{"usage in the finish chunk", says(whole(two+event(`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)), false), "served one two", counted},
		{"usage after [DONE]", says(whole(two+finish+done+usage), false), "served one two", 0},
		{"finish reason alone", says(whole(role+finish+done), false), "served ", 0},
		{"connection ends the body", says(untilEOF+two+finish+usage+done, true), "served one two", counted},
		{"no blank line at the end", says(untilEOF+two+finish+"data: [DONE]", true), "served one two", 0},
		{"connection stays open after [DONE]", says(chunked+part(two+finish+usage+done), false), "served one two", counted},

		{"error event first", says(whole(oops), false), "next: provider answered with an error: no capacity", 0},
		{"error event after the role", says(whole(role+oops+done), false), "next: provider answered with an error: no capacity", 0},
		{"error event by name", says(whole("event: error\n"+event(`{"message":"no capacity"}`)+done), false), "next: provider answered with an error: no capacity", 0},
		{"error event by name, no JSON", says(whole("event: error\ndata: no capacity\n\n"), false), "next: provider answered with an error: no capacity", 0},
		{"error event of the older vLLM", says(whole(event(`{"object": "error","message":"no capacity","code":500}`)+done), false), "next: provider answered with an error: no capacity", 0},
		{"finish reason error first", says(whole(event(`{"choices":[{"delta":{},"finish_reason":"error"}]}`)), false), "next: provider answered with an error: the upstream ended its answer with an error", 0},
		{"role, then the end", says(whole(role), false), early, 0},
		{"role, then a cut", says(chunked+part(role), true), "next: the connection broke before an answer", 0},
		{"role, then a reset", resets(chunked + part(role)), "next: connection reset", 0},
		{"only [DONE]", says(whole(done), false), early, 0},
		{"empty body", says(chunked+lastPart, false), early, 0},
		{"empty body with a length", says(head+"Content-Length: 0\r\n\r\n", false), early, 0},
		{"no content", says("HTTP/1.1 204 No Content\r\n\r\n", false), early, 0},
		{"choices null", says(whole(event(`{"choices":null}`)+done), false), early, 0},
		{"choices empty", says(whole(event(`{"choices":[]}`)+done), false), early, 0},
		{"data null", says(whole(event(`null`)+done), false), early, 0},
		{"data null, then an answer", says(whole(event(`null`)+two+finish+done), false), "served one two", 0},
		{"only usage", says(whole(usage+done), false), early, 0},
		{"malformed first", says(whole(event(`{"choices":[`)+two+finish+done), false), "next: the stream held an event that is not JSON", 0},
		{"HTML", says(answers("text/html", "<html>sorry</html>"), false), "next: provider answered with a page where a stream was asked for", 0},
		{"JSON answer", says(answers("application/json", `{"choices":[{"message":{"content":"one"},"index":  0 }]}`), false), "served one", 0},
		{"JSON error", says(answers("application/json; charset=utf-8", `{"error":{"code":503,"message":"no capacity"}}`), false), "next: provider answered with an error: no capacity", 0},
		{"JSON error of the older vLLM", says(answers("application/json", `{"object":"error","message":"no capacity","code":503}`), false), "next: provider answered with an error: no capacity", 0},
		{"compressed", says(head+"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n\x1f\x8b", false), "next: provider answered in a content encoding that was not asked for", 0},

		{"longer than its length", says(head+"Connection: close\r\nContent-Length: "+fmt.Sprint(len(two+finish))+"\r\n\r\n"+two+finish+usage+done, true), "served one two", 0},
		{"longer than its length, cut in a word", says(head+"Connection: close\r\nContent-Length: "+fmt.Sprint(len(two))+"\r\n\r\n"+two+finish+usage+done, true), noFinish, 0},
		{"chunk longer than its size", says(chunked+part(two)+"5\r\n"+word("three")+"\r\n", true), cut, 0},
		{"chunk size that is no number", says(chunked+part(two)+"what?\r\n", true), cut, 0},
		{"chunk size beyond all measure", says(chunked+part(two)+"fffffffffffffffff\r\n", true), cut, 0},
		{"trailers without end", says(chunked+part(two+finish+done)+"0\r\n"+strings.Repeat("X: y\r\n", 1<<17), true), "served one two", 0},
		{"cut after a word", says(chunked+part(two), true), cut, 0},
		{"reset after a word", resets(chunked + part(two)), cut, 0},
		{"cut inside of an event", says(chunked+part(two+`data: {"cho`), true), cut, 0},
		{"shorter than its length", says(head+"Content-Length: 9999\r\n\r\n"+two, true), cut, 0},
		{"orderly end half-way", says(whole(two), false), noFinish, 0},
		{"end of the connection half-way", says(untilEOF+two, true), noFinish, 0},
		{"end of the connection inside of an event", says(untilEOF+two+`data: {"choices":[{"delta":{"content":"thr`, true), garbled, 0},
		{"running usage is no end", says(whole(word("one ")+event(`{"choices":[{"delta":{"content":"two"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)), false), noFinish, counted},
		{"one of two choices is no end", says(whole(two+finish+event(`{"choices":[{"index":1,"delta":{"content":""},"finish_reason":null}]}`)+event(`{"choices":[{"index":1,"delta":{"content":"!"}}]}`)), false),
			"broken one two!: the stream ended without a finish reason", 0},
		{"cut after the finish reason", says(chunked+part(two+finish), true), "served one two", 0},
		{"usage cut in two after the finish reason", says(untilEOF+two+finish+usage[:40], true), "served one two", 0},
		{"cut after usage alone", says(chunked+part(two+usage), true), cut, counted},
		{"malformed after usage alone", says(whole(two+usage+event(`{"cho`)), false), garbled, counted},
		{"malformed in the middle", says(whole(two+event(`{"choices":[`)+finish+done), false), garbled, 0},
		{"words in the middle", says(whole(two+event(`"upstream says hello"`)+finish+done), false), garbled, 0},
		{"error event in the middle", says(whole(two+oops+done), false), "broken one two: provider answered with an error: no capacity", 0},
		{"error event by name in the middle", says(whole(two+"event: error\n"+event(`{"message":"no capacity"}`)+done), false), "broken one two: provider answered with an error: no capacity", 0},
		{"error event of the older vLLM in the middle", says(whole(two+event(`{"object":"error","message":"no capacity","code":500}`)+done), false), "broken one two: provider answered with an error: no capacity", 0},
		{"error event after the finish reason", says(whole(two+finish+oops), false), "broken one two: provider answered with an error: no capacity", 0},
		{"finish reason error", says(whole(two+event(`{"choices":[{"delta":{},"finish_reason":"error"}]}`)+done), false), "broken one two: provider answered with an error: the upstream ended its answer with an error", 0},
		{"error that quotes the key", says(whole(two+event(`{"error":{"code":500,"message":"9f8e7d6c-5b4a-key is not known"}}`)), false), "broken one two: provider answered with an error", 0},

		{"comments", says(whole(": hello\n\n"+role+":\n\n"+two+": still here\n\n"+finish+usage+done), false), "served one two", counted},
		{"CRLF", says(whole(strings.ReplaceAll(role+two+finish+usage+done, "\n", "\r\n")), false), "served one two", counted},
		{"CR", says(whole(strings.ReplaceAll(role+two+finish+usage+done, "\n", "\r")), false), "served one two", counted},
		{"BOM and no space", says(whole("\xef\xbb\xbf"+strings.ReplaceAll(two+finish+usage+done, "data: ", "data:")), false), "served one two", counted},
		{"split at every byte", says(inParts(role+word("하나")+word("둘")+finish+usage+done, 1), false), "served 하나둘", counted},
		{"split at every 7 bytes", says(inParts(": x\r\n\r\n"+role+two+finish+usage+done, 7), false), "served one two", counted},
		{"event of 2 MiB", says(whole(role+two+word(strings.Repeat("x", 2<<20))+finish+done), false), "served one two" + strings.Repeat("x", 2<<20), 0},
		{"event of 6 MiB", says(whole(role+two+word(strings.Repeat("x", 6<<20))+finish+done), false), "served one two" + strings.Repeat("x", 6<<20), 0},
		{"first event of 2 MiB", says(whole(role+word(strings.Repeat("x", 2<<20))+finish+done), false), "served " + strings.Repeat("x", 2<<20), 0},
		{"event beyond every bound", says(chunked+part(two)+part("data: "+strings.Repeat("x", maxEvent)), true), "broken one two: the stream held an event of more than 32 MiB", 0},
		{"too much before the first token", says(whole(strings.Repeat(event(`{"choices":[{"delta":{"x":"`+strings.Repeat("y", 1<<16)+`"}}]}`), 70)+two+finish), false), "next: the stream brought too much before its first token", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, c.script)
			client, e := endpoint(t, p.url())
			if client.event != 0 {
				t.Errorf("an event may have %d bytes", client.event)
			}
			client.event = maxEvent
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
			if got := r.String(); got != c.want && got+" " != c.want {
				t.Fatalf("got %.300s (%v), want %.300s", got, r.err, c.want)
			}
			if r.failure != nil && r.failure.Blame != hearth.BlameEndpoint {
				t.Errorf("blame = %v", r.failure.Blame)
			}
			if r.stream == nil {
				return
			}
			if want := (hearth.Usage{PromptTokens: 3, CompletionTokens: 2, Reported: true}); c.usage == counted && r.stream.Usage != want || c.usage == 0 && r.stream.Usage.Reported {
				t.Errorf("usage = %+v", r.stream.Usage)
			}
			if r.end == "served" && r.stream.Finish != "" && r.stream.Finish != "stop" {
				t.Errorf("finish reason = %q", r.stream.Finish)
			}
			if r.stream.FirstAt.IsZero() {
				t.Error("no time of the first token")
			}
		})
	}
}

func TestStreamBlame(t *testing.T) {
	for _, c := range []struct {
		code  int
		blame hearth.Blame
	}{{400, hearth.BlameNobody}, {401, hearth.BlameAccount}, {429, hearth.BlameRateLimit}, {500, hearth.BlameEndpoint}} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, begun %v", c.code, begun), func(t *testing.T) {
				body := role
				if begun {
					body = word("one")
				}
				p := listen(t, says(chunked+part(body+event(fmt.Sprintf(`{"error":{"code":%d,"message":"x"}}`, c.code)))+lastPart, false))
				client, e := endpoint(t, p.url())
				r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
				if r.failure == nil || r.failure.Blame != c.blame || r.failure.Status != c.code || (r.end == "broken") != begun {
					t.Errorf("got %v, %+v", r, r.failure)
				}
			})
		}
	}
	t.Run("a local stream that has begun is not loading", func(t *testing.T) {
		p := listen(t, says(chunked+part(word("one")+event(`{"error":{"code":503,"message":"Loading model"}}`))+lastPart, false))
		client, e := engineAt(t, p.url())
		r := attempt(t.Context(), client, &Call{Endpoint: e, EngineURL: p.url(), Stream: true})
		if r.end != "broken" || r.failure.Loading {
			t.Errorf("got %v, %+v", r, r.failure)
		}
	})
}
