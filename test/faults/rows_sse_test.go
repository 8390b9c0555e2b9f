package faults

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"
)

// as is the complete stream in other clothes: the text of the events after a change.
func as(change func(string) string) script {
	return script{tell(func() string { return sseHead + part(change(fullBody())) + lastPart })}
}

// printed is a document with its line breaks between values, as people like to read it.
func printed(s string) string {
	return strings.NewReplacer(`{"`, "{\r\n  \"", `,"`, ",\n  \"", "}", "\n}").Replace(s)
}

func replaced(old, by string) func(string) string {
	return func(s string) string { return strings.ReplaceAll(s, old, by) }
}

// of is the complete stream, its body as it stands, with another head.
func of(head string) script { return script{say(head + fullBody()), hangUp} }

const closing = "Connection: close\r\n\r\n"

// clothes are streams that are complete and unusual, and bodies that are not what was asked for.
var clothes = []row{
	{name: "CRLF", want: byPrimary, stream: as(replaced("\n", "\r\n"))},
	{name: "CR", want: byPrimary, stream: as(replaced("\n", "\r"))},
	{name: "mixed line ends", want: byPrimary, stream: as(func(s string) string { return strings.Replace(replaced("\n\n", "\r\n\n")(s), "\r\n\n", "\r\r", 3) })},
	{name: "a byte order mark", want: byPrimary, stream: as(func(s string) string { return "\ufeff" + s })},
	{name: "comments", want: byPrimary, stream: as(func(s string) string {
		return ": OPENROUTER PROCESSING\n\n" + strings.ReplaceAll(s, "data: ", ": ping\n\n:\n:x\ndata: ")
	})},
	{name: "no space after the colon", want: byPrimary, stream: as(replaced("data: ", "data:"))},
	{name: "two spaces after the colon", want: byPrimary, stream: as(replaced("data: ", "data:  "))},
	{name: "names, ids and pauses", want: byPrimary, stream: as(replaced("data: ", "id: 1\nevent: message\nretry: 10\nunknown: x\ndata: "))},
	{name: "data: null", want: byPrimary, stream: as(replaced("data: ", "data: null\n\ndata: "))},
	{name: "empty data", want: byPrimary, stream: as(replaced("data: ", "data:\n\ndata\n\ndata: "))},
	{name: "data of several lines", want: byPrimary, stream: as(replaced(`,"object"`, ",\ndata: \"object\""))},
	{name: "data of several lines, within its text's members", want: byPrimary, stream: as(replaced(`"delta":{`, "\"delta\":{\r\ndata: \r\ndata:  "))},
	{name: "blank lines", want: byPrimary, stream: as(replaced("\n\n", "\n\n\n\n\n"))},
	{name: "no blank line at the end", want: byPrimary, stream: as(func(s string) string { return strings.TrimRight(s, "\n") })},
	{name: "all in one piece", want: byPrimary, stream: as(func(s string) string { return s })},
	{name: "one byte per piece", heavy: true, want: byPrimary, stream: script{say(sseHead), func(l *link) bool {
		for i := range len(fullBody()) {
			if !l.say("1\r\n" + fullBody()[i:i+1] + "\r\n") {
				return false
			}
		}
		return l.say(lastPart)
	}}},
	{name: "pieces that end within events", want: byPrimary, stream: script{func(l *link) bool {
		body := fullBody()
		return pieces(sseHead, part(body[:200]), part(body[200:201]), part(body[201:777]), part(body[777:]), lastPart)(l)
	}}},
	{name: "syllables cut across reads", want: byPrimary, text: hangul, stream: script{func(l *link) bool {
		body := data(roleEvent, word(hangul), finishEvent, usageEvent) + done
		if !l.say(sseHead) {
			return false
		}
		at := strings.Index(body, "하")
		return pieces(part(body[:at+1]), part(body[at+1:at+2]), part(body[at+2:at+5]), part(body[at+5:]), lastPart)(l)
	}}},
	{name: "a line of 2 MiB", heavy: true, want: byPrimary, mib: 2, stream: long(2), whole: longWhole(2)},
	{name: "a line of 6 MiB", heavy: true, want: byPrimary, mib: 6, stream: long(6), whole: longWhole(6)},
	{name: "a comment of 6 MiB", heavy: true, want: byPrimary, stream: as(func(s string) string { return ":" + line(6) + "\n" + s })},
	{name: "pieces with extensions, and trailers", want: byPrimary, stream: script{say(sseHead + strings.Replace(part(fullBody()), "\r\n", ";name=value\r\n", 1) + "0\r\nX-Checksum: 1\r\n\r\n")}},
	{name: "HTTP/1.0", want: byPrimary, stream: of("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), whole: script{say("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + whole(twenty)), hangUp}},
	{name: "a body without a length", want: byPrimary, stream: of(openHead), whole: script{say(jsonHead + closing + whole(twenty)), hangUp}},
	{name: "no content type", want: byPrimary, stream: of("HTTP/1.1 200 OK\r\n" + closing), whole: script{say("HTTP/1.1 200 OK\r\n" + closing + whole(twenty)), hangUp}},
	{name: "content type text/plain", want: byPrimary, stream: of("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n" + closing), whole: script{say("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + closing + whole(twenty)), hangUp}},
	{name: "content type application/json for a stream", want: byEither, stream: of(jsonHead + closing)},
	{name: "content type text/event-stream for a whole answer", want: byPrimary, whole: script{say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + closing + whole(twenty)), hangUp}},
	{name: "a whole answer where a stream was asked for", want: byEither, stream: wellWhole},
	{name: "a whole answer where a stream was asked for, as a stream", want: byEither, stream: script{say(openHead + whole(twenty)), hangUp}},
	{name: "a whole answer printed for people where a stream was asked for", want: byEither, stream: script{say(openHead + printed(strings.Replace(whole(twenty), `"content"`, `"annotations":[{"type":"x"}],"content"`, 1))), hangUp}},
	{name: "half of a whole answer where a stream was asked for", stream: script{say(halfWhole()), hangUp}, blame: counted},
	{name: "a stream where a whole answer was asked for", want: byEither, whole: wellStream},
	{name: "an error where a stream was asked for", stream: withBody(200, errorEvent), blame: counted},
	{name: "gzip", want: byEither, stream: script{say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n" + closing + zipped(fullBody())), hangUp}, whole: script{say(reply("200 OK", zipped(whole(twenty)), "Content-Encoding: gzip"))}},
	{name: "gzip that is none", stream: script{say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n" + closing + fullBody()), hangUp}, whole: script{say(reply("200 OK", whole(twenty), "Content-Encoding: br"))}, want: byEither},
	{name: "gzip that is not declared", stream: script{say(openHead + zipped(fullBody())), hangUp}, whole: script{say(reply("200 OK", zipped(whole(twenty))))}, blame: counted},
	{name: "content encoding identity", want: byPrimary, stream: of("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: identity\r\n" + closing), whole: script{say(reply("200 OK", whole(twenty), "Content-Encoding: identity"))}},
	{name: "slow words", want: byPrimary, stream: script{say(begun(3)), wait(50 * time.Millisecond), say(parts(said(twenty, 3, 20)...)), wait(50 * time.Millisecond), say(parts(finishEvent, usageEvent) + part(done) + lastPart)}},
	{name: "stream_options refused", want: byPrimary, stream: script{func(l *link) bool {
		if strings.Contains(string(l.last().body), "stream_options") {
			return l.playAll(refusal(400, "Unrecognized request argument supplied: stream_options"))
		}
		return l.playAll(wellStream)
	}}},
	{name: "white space around a whole answer", want: byPrimary, whole: script{say(reply("200 OK", "\n\n  "+whole(twenty)+"\n"))}},
	{name: "no usage at all", want: byPrimary, text: twenty, unbilled: true, stream: script{say(begun(20) + parts(finishEvent, "[DONE]") + lastPart)}, whole: script{say(reply("200 OK", strings.Replace(whole(twenty), `,"usage":{"prompt_tokens":7,"completion_tokens":20,"total_tokens":27}`, "", 1)))}},
}

const hangul = "안녕하세요 여러분"

func line(mib int) string { return strings.Repeat("x", mib<<20) }

func long(mib int) script {
	return script{tell(func() string {
		return sseHead + parts(roleEvent, word(line(mib)), finishEvent, usageEvent) + part(done) + lastPart
	})}
}

func longWhole(mib int) script {
	return script{tell(func() string { return reply("200 OK", whole(line(mib))) })}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

func TestClothes(t *testing.T) { t.Parallel(); run(t, clothes) }
