package faults

import (
	"fmt"
	"strings"
)

// What a well-behaved upstream says, and the parts from which the others are made.

const (
	twenty = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"

	sseHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	openHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" // the body ends with the connection
	lastPart = "0\r\n\r\n"
	done     = "data: [DONE]\n\n"

	roleEvent   = `{"id":"up-1","object":"chat.completion.chunk","created":1,"model":"upstream-model","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	finishEvent = `{"id":"up-1","object":"chat.completion.chunk","created":1,"model":"upstream-model","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageEvent  = `{"id":"up-1","object":"chat.completion.chunk","created":1,"model":"upstream-model","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":20,"total_tokens":27}}`
	errorEvent  = `{"error":{"code":502,"message":"the engine fell over"}}`
)

// word is the event of a piece of content.
func word(text string) string {
	return fmt.Sprintf(`{"id":"up-1","object":"chat.completion.chunk","created":1,"model":"upstream-model","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
}

func data(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// part is one piece of a chunked body.
func part(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// parts puts each event into a piece of its own.
func parts(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(part(data(e)))
	}
	return b.String()
}

// said are the events of the words from number i up to j of a text.
func said(text string, i, j int) []string {
	all := strings.SplitAfter(text, " ")
	var out []string
	for _, w := range all[i:min(j, len(all))] {
		out = append(out, word(w))
	}
	return out
}

// begun is the start of a stream: the role and the first n words.
func begun(n int) string { return sseHead + parts(roleEvent) + parts(said(twenty, 0, n)...) }

// rest is what follows begun(n).
func rest(n int) string {
	return parts(said(twenty, n, 20)...) + parts(finishEvent, usageEvent) + part(done) + lastPart
}

// fullBody is the body of a complete stream, unframed.
func fullBody() string {
	return data(roleEvent) + data(said(twenty, 0, 20)...) + data(finishEvent, usageEvent) + done
}

// whole is a complete answer that is not streamed.
func whole(text string) string {
	return fmt.Sprintf(`{"id":"up-1","object":"chat.completion","created":1,"model":"upstream-model","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":20,"total_tokens":27}}`, text)
}

// reply is an answer with a length. lines are further header lines.
func reply(status, body string, lines ...string) string {
	return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\n" + strings.Join(append(lines, ""), "\r\n") +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// wellStream and wellWhole answer as they should.
var (
	wellStream = script{say(begun(20) + rest(20))}
	wellWhole  = script{say(reply("200 OK", whole(twenty)))}
)

// streamOf is a complete stream of a text.
func streamOf(text string) script {
	return script{say(sseHead + parts(roleEvent) + parts(said(text, 0, 1000)...) + parts(finishEvent, usageEvent) + part(done) + lastPart)}
}

// either answers as it was asked: as a stream or whole.
func either(stream, other script) act {
	return func(l *link) bool {
		if strings.Contains(string(l.last().body), `"stream":true`) {
			return l.playAll(stream)
		}
		return l.playAll(other)
	}
}

// well answers any request with a text.
func well(text string) act { return either(streamOf(text), script{say(reply("200 OK", whole(text)))}) }
