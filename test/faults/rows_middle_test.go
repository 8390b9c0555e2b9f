package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// midway are limits for answers that have begun: what comes before must not run into them.
const midway = "idle: 300ms, answer: 2s"

// breaks are answers that go wrong when they have begun. A whole answer has begun when its headers were good.
var breaks = []row{
	{
		name: "cut after 8 of 20 words", want: broken, blame: counted, words: 8,
		stream: script{say(begun(8)), wait(20 * time.Millisecond), reset},
		whole:  script{say(halfWhole()), wait(20 * time.Millisecond), reset},
	},
	{name: "closed after 8 of 20 words", want: broken, blame: counted, words: 8, stream: script{say(begun(8)), hangUp}, whole: script{say(halfWhole()), hangUp}},
	{name: "closed within an event", want: broken, blame: counted, words: 8, stream: script{say(begun(8) + part(`data: {"id":"up-1","choices":[{"index":0,"delta":{"content":"nine`)), hangUp}},
	{name: "EOF half-way, with neither finish_reason nor [DONE] nor usage", want: broken, blame: counted, words: 8, stream: script{say(begun(8) + lastPart)}},
	{name: "EOF half-way of a body that ends with its connection", want: broken, blame: counted, words: 8, stream: script{say(openHead + data(roleEvent) + data(said(twenty, 0, 8)...)), hangUp}},
	{name: "an orderly end within an event", want: broken, blame: counted, words: 8, stream: script{say(begun(8) + part(`data: {"id":"up-1","choices":[{"index":0,"del`) + lastPart)}},
	{name: "stalled after 8 of 20 words", want: broken, blame: counted, words: 8, limits: midway, stream: script{say(begun(8)), stall}, whole: script{say(halfWhole()), stall}},
	{name: "nothing but comments after 8 of 20 words", want: broken, blame: counted, words: 8, limits: "total: 2500ms", stream: script{say(begun(8)), repeat(part(": still here\n\n"), 10*time.Millisecond)}},
	{name: "a whole answer one byte at a time", want: broken, blame: counted, limits: midway, whole: script{say(jsonHead + "Content-Length: 10000\r\n\r\n"), dribble(whole(strings.Repeat(twenty, 100)), time.Millisecond)}},
	{name: "an error event after 8 of 20 words", want: broken, blame: counted, words: 8, raw: "the engine fell over", stream: script{say(begun(8) + parts(errorEvent, "[DONE]") + lastPart)}},
	{name: "an error event after 8 of 20 words, then silence", want: broken, blame: counted, words: 8, raw: "the engine fell over", stream: script{say(begun(8) + parts(errorEvent)), stall}},
	{name: "an error event by its name", want: broken, blame: counted, words: 8, raw: "the engine fell over", stream: script{say(begun(8) + part(eventError)), stall}},
	{name: "an error that is a text", want: broken, blame: counted, words: 8, raw: "the engine fell over", stream: script{say(begun(8) + parts(`{"error":"the engine fell over"}`)), stall}},
	{name: "an error with a code that is a word", want: broken, blame: counted, words: 8, raw: "the engine fell over", stream: script{say(begun(8) + parts(`{"error":{"code":"server_error","message":"the engine fell over"}}`)), stall}},
	{name: "an error in a chunk with a choice", want: broken, blame: counted, words: 8, raw: "the engine fell over", stream: script{say(begun(8) + parts(`{"id":"up-1","object":"chat.completion.chunk","created":1,"error":{"code":502,"message":"the engine fell over"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "[DONE]") + lastPart)}},
	{name: "an overload after 8 of 20 words", want: broken, blame: counted, words: 8, raw: "overloaded", stream: script{say(begun(8) + part("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"overloaded\"}}\n\n")), stall}},
	{name: "a finish_reason error without an error", want: broken, blame: counted, words: 8, stream: script{say(begun(8) + parts(strings.Replace(finishEvent, `"stop"`, `"error"`, 1), "[DONE]") + lastPart)}},
	{name: "an event that is not JSON", want: clear, words: 8, stream: script{say(begun(8) + part("data: {\"id\":\"up-1\",\"choi\n\n") + rest(8))}},
	{name: "an event that is not an object", want: clear, words: 8, stream: script{say(begun(8) + part("data: [1,2,3]\n\n") + rest(8))}},
	{name: "a piece with a size that is no number, half-way", want: broken, blame: counted, words: 8, stream: script{say(begun(8) + "zz\r\ndata: x\r\n"), hangUp}},
	{name: "a piece longer than its size", want: broken, blame: counted, words: 8, stream: script{say(begun(8) + "5\r\ndata: {\"id\":\r\n\r\n"), hangUp}},
	{name: "a stream shorter than its length", want: broken, blame: counted, words: 8, stream: script{say(lengthHead(100_000) + data(roleEvent) + data(said(twenty, 0, 8)...)), hangUp}},
	{name: "a length that ends half-way", want: broken, blame: counted, words: 8, stream: script{say(lengthHead(len(data(roleEvent)+data(said(twenty, 0, 8)...))) + data(roleEvent) + data(said(twenty, 0, 20)...) + data(finishEvent) + done)}},
	{name: "a whole answer shorter than its length", want: broken, blame: counted, whole: script{say(jsonHead + "Content-Length: 100000\r\n\r\n" + whole(twenty)), hangUp}},
	{name: "a whole answer longer than 64 MiB", heavy: true, want: broken, blame: counted, whole: script{say(jsonHead + "Transfer-Encoding: chunked\r\n\r\n"), repeat(part(strings.Repeat(" ", 64<<10)), 0)}},
	{name: "a whole answer that promises a terabyte", want: broken, blame: counted, limits: midway, whole: script{say(jsonHead + "Content-Length: 1099511627776\r\n\r\n{\"id\":"), stall}},
	{name: "an endless stream", want: broken, blame: counted, limits: "total: 1500ms", more: `,"max_tokens":16`, stream: script{say(begun(20)), repeat(parts(word("and on ")), time.Millisecond)}},
	{name: "an endless stream past the output limit", want: broken, blame: counted, raw: "beyond the output", more: `,"max_tokens":16`, stream: script{say(begun(20)), repeat(parts(word(longWord)), 0)}},
	{name: "an event that never ends, half-way", heavy: true, want: broken, blame: counted, words: 8, stream: script{say(begun(8) + part("data: {\"id\":\"")), repeat(part(longWord), 0)}},
}

// halfWhole is the beginning of an answer that breaks off.
func halfWhole() string {
	body := whole(twenty)
	return jsonHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body[:len(body)/2]
}

func lengthHead(n int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n", n)
}

func TestBreaks(t *testing.T) { t.Parallel(); run(t, breaks) }

func TestBreaksAtSlot(t *testing.T) { t.Parallel(); runAtSlot(t, breaks) }

// ends are streams that are complete, however oddly they end.
var ends = []row{
	{name: "no [DONE]", want: byPrimary, stream: script{say(begun(20) + parts(finishEvent, usageEvent) + lastPart)}},
	{name: "no [DONE], and a reset", want: byPrimary, stream: script{say(begun(20) + parts(finishEvent, usageEvent)), wait(20 * time.Millisecond), reset}},
	{name: "no [DONE], and silence", want: byPrimary, limits: midway, stream: script{say(begun(20) + parts(finishEvent, usageEvent)), stall}},
	{name: "no [DONE], and comments for ever", want: byPrimary, limits: midway, stream: script{say(begun(20) + parts(finishEvent, usageEvent)), repeat(part(": still here\n\n"), 10*time.Millisecond)}},
	{name: "no finish_reason, but usage and [DONE]", want: byPrimary, stream: script{say(begun(20) + parts(usageEvent, "[DONE]") + lastPart)}},
	{name: "no finish_reason, but usage", want: byPrimary, stream: script{say(begun(20) + parts(usageEvent) + lastPart)}},
	{name: "silence after [DONE]", want: byPrimary, stream: script{say(begun(20) + parts(finishEvent, usageEvent, "[DONE]")), stall}},
	{name: "more words after [DONE]", want: byPrimary, stream: script{say(begun(20) + parts(finishEvent, usageEvent, "[DONE]", word("and on")) + lastPart)}},
	{name: "words for ever after [DONE]", want: byPrimary, stream: script{say(begun(20) + parts(finishEvent, usageEvent, "[DONE]")), repeat(parts(word("and on")), 0)}},
	{name: "[DONE] twice", want: byPrimary, stream: script{say(begun(20) + parts(finishEvent, usageEvent, "[DONE]", "[DONE]") + lastPart)}},
	{name: "a body longer than its length", want: byPrimary, stream: script{say(lengthHead(len(fullBody())) + fullBody() + data(word("and on")) + done)}, whole: script{say(reply("200 OK", whole(twenty)) + "HTTP/1.1 200 OK\r\n\r\nand on")}},
	{name: "a length longer than the body", want: byPrimary, stream: script{say(lengthHead(len(fullBody())+100) + fullBody()), hangUp}},
	{name: "usage in every chunk", want: byPrimary, stream: script{say(sseHead + parts(roleEvent) + runningUsage() + parts(finishEvent, usageEvent, "[DONE]") + lastPart)}},
}

// runningUsage are the words with running counts, as vLLM sends them when asked.
func runningUsage() string {
	var b strings.Builder
	for i, w := range said(twenty, 0, 20) {
		b.WriteString(parts(strings.TrimSuffix(w, "}") + fmt.Sprintf(`,"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}}`, i+1, i+8)))
	}
	return b.String()
}

func TestEnds(t *testing.T) { t.Parallel(); run(t, ends) }
