package relay

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// A machine that says its engine was gone before it had the request is asked once more, where nobody else could serve the
// request: as a slot of this machine is.
func TestElsewhere_Unsent(t *testing.T) {
	ended := &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: time.Second, Message: "the engine has ended"}
	unsent := errors.Join(ended, slot.ErrUnsent)
	for _, c := range []struct {
		name     string
		says     []error // nil = an answer
		next     []part
		attempts string
		kind     hearth.ErrorType
		asks     int
	}{
		{"it has another engine", []error{unsent, nil}, nil, "slot_failed 200", "", 2},
		{"it has another that is gone as well", []error{unsent, unsent, nil}, nil, "slot_failed slot_failed", hearth.ErrModelLoading, 2},
		{"it may have died of the request", []error{ended, nil}, nil, "slot_failed", hearth.ErrModelLoading, 1},
		{"there is another candidate", []error{unsent, nil}, []part{talks}, "slot_failed 200", "", 1},
		{"the other candidate failed as well", []error{unsent, nil}, []part{boom}, "slot_failed 500", hearth.ErrProvider, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{waits: 10 * time.Second}
				f.does = func(r *http.Request) (*http.Response, error) {
					if err := c.says[len(f.asks)-1]; err != nil {
						return nil, err
					}
					return farAnswer(200, word("a")+lastWord, io.EOF)(r)
				}
				s := stage(t, Options{MaxAttempts: 1}, append([]part{{local: true, far: f}}, c.next...)...)
				a := s.ask(t.Context(), chat(stream))
				g := s.record(a.id)
				if got := words(g.Attempts); got != c.attempts || hearth.ErrorType(g.Error) != c.kind || len(f.asks) != c.asks {
					t.Errorf("attempts %q, %v, asked %d times", got, a.err, len(f.asks))
				}
				if g.Attempts[0].Blame != hearth.BlameNobody || g.Attempts[0].Message != ended.Message {
					t.Errorf("attempt %+v", g.Attempts[0])
				}
				if c.asks == 2 && (f.asks[1].Budget != 80*time.Second || f.asks[1].HasNext) {
					t.Errorf("asked again with %+v", f.asks[1])
				}
				if c.kind == hearth.ErrModelLoading && a.err.SlotStatus != hearth.SkipFailed {
					t.Errorf("error %+v", a.err)
				}
				synctest.Wait()
				if h := s.health.View()[0]; h.Skip != "" {
					t.Errorf("health %+v", h)
				}
				s.permitsBack()
			})
		})
	}
}
