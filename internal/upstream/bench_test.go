package upstream

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// memory is an upstream that needs no network: each read of its body brings one piece.
type memory struct{ pieces []string }

func (m *memory) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: eventStream, ContentLength: -1, Body: &pieces{rest: m.pieces}}, nil
}

var eventStream = http.Header{"Content-Type": {"text/event-stream"}}

type pieces struct{ rest []string }

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[0])
	if p.rest[0] = p.rest[0][n:]; p.rest[0] == "" {
		p.rest = p.rest[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// discard is a caller who takes everything.
type discard struct{ h http.Header }

func (d discard) Header() http.Header              { return d.h }
func (d discard) Write(b []byte) (int, error)      { return len(b), nil }
func (d discard) WriteHeader(int)                  {}
func (d discard) Flush()                           {}
func (d discard) SetWriteDeadline(time.Time) error { return nil }

const benchChunk = `data: {"id":"chatcmpl-9f8e7d6c5b4a","object":"chat.completion.chunk","created":1772366400,"model":"gemma-4-26b","system_fingerprint":"b4821","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

// One chunk of a stream of 100, from the upstream's bytes to the caller's, its part of the attempt included.
func BenchmarkStreamPerChunk(b *testing.B) {
	const chunks = 100
	for _, c := range []struct {
		name  string
		size  int // chunks per read
		lease Lease
	}{{"each read apart", 1, nil}, {"ten in a read", 10, nil}, {"of an engine", 1, holds()}} {
		b.Run(c.name, func(b *testing.B) {
			m := &memory{pieces: []string{role}}
			for range chunks / c.size {
				m.pieces = append(m.pieces, string(bytes.Repeat([]byte(benchChunk), c.size)))
			}
			m.pieces = append(m.pieces, finish+usage+done)
			client, e := endpoint(b, "http://upstream")
			client.targets[0].rt = m
			rest, w := make([]string, len(m.pieces)), discard{http.Header{}}
			whole := m.pieces
			payload := bytes.Repeat([]byte("x"), 2<<10)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				copy(rest, whole)
				m.pieces = rest
				call := Call{Endpoint: e, Stream: true, Body: payload, Lease: c.lease, Stamp: &dialect.Stamp{ID: "gen-1", Model: "m/m", Provider: "Acme", Created: 1}}
				o, f, err := client.Open(b.Context(), &call)
				if err != nil || f != nil {
					b.Fatal(f, err)
				}
				if end := o.Stream.Copy(w, time.Minute); end.Verdict != hearth.Served {
					b.Fatal(end)
				}
				n += chunks
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/chunk")
		})
	}
}

// What an attempt costs that brings one token.
func BenchmarkAttempt(b *testing.B) {
	m := &memory{}
	client, e := endpoint(b, "http://upstream")
	client.targets[0].rt = m
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		m.pieces = []string{benchChunk + finish + done}
		call := Call{Endpoint: e, Stream: true, Stamp: &dialect.Stamp{ID: "gen-1", Model: "m/m", Provider: "Acme", Created: 1}}
		o, _, _ := client.Open(b.Context(), &call)
		o.Stream.Copy(w, time.Minute)
	}
}
