package slot

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told are the starts of a slot as words.
func told(t *testing.T, f *Fleet, slot string) []string {
	t.Helper()
	synctest.Wait()
	list, err := f.Starts(slot)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, s := range list {
		words = append(words, fmt.Sprintf("%s after %s: %s", s.Outcome, s.Took, s.Why))
	}
	return words
}

func TestStarts(t *testing.T) {
	bubble(t, "what came of them, and how long it took", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 3 * time.Second, stops: time.Second})
		begun := time.Now()
		if got := told(t, h.Fleet, "a"); got != nil {
			t.Errorf("before the first: %q", got)
		}
		h.ask(t.Context(), h.a, time.Second) // which goes on although nobody waits any more
		if d := cmp.Diff([]string{"starting after 0s: a request waits for it"}, told(t, h.Fleet, "a")); d != "" {
			t.Error(d)
		}
		pass(4 * time.Second)
		if got := told(t, h.Fleet, "a"); len(got) != 1 || got[0] == "" {
			t.Errorf("%q", got)
		}
		list, _ := h.Starts("a")
		between(t, "the start", list[0].Took, 3*time.Second, 3*time.Second+300*time.Millisecond)
		if s := list[0]; s.Outcome != StartReady || s.Why != "the engine is ready" || !s.At.Equal(begun) {
			t.Errorf("%+v", s)
		}
		h.gpu.change(time.Hour, 500*time.Millisecond)
		h.refused(<-h.ask(t.Context(), h.b, time.Minute), "slot_failed")
		list, _ = h.Starts("b")
		if len(list) != 1 || list[0].Outcome != StartFailed || list[0].Took != 500*time.Millisecond || list[0].Why != "engine exited with code 1: loading | out of memory" {
			t.Errorf("%+v", list)
		}
		h.close()
	})
	bubble(t, "one that is given up", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Hour})
		h.ask(t.Context(), h.a, time.Second)
		pass(time.Second)
		h.close()
		if list, _ := h.Starts("a"); len(list) != 1 || list[0].Outcome != StartStopped || list[0].Took != time.Second {
			t.Errorf("%+v", list)
		}
	})
	bubble(t, "one that an earlier gateway began", func(t *testing.T) {
		h := newHouse(t, found(2*time.Second, "a"))
		h.lease(h.a)
		if d := cmp.Diff([]string{"adopted after 0s: an engine of an earlier gateway is taken over"}, told(t, h.Fleet, "a")); d != "" {
			t.Error(d)
		}
		h.close()
	})
	bubble(t, "the last ten, and a list that was given out does not change", func(t *testing.T) {
		h := newHouse(t, &gpu{refuses: errors.New("no such program")})
		var before []Start
		for i := range 12 {
			h.refused(<-h.ask(t.Context(), h.a, time.Hour), "slot_failed")
			list, _ := h.Starts("a")
			if want := min(i+1, 10); len(list) != want {
				t.Fatalf("%d starts, %d are remembered", i+1, len(list))
			}
			if i == 10 {
				before = slices.Clone(list)
				defer func() {
					if d := cmp.Diff(before, list); d != "" {
						t.Errorf("the list that was given out changed: %s", d)
					}
				}()
			}
			if i > 0 && !list[len(list)-1].At.After(list[len(list)-2].At) {
				t.Errorf("not in order: %+v", list)
			}
			pass(2 * time.Minute)
		}
		h.close()
	})
	bubble(t, "of a slot that there is not", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		if _, err := h.Starts("nobody"); !errors.Is(err, ErrNoSlot) || h.Run("nobody") != 0 {
			t.Errorf("%v", err)
		}
		h.close()
	})
}

func TestRun(t *testing.T) {
	bubble(t, "each engine has another number, which stays when it is gone", func(t *testing.T) {
		h := newHouse(t, &gpu{stops: time.Second})
		if n := h.Run("a"); n != 0 {
			t.Errorf("%d before the first", n)
		}
		h.lease(h.a)
		first := h.Run("a")
		h.given[0].Release()
		pass(10 * time.Second)
		h.lease(h.b)
		if n := h.Run("a"); n != first || first == 0 {
			t.Errorf("%d, and %d when it is gone", first, n)
		}
		h.given[1].Release()
		pass(10 * time.Second)
		h.lease(h.a)
		if n := h.Run("a"); n == first {
			t.Errorf("the second engine has the number of the first, %d", n)
		}
		h.close()
	})
}
