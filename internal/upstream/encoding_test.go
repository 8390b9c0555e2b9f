package upstream

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

// zipped compresses the texts, each of which can be read before the next has come.
func zipped(t testing.TB, texts ...string) (parts []string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	take := func() {
		parts = append(parts, b.String())
		b.Reset()
	}
	for _, text := range texts {
		_, _ = io.WriteString(z, text)
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		take()
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	take()
	return parts
}

const (
	zipHead    = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
	zipChunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
)

func TestGzip(t *testing.T) {
	const good = `{"choices":[{"message":{"content":"one"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	sized := func(head, body string) string {
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	all := func(texts ...string) string { return strings.Join(zipped(t, texts...), "") }
	damaged := []byte(all(good))
	damaged[len(damaged)-8] ^= 1 // the checksum
	corrupt := []byte(all(strings.Repeat(good, 3)))
	for i := 12; i < 40; i++ {
		corrupt[i] = 0xff
	}
	var streamed strings.Builder
	streamed.WriteString(zipChunked)
	for _, p := range zipped(t, role, word("one "), word("two"), finish+usage+done) {
		streamed.WriteString(part(p))
	}
	streamed.WriteString(lastPart)
	for _, c := range []struct {
		name   string
		stream bool
		script func(net.Conn, int)
		want   string
	}{
		{"answer", false, says(sized(zipHead, all(good)), false), "answer one"},
		{"answer, x-gzip", false, says(sized("HTTP/1.1 200 OK\r\nContent-Encoding: X-GZIP\r\n", all(good)), false), "answer one"},
		{"answer in two members", false, says(sized(zipHead, all(good[:30])+all(good[30:])), false), "answer one"},
		{"answer, cut", false, says(fmt.Sprintf("%sContent-Length: 999\r\n\r\n%s", zipHead, all(good)[:40]), true), "cut: the answer was cut off"},
		{"answer that ends too early", false, says(sized(zipHead, all(good)[:40]), false), "cut: the answer was cut off"},
		{"answer that is not compressed", false, says(sized(zipHead, good), false), "next: the answer is not the gzip that it is called"},
		{"answer with a wrong checksum", false, says(sized(zipHead, string(damaged)), false), "next: the answer is not the gzip that it is called"},
		{"answer that is corrupt", false, says(sized(zipHead, string(corrupt)), false), "next: the answer is not the gzip that it is called"},
		{"nothing", false, says(sized(zipHead, ""), false), "next: provider answered without a JSON answer"},
		{"stream", true, says(streamed.String(), false), "served one two"},
		{"stream, split at every byte", true, func(c net.Conn, _ int) {
			_, _ = io.WriteString(c, zipChunked)
			for _, b := range []byte(all(role, word("one "), word("two"), finish+usage+done)) {
				_, _ = io.WriteString(c, part(string([]byte{b})))
			}
			_, _ = io.WriteString(c, lastPart)
		}, "served one two"},
		{"stream, cut after a word", true, says(zipChunked+part(zipped(t, role+word("one"))[0]), true), "broken one: the stream was cut off"},
		{"stream, cut before a word", true, says(zipChunked+part(zipped(t, role)[0]), true), "next: the connection broke before an answer"},
		{"stream that is not compressed", true, says(zipChunked+part(word("one")+finish+done)+lastPart, false), "next: the answer is not the gzip that it is called"},
		{"JSON where a stream was asked for", true, says(sized(zipHead, all(good)), false), "served one"},
		{"error", true, says(sized("HTTP/1.1 503 x\r\nContent-Encoding: gzip\r\n", all(`{"error":{"message":"no capacity"}}`)), false), "next: provider answered 503 Service Unavailable: no capacity"},
		{"error that is not compressed", false, says(sized("HTTP/1.1 503 x\r\nContent-Encoding: gzip\r\n", `{"error":{"message":"no capacity"}}`), false), "next: provider answered 503 Service Unavailable: Service Unavailable"},
		{"two encodings", false, says(sized("HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n", all(good)), false), "next: provider answered in a content encoding that was not asked for"},
		{"an encoding in a header of its own", false, says(sized(zipHead+"Content-Encoding: br\r\n", all(good)), false), "next: provider answered in a content encoding that was not asked for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, c.script)
			client, e := endpoint(t, p.url())
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: c.stream})
			if got := r.String(); got != c.want {
				t.Fatalf("got %s (%v, %v), want %s", got, r.failure, r.err, c.want)
			}
			if r.failure != nil && r.failure.Blame != hearth.BlameEndpoint {
				t.Errorf("blame = %v", r.failure.Blame)
			}
			if r.end == "answer" && !r.opened.Answer.Usage.Reported {
				t.Error("no usage")
			}
		})
	}
}

// What a few kilobytes make when they are unpacked is bounded as if it had come so.
func TestZipBomb(t *testing.T) {
	block := strings.Join(zipped(t, strings.Repeat(" ", 1<<20)), "")
	pack := func(begin string, size int) string { // in as many members as it has MiB: to pack it all takes long
		return strings.Join(zipped(t, begin), "") + strings.Repeat(block, size>>20)
	}
	for _, c := range []struct {
		name   string
		status int
		stream bool
		bomb   string
		want   string
		memory uint64 // that may be allocated in all
	}{
		{"answer", 200, false, pack("{", 5<<20), "cut: the answer is larger than 64 MiB", 16 << 20},
		{"JSON where a stream was asked for", 200, true, pack("{", 5<<20), "next: the answer is larger than 64 MiB", 16 << 20},
		{"one event", 200, true, pack("data: ", 4<<20), "next: the stream held an event of more than 32 MiB", 12 << 20},
		{"blanks", 200, true, pack("", 4<<20), "next: the stream held an event of more than 32 MiB", 12 << 20},
		{"error", 500, false, pack("<title>oops</title>", 4<<20), "next: provider answered 500 Internal Server Error: oops", 2 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", c.status, len(c.bomb), c.bomb), false))
			client, e := endpoint(t, p.url())
			client.largest, client.event = 4<<20, 2<<20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: c.stream})
			runtime.ReadMemStats(&after)
			if got := r.String(); got != c.want {
				t.Errorf("got %.200s, want %s", got, c.want)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > c.memory {
				t.Errorf("%d MiB were allocated", grown>>20)
			}
		})
	}
}
