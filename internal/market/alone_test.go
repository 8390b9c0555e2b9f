package market

import "testing"

// alone leaves a long simulation that has no goroutines to the run without the race detector, which has nothing to find in it
// and takes ten times as long.
func alone(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("a simulation in one goroutine is played without the race detector")
	}
}
