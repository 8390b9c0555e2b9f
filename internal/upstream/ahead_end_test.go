package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// The end of an answer waits for no room: it is in memory already, and nothing more is wanted of the engine. Whatever ends
// the request then, an answer that is called complete is complete.
func TestEndOfWhatIsReadAhead(t *testing.T) {
	large, rest := strings.Repeat("w", 8000), strings.Repeat("y", 600)
	for _, c := range []struct {
		name   string
		script []line
		back   time.Duration // when the lease was given back
		as     hearth.Verdict
	}{
		{"complete", []line{{0, chunked + part(word("x"))}, {s, part(word(large))}, {s, part(word(rest)+finish+done) + lastPart}}, 2 * s, hearth.Served},
		{"complete but for its end", []line{{0, chunked + part(word("x"))}, {s, part(word(large))}, {s, part(word(rest) + finish)}}, 5 * s, hearth.Served},
		{"not complete", []line{{0, chunked + part(word("x"))}, {s, part(word(large))}, {s, part(word(rest))}}, 5 * s, hearth.Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client, e := engineWithin(t, Options{StreamBuffer: 8400, KeepAlive: time.Hour}, c.script, hearth.Limits{FirstByte: 60 * s, Idle: 60 * s})
				ctx, end := context.WithCancelCause(t.Context())
				time.AfterFunc(5*s, func() { end(ErrShutdown) })
				lease, w := holds(), hears(-1)
				w.pace = 20 * s
				o, _, err := client.Open(ctx, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: lease, Stamp: &dialect.Stamp{}})
				if err != nil {
					t.Fatal(err)
				}
				got := o.Stream.Copy(w, 30*s)
				if text := readable(w.got.Body.Bytes()); got.Verdict != c.as || text != "x"+large+rest || lease.at() != c.back {
					t.Errorf("%v (%+v, %v), %d letters, lease back at %v", got.Verdict, got.Failure, got.Err, len(text), lease.at())
				}
				if n := client.answers.held.Load(); n != 0 {
					t.Errorf("%d bytes of the memory for answers did not come back", n)
				}
				client.Close()
			})
		})
	}
}
