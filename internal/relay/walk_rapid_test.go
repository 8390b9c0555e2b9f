package relay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/upstream"
)

// script is a chain of upstreams with their moods, and requests that meet them.
type script struct {
	o        Options
	parts    []int // by the number of a mood
	requests []request
}

type request struct {
	at     time.Duration // from the start of the scene
	stream bool
	leave  time.Duration // after its start, 0 = never
	stop   bool          // it is the gateway that leaves
	write  int           // 0 = every write is taken, else the n-th one breaks
	panics bool          // by a panic
}

// moods are what the upstreams of a script may do.
var moods = []struct {
	name  string
	local bool
	part  func() part
}{
	{"answers", false, func() part { return good }},
	{"answers late", false, func() part { return part{serve: after(4*time.Second, answers)} }},
	{"talks", false, func() part { return talks }},
	{"talks late", false, func() part { return part{serve: after(7*time.Second, chatter)} }},
	{"cuts", false, func() part { return cut }},
	{"cuts an answer", false, func() part { return half }},
	{"says nothing", false, func() part { return mute }},
	{"breaks", false, func() part { return boom }},
	{"breaks late", false, func() part { return part{serve: after(3*time.Second, refuses(502, "{}"))} }},
	{"limits", false, func() part { return failing["limited 3 s"] }},
	{"rejects", false, func() part { return failing["rejects 400"] }},
	{"refuses the account", false, func() part { return failing["no account"] }},
	{"is too much", false, func() part { return failing["too much"] }},
	{"runs here", true, func() part { return part{serve: answers, local: true} }},
	{"talks here, after a load", true, func() part { return part{serve: chatter, local: true, load: 3 * time.Second} }},
	{"says nothing here", true, func() part { return part{serve: silent, local: true} }},
	{"does not come up", true, func() part { return part{serve: answers, local: true, load: time.Hour} }},
	{"cannot be started", true, func() part { return part{serve: answers, local: true, broken: true} }},
}

func drawScript(t *rapid.T) *script {
	ms := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * 250 * time.Millisecond
	}
	s := &script{
		o:     Options{MaxAttempts: rapid.IntRange(0, 2).Draw(t, "max attempts"), EarlyHeaders: ms("early", 12), KeepAlive: time.Second, WriteLimit: 2 * time.Second},
		parts: rapid.SliceOfN(rapid.IntRange(0, len(moods)-1), 1, 4).Draw(t, "parts"),
	}
	for range rapid.IntRange(1, 8).Draw(t, "requests") {
		s.requests = append(s.requests, request{
			at: ms("at", 400), stream: rapid.Bool().Draw(t, "stream"), leave: ms("leave", 60), stop: rapid.IntRange(0, 4).Draw(t, "stop") == 0,
			write: max(0, rapid.IntRange(-6, 4).Draw(t, "write")), panics: rapid.Bool().Draw(t, "panics"),
		})
	}
	return s
}

// play plays a script and says what is wrong with it.
func (s *script) play(t *testing.T) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var parts []part
	for _, m := range s.parts {
		parts = append(parts, moods[m].part())
	}
	sc := stage(t, s.o, parts...)
	sc.key.RequestsPerMinute, sc.key.TokensPerMinute = 1_000_000, 1_000_000_000
	ended := make(chan asked)
	for _, q := range s.requests {
		ctx, end := context.WithCancelCause(t.Context())
		go func() {
			<-time.After(q.at)
			if q.leave > 0 {
				cause := context.Canceled
				if q.stop {
					cause = upstream.ErrShutdown
				}
				time.AfterFunc(q.leave, func() { end(cause) })
			}
			extra := ""
			if q.stream {
				extra = stream
			}
			ended <- sc.ask(ctx, chat(extra), func(k *caller) { k.write = q.writes() })
			end(nil)
		}()
	}
	for range s.requests {
		a := <-ended
		if problem := verdictOn(sc, a); problem != "" {
			complain("%s: %s", a.id, problem)
		}
	}
	synctest.Wait()
	for id, n := range sc.written() {
		if n != 1 {
			complain("%s recorded %d times", id, n)
		}
	}
	sc.calm()
	if n := sc.relay.minutes.Pending(); n != 0 {
		complain("the tokens of %d requests are still held", n)
	}
	sc.must(sc.ledger.Close(context.Background())) // else it tidies up every few seconds of the hour
	<-time.After(time.Hour)                        // probes are void by then, but for permits that are never void: none
	sc.permitsBack()
	return wrong
}

func (q request) writes() func(int, []byte) error {
	if q.write == 0 {
		return nil
	}
	return func(n int, _ []byte) error {
		switch {
		case n < q.write:
			return nil
		case q.panics && n == q.write:
			panic("a defect")
		}
		return errors.New("broken pipe")
	}
}

// verdictOn says what is wrong with what a request came to.
func verdictOn(sc *scene, a asked) string {
	g := sc.record(a.id)
	text := a.body.String()
	switch {
	case a.met:
		return "two wrote at once"
	case g == nil:
		return "no record"
	case a.err != nil && a.status != 0 && a.writes == 0:
		return "an error after headers"
	case a.err != nil && g.Error != string(a.err.Type) && a.writes == 0:
		return fmt.Sprintf("told %s, recorded %s", a.err.Type, g.Error)
	case g.Cancelled && g.Error != "" || g.Cancelled && g.HTTP != 499 && g.HTTP != 200:
		return fmt.Sprintf("cancelled with %q and %d", g.Error, g.HTTP)
	case g.Bill.Cost != 0 && (g.Error != "" || g.Provider == ""):
		return fmt.Sprintf("%v charged for %q", g.Bill.Cost, g.Error)
	case strings.Count(text, "[DONE]") > 1 || strings.Contains(text, `"finish_reason":"error"`) && g.Error == "":
		return "a false end: " + text
	case strings.Contains(text, "[DONE]") && g.Error == "" && g.Bill.Cost != paid:
		return fmt.Sprintf("%v charged for a whole stream", g.Bill.Cost)
	}
	served := 0
	for i, p := range g.Attempts {
		last := i == len(g.Attempts)-1
		if p.Verdict != hearth.TryNext {
			served++
		}
		if p.Verdict != hearth.TryNext && !last || p.Latency < 0 || p.SlotWait > p.Latency+time.Millisecond && p.Verdict != hearth.Gone {
			return fmt.Sprintf("attempt %d of %d: %+v", i, len(g.Attempts), p)
		}
	}
	if (g.Provider != "" || g.Cancelled) && served != 1 {
		return fmt.Sprintf("attempts %+v", g.Attempts)
	}
	return ""
}

// Whatever upstreams do and whenever callers leave: one record each, nothing is kept of a request, and no answer is
// charged that was not given.
func TestWalk_Property(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // a script takes its time
		_ = f.Value.Set("40")
		defer func() { _ = f.Value.Set(f.DefValue) }()
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = s.play(t) })
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}
