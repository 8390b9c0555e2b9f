package faults

import (
	"strings"
	"testing"
)

// stream is a complete chunked body of these events.
func stream(events ...string) script { return script{say(sseHead + parts(events...) + lastPart)} }

// raw is a chunked event stream whose body is given as it stands, in one piece.
func raw(body string) script { return script{say(sseHead + part(body) + lastPart)} }

const eventError = "event: error\ndata: {\"message\":\"the engine fell over\"}\n\n"

// starts are answers that go wrong before their first content.
var starts = []row{
	{name: "an error event first", stream: stream(errorEvent, "[DONE]"), whole: withBody(200, errorEvent), blame: counted},
	{name: "an error event first, with a choice", stream: stream(`{"id":"up-1","object":"chat.completion.chunk","created":1,"model":"m","error":{"code":502,"message":"the engine fell over"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "[DONE]"), blame: counted},
	{name: "an error event first, by its name", stream: raw(eventError), blame: counted},
	{name: "a rate limit as first event", stream: stream(`{"error":{"code":429,"message":"slow down"}}`), whole: withBody(200, `{"error":{"code":429,"message":"slow down"}}`), blame: resting},
	{name: "an error of the older vLLM", stream: stream(`{"object":"error","message":"the engine fell over","type":"InternalServerError","code":500}`, "[DONE]"), whole: withBody(200, `{"object":"error","message":"the engine fell over","type":"InternalServerError","code":500}`), blame: counted},
	{name: "a role, then an error", stream: stream(roleEvent, errorEvent), blame: counted},
	{name: "a role, then the end", stream: stream(roleEvent), blame: counted},
	{name: "a role, then [DONE]", stream: stream(roleEvent, "[DONE]"), blame: counted},
	{name: "a role, then usage and [DONE]", stream: stream(roleEvent, usageEvent, "[DONE]"), blame: counted},
	{name: "a role, then a cut", stream: script{say(sseHead + parts(roleEvent)), hangUp}, blame: counted},
	{name: "only [DONE]", stream: stream("[DONE]"), blame: counted},
	{name: "an empty body", stream: script{say(sseHead + lastPart)}, whole: withBody(200, ""), blame: counted},
	{name: "an empty body of length 0", stream: script{say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n")}, blame: counted},
	{name: "choices null", stream: stream(`{"id":"up-1","choices":null}`, "[DONE]"), whole: withBody(200, `{"id":"up-1","object":"chat.completion","choices":null}`), blame: counted},
	{name: "choices empty", stream: stream(`{"id":"up-1","choices":[]}`, "[DONE]"), whole: withBody(200, `{"id":"up-1","object":"chat.completion","choices":[]}`), blame: counted},
	{name: "no choices", stream: stream(`{}`, "[DONE]"), whole: withBody(200, `{}`), blame: counted},
	{name: "a choice that is null", stream: stream(`{"choices":[null]}`, "[DONE]"), whole: withBody(200, `{"choices":[null]}`), blame: counted},
	{
		name: "finish_reason error at once", blame: counted,
		stream: stream(strings.Replace(finishEvent, `"stop"`, `"error"`, 1), "[DONE]"),
		whole:  withBody(200, strings.Replace(strings.Replace(whole(""), `"stop"`, `"error"`, 1), `"content":""`, `"content":null`, 1)),
	},
	{name: "nothing but null", stream: stream("null", "null"), whole: withBody(200, "null"), blame: counted},
	{name: "a page of HTML", stream: script{say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 36\r\n\r\n<html><body>It works!</body></html>\n")}, whole: withBody(200, "<html><body>It works!</body></html>\n"), blame: counted},
	{name: "a list", whole: withBody(200, `[]`), blame: counted},
	{name: "half of the JSON, with the length to it", whole: withBody(200, whole(twenty)[:120]), blame: counted},
	{name: "JSON with rubbish behind it", whole: withBody(200, whole(twenty)+"}}"), want: byEither},
	{name: "a first event that is not JSON, and no more", stream: raw("data: {\"id\":\"up-1\",\"choi\n\n"), blame: counted},
	{name: "a first event that is not JSON, then the answer", stream: script{say(sseHead + part("data: {\"id\":\"up-1\",\"choi\n\n") + parts(said(twenty, 0, 20)...) + rest(20))}, want: byEither},
	{name: "4 MiB and more of empty deltas", stream: script{say(sseHead), repeat(parts(strings.Replace(roleEvent, `"up-1"`, `"`+longWord+`"`, 1)), 0)}, heavy: true, limits: "first_byte: 20s", blame: counted},
	{name: "a first event that never ends", stream: script{say(sseHead + part("data: {\"id\":\"")), repeat(part(longWord), 0)}, heavy: true, limits: "first_byte: 30s", blame: counted},
	{name: "a piece with a size that is no number", stream: script{say(sseHead + "zz\r\ndata: x\r\n"), hangUp}, whole: nil, blame: counted},
	{
		name: "a finish reason and no words", want: byPrimary, silent: true,
		stream: stream(roleEvent, strings.Replace(finishEvent, `"stop"`, `"length"`, 1), strings.Replace(usageEvent, "20", "1", 1), "[DONE]"),
		whole:  withBody(200, strings.Replace(whole(""), `"stop"`, `"length"`, 1)),
	},
	{
		name: "reasoning and no words", want: byPrimary, silent: true,
		stream: stream(roleEvent, `{"id":"up-1","choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`, strings.Replace(finishEvent, `"stop"`, `"length"`, 1), usageEvent, "[DONE]"),
		whole:  withBody(200, strings.Replace(strings.Replace(whole(""), `"stop"`, `"length"`, 1), `"content":""`, `"content":null,"reasoning_content":"hm"`, 1)),
	},
}

func TestStarts(t *testing.T) { t.Parallel(); run(t, starts) }
