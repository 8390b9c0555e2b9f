package meter

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStopwatch(t *testing.T) {
	pass := func(d time.Duration) { <-time.After(d) }
	t.Run("one attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := Start()
			pass(10 * time.Millisecond)
			s.Dispatch()
			pass(200 * time.Millisecond)
			s.FirstToken()
			pass(time.Second)
			s.FirstToken()
			s.End()
			pass(time.Minute) // what the caller takes to read
			s.End()
			if got, want := s.ToFirstToken(), 210*time.Millisecond; got != want {
				t.Errorf("ToFirstToken() = %s, want %s", got, want)
			}
			if got, want := s.Total(), 1210*time.Millisecond; got != want {
				t.Errorf("Total() = %s, want %s", got, want)
			}
			if got, want := s.Generating(), 1200*time.Millisecond; got != want {
				t.Errorf("Generating() = %s, want %s", got, want)
			}
			if got := s.Elapsed(); got != 61210*time.Millisecond {
				t.Errorf("Elapsed() = %s", got)
			}
		})
	})
	t.Run("a second attempt forgets the first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := Start()
			s.Dispatch()
			pass(time.Second)
			s.FirstToken()
			s.End()
			s.Dispatch()
			if s.ToFirstToken() != 0 || s.Generating() != 0 || s.Total() != time.Second {
				t.Errorf("after the second dispatch: first token %s, generating %s, total %s", s.ToFirstToken(), s.Generating(), s.Total())
			}
			pass(2 * time.Second)
			s.FirstToken()
			if s.ToFirstToken() != 3*time.Second || s.Generating() != 2*time.Second {
				t.Errorf("first token %s, generating %s, want 3s, 2s", s.ToFirstToken(), s.Generating())
			}
		})
	})
	t.Run("nothing dispatched", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := Start()
			pass(time.Second)
			if s.Generating() != 0 || s.ToFirstToken() != 0 || s.Total() != time.Second {
				t.Errorf("generating %s, first token %s, total %s, want 0, 0, 1s", s.Generating(), s.ToFirstToken(), s.Total())
			}
		})
	})
}
