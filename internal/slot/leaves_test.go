package slot

import (
	"slices"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// play plays lines on an exclusive node whose slots have two places, and returns what came of them. A request takes a second of
// the first's engine, or a minute.
func play(t *testing.T, lines string) []string {
	t.Helper()
	slots := make([]*hearth.Slot, 2)
	for i := range slots {
		slots[i] = &hearth.Slot{Concurrency: 2, Queue: 9, Wait: time.Hour, StartTimeout: time.Hour, DrainMax: time.Hour}
	}
	s := newSim(t, hearth.Node{Exclusive: true, Turn: 10 * time.Second}, slots...)
	for _, d := range []time.Duration{time.Second, time.Second, time.Second, time.Minute} {
		s.st.slots[0].service.add(d)
	}
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			s.run(line)
		}
	}
	return s.log
}

// An engine that goes is not used and not restored against what was ordered.
func TestGoing(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"one that drains for another model lets in who is done before", `
			ask a 1 1h
			ready a
			ask b 2 1h
			pass 10s
			ask a 3 1h`, "0s start a; 0s grant 1; 10s grant 3"},
		{"but not if its start line was changed", `
			ask a 1 1h
			ready a
			reload a line
			pass 10s
			ask a 3 1h
			pass 1s
			release 1
			ended a
			ready a`, "0s start a; 0s grant 1; 11s stop a; 11s start a; 11s grant 3"},
		{"one that gave way comes back if the other does not come up", `
			ask a 1 1h
			ready a
			release 1
			pass 20s
			ask b 2 1h
			ended a
			ended b`, "0s start a; 0s grant 1; 20s stop a; 20s start b; 20s refuse 2 slot_failed 1s; 20s start a"},
		{"but not if it was sent to sleep, whoever waited", `
			ask a 1 1h
			ready a
			pass 20s
			ask b 2 1h
			sleep a
			release 1
			ended a
			ended b`, "0s start a; 0s grant 1; 20s stop a; 20s start b; 20s refuse 2 slot_failed 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := play(t, tt.lines); !slices.Equal(got, strings.Split(tt.want, "; ")) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
