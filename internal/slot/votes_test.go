package slot

import (
	"slices"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// electorate is an exclusive node whose model a was ready after 10 s and is idle, but stays for five minutes. How long the loads
// of b and c take is known: 10 s and 30 s.
func electorate(t *testing.T) *sim {
	t.Helper()
	s := newSim(t, hearth.Node{Exclusive: true, Turn: 10 * time.Second, MinResident: 5 * time.Minute},
		&hearth.Slot{Concurrency: 1, Queue: 9, Wait: time.Minute, StartTimeout: time.Hour},
		&hearth.Slot{Concurrency: 1, Queue: 9, Wait: time.Minute, StartTimeout: time.Hour},
		&hearth.Slot{Concurrency: 1, Queue: 9, Wait: 90 * time.Second, StartTimeout: time.Hour})
	s.st.slots[1].loading.add(10 * time.Second)
	s.st.slots[2].loading.add(30 * time.Second)
	for _, line := range []string{"ask a 1 1h", "pass 10s", "ready a", "release 1"} {
		s.run(line)
	}
	return s
}

// What votes have brought about is taken back when it does not hold any more, and they come after those who wait.
func TestElected(t *testing.T) {
	for _, tt := range []struct {
		name, play string
		want       []string // starts and stops from then on
	}{
		{"a vote changes the model of an idle node as soon as that may go", `
			pass 295s
			ask b 2 1s next
			pass 5s
			ended a`, []string{"5m10s stop a", "5m10s start b"}},
		{"but not when it is forgotten by then", `
			pass 280s
			ask b 2 1s next
			pass 1h`, nil},
		{"nor when somebody uses the model again", `
			pass 295s
			ask b 2 1s next
			ask a 3 1h
			pass 1h`, nil},
		{"who waits for another model comes first", `
			pass 295s
			ask b 2 1s next
			pass 1s
			ask c 3 1h
			pass 4s
			ended a`, []string{"5m10s stop a", "5m10s start c"}},
		{"also who waited before", `
			pass 294s
			ask c 3 1h
			pass 1s
			ask b 2 1s next
			pass 5s
			ended a`, []string{"5m10s stop a", "5m10s start c"}},
		{"of two that are voted for it is that whose load must begin first", `
			pass 290s
			ask c 2 1s next
			pass 5s
			ask b 3 1s next
			pass 5s
			ended a`, []string{"5m10s stop a", "5m10s start b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := electorate(t)
			s.log = nil
			for line := range strings.Lines(tt.play) {
				if line = strings.TrimSpace(line); line != "" {
					s.run(line)
				}
			}
			var got []string
			for _, l := range s.log {
				if strings.Contains(l, " start ") || strings.Contains(l, " stop ") {
					got = append(got, l)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, not %q; all %q", got, tt.want, s.log)
			}
		})
	}
}

// Votes against a model in use count by the work that they would have brought, over ten load times: by two loads more than its own.
func TestCarried(t *testing.T) {
	for _, tt := range []struct {
		name    string
		here    float64 // how often the resident was asked for in 100 s, for a second each
		there   float64 // the same of the one that is voted for
		known   bool    // how long the resident's requests take
		elected bool    // it was decided before
		state   hearth.SlotState
		want    bool
	}{
		{"two loads more", 10, 31, true, false, hearth.SlotReady, true},
		{"less than that", 10, 29, true, false, hearth.SlotReady, false},
		{"more than an engine can do does not count", 85, 500, true, false, hearth.SlotReady, false},
		{"nobody knows what the resident has to do", 10, 90, false, false, hearth.SlotReady, false},
		{"what has begun goes on", 10, 15, true, true, hearth.SlotDraining, true},
		{"also when its engine is being stopped", 10, 15, true, true, hearth.SlotStopping, true},
		{"but it was begun for somebody else", 10, 90, true, false, hearth.SlotDraining, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := electorate(t)
			a, b := s.st.slots[0], s.st.slots[1]
			a.state, a.inflight, b.elected = tt.state, 1, tt.elected
			a.service = learned{}
			if tt.known {
				a.service.add(time.Second)
			}
			b.service.add(time.Second)
			a.asked, b.asked = pace{tt.here, s.now}, pace{tt.there, s.now}
			if got := s.st.carried(b, s.now); got != tt.want {
				t.Errorf("carried: %v, with use %.2f against %.2f", got, b.use(s.now), a.use(s.now))
			}
		})
	}
}
