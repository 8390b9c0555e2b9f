package account

import (
	"testing"
	"time"
)

// Guesses make the database work no more than so often a second.
func TestLooksAreCounted(t *testing.T) {
	var a Accounts
	began := time.Now()
	for second := range 3 {
		allowed := 0
		for i := range 50 {
			if a.mayLook(began.Add(time.Duration(second)*time.Second + time.Duration(i)*time.Millisecond)) {
				allowed++
			}
		}
		if allowed != looksPerSecond {
			t.Errorf("%d looks in second %d, want %d", allowed, second, looksPerSecond)
		}
	}
}
