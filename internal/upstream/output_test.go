package upstream

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// endless is an upstream that sends a text again and again, from begin on, until it is left.
func endless(begin, again string) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		_, err := io.WriteString(c, chunked+part(begin))
		for again = part(again); err == nil; {
			_, err = io.WriteString(c, again)
		}
	}
}

// A stream that goes on far past its output limit is ended, and says so.
func TestEndlessStream(t *testing.T) {
	const beyond = "the stream went on far beyond the output that was asked for"
	of := func(choice int) string {
		return event(fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":"y"}}]}`, choice))
	}
	for _, c := range []struct {
		name           string
		asked          int // max_tokens
		output, window int // of the endpoint
		begin, again   string
		want           string
		words          int // that reached the caller
	}{
		{"past max_tokens", 100, 5000, 9000, role, word("x"), "broken", 2*100 + 256},
		{"past the endpoint's most", 0, 200, 9000, role, word("x"), "broken", 2*200 + 256},
		{"past the endpoint's window", 0, 0, 300, role, word("x"), "broken", 2*300 + 256},
		{"many events in one read", 100, 0, 0, role, strings.Repeat(word("x"), 500), "broken", 2*100 + 256},
		{"of reasoning", 1, 0, 0, role, event(`{"choices":[{"index":0,"delta":{"reasoning":"x","content":"x"}}]}`), "broken", 2 + 256},
		{"of two choices", 100, 0, 0, of(1), word("x"), "broken", 2*2*100 + 256 - 1},
		{"of long events", 100, 0, 0, role, word(strings.Repeat("x", 5000)), "broken", (256*100 + 1<<20) / 5000 * 5000},
		{"of one long event", 100, 0, 0, role, word(strings.Repeat("x", 2<<20)), "next", 0},
		{"of comments after a word", 100, 0, 0, word("x"), strings.Repeat(": hello\n\n", 1<<16), "broken filler", 1},
		{"of empty deltas after a word", 100, 0, 0, word("x"), strings.Repeat(event(`{"choices":[],"x":"`+strings.Repeat("y", 1<<13)+`"}`), 1<<6), "broken filler", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, endless(c.begin, c.again))
			client, e := endpoint(t, p.url())
			e.MaxOutput, e.Context = c.output, c.window
			if client.dry != maxDry {
				t.Errorf("%d bytes of filler", client.dry)
			}
			client.dry = 4 << 20
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true, MaxTokens: c.asked})
			message := beyond
			want, filler := strings.CutSuffix(c.want, " filler")
			if filler {
				message = errDry.Error()
			}
			if r.end != want || r.failure == nil || r.failure.Message != message || r.failure.Blame != hearth.BlameEndpoint || r.failure.TimedOut {
				t.Fatalf("got %.200s, %+v", r, r.failure)
			}
			if got := strings.Count(r.text, "x"); got != c.words {
				t.Errorf("%d words reached the caller, want %d", got, c.words)
			}
			select {
			case <-p.closed:
			case <-time.After(20 * time.Second):
				t.Error("the upstream is still held")
			}
		})
	}
}

// What is only generous, or not known, is no reason to end a stream.
func TestLongStream(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked int
		words int
		each  string
	}{
		{"at the bound", 100, 2*100 + 256, "x"},
		{"nobody said how much", 0, 5000, "x"},
		{"a negative cap is none", -5, 5000, "x"},
		{"a cap beyond all measure", 1 << 62, 5000, "x"},
		{"the bytes of the bound", 100, 1, strings.Repeat("x", 256*100+1<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(chunked+part(strings.Repeat(word(c.each), c.words)+finish+done)+lastPart, false))
			client, e := endpoint(t, p.url())
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true, MaxTokens: c.asked})
			if r.end != "served" || len(r.text) != c.words*len(c.each) {
				t.Errorf("got %.200s, %d of %d bytes", r.failure.Message, len(r.text), c.words*len(c.each))
			}
		})
	}
	t.Run("more than filler may be, and none of it is", func(t *testing.T) {
		client, e := endpoint(t, "http://upstream")
		m := &memory{}
		client.dry = 4 << 20
		for n, big := 0, word(strings.Repeat("x", 1<<20)); n <= client.dry; n += len(big) {
			m.pieces = append(m.pieces, big)
		}
		m.pieces = append(m.pieces, finish+done)
		client.targets[0].rt = m
		if end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(discard{http.Header{}}, time.Minute); end.Verdict != hearth.Served {
			t.Errorf("got %v", end.Failure)
		}
	})
	t.Run("probabilities do not count as content", func(t *testing.T) {
		odds := event(`{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","top_logprobs":"` + strings.Repeat("p", 8<<10) + `"}]}}]}`)
		p := listen(t, says(chunked+part(strings.Repeat(odds, 400)+finish+done)+lastPart, false))
		client, e := endpoint(t, p.url())
		if r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true, MaxTokens: 400}); r.end != "served" {
			t.Errorf("got %v", r.failure)
		}
	})
}
