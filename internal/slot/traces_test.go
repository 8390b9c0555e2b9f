package slot

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// What an earlier engine, order or failure has left behind must not reach the engine that comes after it.
func TestTraces(t *testing.T) {
	tests := []struct {
		name, play, want string
		idle             time.Duration
		queue            int
	}{
		{
			name: "a bound of the drain before does not cut who uses the next engine",
			play: "ask a 1 1h|ready a|pass 10s|sleep a|release 1|ended a|ask a 2 1h|ready a|pass 1h",
			want: "0s start a|0s grant 1|10s stop a|10s start a|10s grant 2", queue: 2,
		}, {
			name: "wake is over when the device could not be had",
			play: "wake a|busy a|pass 1m",
			want: "0s start a", queue: 2,
		}, {
			name: "a start that came up and ended well makes the next back-off a short one again",
			play: "ask a 1 1h|ended a|pass 2s|ask a 2 1h|ready a|release 2|sleep a|ended a|ask a 3 1h|ended a",
			want: "0s start a|0s refuse 1 slot_failed 1s|2s start a|2s grant 2|2s stop a|2s start a|2s refuse 3 slot_failed 1s", queue: 2,
		}, {
			name: "who gave way to one that came up is not started again when a third fails much later",
			play: "ask a 1 1h|ready a|release 1|pass 5s|ask b 2 1h|ended a|ready b|release 2|pass 2m|ended b|ask c 3 1h|ended c|pass 1h",
			want: "0s start a|0s grant 1|5s stop a|5s start b|5s grant 2|1m5s stop b|2m5s start c|2m5s refuse 3 slot_failed 1s",
			idle: time.Minute, queue: 2,
		}, {
			name: "without a queue a free place is taken all the same",
			play: "wake a|ready a|ask a 1 1h|ask a 2 1h",
			want: "0s start a|0s grant 1|0s refuse 2 slot_queue_full 1s",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var slots []*hearth.Slot
			for range 3 {
				slots = append(slots, &hearth.Slot{Concurrency: 1, Queue: tt.queue, Wait: time.Hour, IdleSleep: tt.idle, DrainMax: 40 * time.Second})
			}
			s := newSim(t, hearth.Node{Exclusive: true, Turn: 10 * time.Second}, slots...)
			for line := range strings.SplitSeq(tt.play, "|") {
				s.run(line)
			}
			if diff := cmp.Diff(tt.want, strings.Join(s.log, "|")); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
	one := func(t *testing.T) (*sim, *place) {
		s := newSim(t, hearth.Node{Exclusive: true}, &hearth.Slot{Concurrency: 1, Wait: time.Hour})
		s.run("wake a")
		return s, s.st.slots[0]
	}
	t.Run("an engine before is not ready for the one that starts", func(t *testing.T) {
		s, p := one(t)
		s.do(event{kind: evReady, run: p.run + 1})
		if p.state != hearth.SlotStarting {
			t.Errorf("state %v", p.state)
		}
	})
	t.Run("a warning is over when the engine says so", func(t *testing.T) {
		s, p := one(t)
		s.run("ready a")
		s.do(event{kind: evReport, run: p.run, report: &Report{Ready: true, Facts: hearth.SlotFacts{Warning: "its window is smaller"}}})
		if got := s.st.view(p, s.now).Facts.Warning; got != "its window is smaller" {
			t.Errorf("warning %q", got)
		}
		s.do(event{kind: evReport, run: p.run, report: &Report{Ready: true}})
		if got := s.st.view(p, s.now).Facts.Warning; got != "" {
			t.Errorf("warning %q", got)
		}
	})
	t.Run("numbers of an engine are compared with the configuration that holds now", func(t *testing.T) {
		s := newSim(t, hearth.Node{}, &hearth.Slot{Concurrency: 4, Context: 4096})
		p := s.st.slots[0]
		s.run("wake a")
		s.do(event{kind: evReady, run: p.run, report: &Report{Ready: true, Facts: hearth.SlotFacts{Window: 1024, Parallel: 2, Warning: "it calls its model x"}}})
		says := func(want string) {
			t.Helper()
			if got := s.st.view(p, s.now).Facts.Warning; got != want {
				t.Errorf("warning %q, want %q", got, want)
			}
		}
		says("a request may have 1024 tokens, not 4096 (context); it works on 2 requests at once, not 4 (concurrency); it calls its model x")
		reload := func(context, concurrency int, restart bool) {
			conf := *p.Slot
			conf.Context, conf.Concurrency = context, concurrency
			s.do(event{kind: evReload, change: &change{node: &hearth.Node{}, slots: []*hearth.Slot{&conf}, restart: []bool{restart}}})
		}
		reload(1024, 2, false)
		says("it calls its model x")
		reload(2048, 2, false)
		says("a request may have 1024 tokens, not 2048 (context); it calls its model x")
		reload(4096, 4, true) // what the engine before said is of no more use
		says("")
	})
	t.Run("why an engine died stays what callers hear, though its device is not to be had afterwards", func(t *testing.T) {
		s, p := one(t)
		s.run("ready a")
		s.do(event{kind: evDied, run: p.run, end: ending{cause: "engine exited with code 9"}})
		s.run("busy a")
		if p.cause != "engine exited with code 9" {
			t.Errorf("cause %q", p.cause)
		}
	})
}
