package health

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// The figures of the product pages, written out: the other tests count in the package's own constants and would follow
// any of them wherever it went.
func TestFigures(t *testing.T) {
	h := tracker()
	for n := range 3 {
		if h.out(0, t0) {
			t.Fatalf("out after %d failures, not after three", n)
		}
		h.try(t, 0, t0, Failure)
	}
	if !h.out(0, t0.Add(60*time.Second-1)) {
		t.Error("three failures in a row are not 60 s out")
	}
	if h.out(0, t0.Add(60*time.Second)) {
		t.Error("still out after 60 s")
	}

	p, _ := h.Take(1, t0)
	p.Done(RateLimited, 24*time.Hour, t0)
	if s := h.View()[1]; s.Skip != hearth.SkipRateLimited || !s.Until.Equal(t0.Add(10*time.Minute)) {
		t.Errorf("a Retry-After of a day is not capped at ten minutes: %+v", s)
	}
}
