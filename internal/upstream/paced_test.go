package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// TestLastAt: when the end of a stream was read, and how much of that is the caller's doing.
func TestLastAt(t *testing.T) {
	const (
		parts = 20
		every = 100 * time.Millisecond
		end   = parts * every
	)
	script := append(append([]line{{0, chunked + part(word("x"))}}, words(parts, every)...), line{0, part(finish+done) + lastPart})
	for _, c := range []struct {
		name       string
		pace       time.Duration // of each write
		last       time.Duration // when the end was read
		waited     time.Duration
		over, read time.Duration // when Copy is done; and LastAt of one that is read ahead
	}{
		{"a caller who keeps up", 0, end, 0, end, end},
		{"a caller who takes less time than is between two words", every / 2, end + every/2, 21 * every / 2, end + every, end},
		{"a slow caller", s, 21 * s, 21 * s, 22 * s, end},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client, e := within(t, script)
				start := time.Now()
				w := hears(-1)
				w.pace = c.pace
				stream := commit(t, client, &Call{Endpoint: e, Stream: true})
				got := stream.Copy(w, 30*s)
				last, over := stream.LastAt.Sub(start), time.Since(start)
				if got.Verdict != hearth.Served || !stream.FirstAt.Equal(start) || last != c.last || stream.Waited != c.waited || over != c.over {
					t.Errorf("%v, first after %v, the end was read after %v, %v of it the caller's, over after %v", got.Verdict, stream.FirstAt.Sub(start), last, stream.Waited, over)
				}
				client.Close()
			})
			synctest.Test(t, func(t *testing.T) {
				b, client, e := engineWithin(t, Options{KeepAlive: time.Hour}, script, hearth.Limits{FirstByte: 60 * s, Idle: 60 * s})
				w := hears(-1)
				w.pace = c.pace
				stream := commit(t, client, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: holds()})
				stream.Copy(w, 30*s)
				if last := stream.LastAt.Sub(b.start); last != c.read || stream.Waited != 0 {
					t.Errorf("an engine that is read ahead: the end was read after %v, %v of it the caller's", last, stream.Waited)
				}
				client.Close()
			})
		})
	}
}
