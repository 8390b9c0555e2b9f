package routing

import "testing"

// Of a prompt no more than the prompt can be a warm prefix, whatever the session was estimated to hold; and what was counted
// of conversations fades as the rest does.
func TestMeans_Prefix(t *testing.T) {
	var m means
	m.add(0, 100, 100, 500, 10)
	m.add(0, 100, 100, 0, 10)
	if got := m.returning(); got != 100 || m.Ons != 1 {
		t.Errorf("%v tokens of %v", got, m.Ons)
	}
	for range 98 {
		m.add(0, 100, 100, 50, 10)
	}
	m.turn(true)
	ons, went, n := m.Ons, m.Went, m.N
	m.fade(halfLong)
	if part := m.N / n; part > 0.9 || !near(m.Ons/ons, part, 1e-9) || !near(m.Went/went, part, 1e-9) {
		t.Errorf("%v of the requests are left, %v of those that return, %v of those that went on", part, m.Ons/ons, m.Went/went)
	}
}
