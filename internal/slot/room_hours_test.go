package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// hourCases are about hours of the node, and of slots that are kept warm.
var hourCases = []roomCase{
	{
		name: "outside of its hours a node takes nobody, and nobody is cut", slots: []hearth.Slot{{}, {}},
		node: hearth.Node{Exclusive: true, Turn: 10 * time.Second, Available: daily(6, 10)},
		play: `tick
		       ask a 1 2h
		       pass 5s
		       ready a
		       pass 59m50s
		       ask a 2 2h
		       ask b 3 2h
		       pass 5s
		       ask a 4 2h
		       wake a
		       pass 9h
		       release 1
		       ended a
		       pass 1h
		       ask b 5 2h
		       pass 10h
		       ask b 6 2h`,
		want: `0s start a
		       5s grant 1
		       1h0m0s refuse 2 slot_busy 1h0m0s
		       1h0m0s refuse 3 slot_busy 1h0m0s
		       1h0m0s refuse 4 slot_busy 1h0m0s
		       1h0m0s no: the node is outside of its hours until 2026-05-02T06:00:00Z
		       10h0m0s stop a
		       11h0m0s refuse 5 slot_busy 1h0m0s
		       21h0m0s start b`,
	}, {
		name: "a pause within the hours bounds the drain, the hours take nothing off that", slots: []hearth.Slot{{}},
		node: hearth.Node{Exclusive: true, Available: daily(6, 10)},
		play: `tick
		       ask a 1 2h
		       ready a
		       pass 59m55s
		       pause 20s
		       pass 25s
		       pass 20s
		       release 1
		       ended a`,
		want: `0s start a
		       0s grant 1
		       1h0m40s stop a`,
	}, {
		name: "a companion rests outside of the hours, and comes back with them", slots: []hearth.Slot{companion(0)},
		node: hearth.Node{Exclusive: true, Available: daily(6, 10)},
		play: `tick
		       ready a
		       pass 1h
		       ended a
		       pass 20h`,
		want: `0s start a
		       1h0m0s stop a
		       21h0m0s start a`,
	}, {
		name: "a companion that was sent to sleep comes back with the next hours", slots: []hearth.Slot{companion(0)},
		node: hearth.Node{Exclusive: true, Available: daily(6, 10)},
		play: `tick
		       ready a
		       sleep a
		       ended a
		       pass 20h
		       pass 1h`,
		want: `0s start a
		       0s stop a
		       21h0m0s start a`,
	}, {
		name: "of two that are idle the one goes that need not be kept warm", slots: []hearth.Slot{{Memory: 10 * gib, KeepWarm: within(0, 24)}, takes(10), takes(12)}, node: card,
		play: `tick
		       ready a
		       pass 10s
		       ask b 1 1h
		       ready b
		       release 1
		       pass 10s
		       ask c 2 1h
		       ended b`,
		want: `0s start a
		       10s start b
		       10s grant 1
		       20s stop b
		       20s start c`,
	}, {
		name: "kept warm within its hours, and unloaded after them", slots: []hearth.Slot{{KeepWarm: within(10, 11), IdleSleep: 10 * time.Minute}},
		node: hearth.Node{Exclusive: true},
		play: `tick
		       pass 1h
		       ready a
		       pass 1h
		       ended a
		       pass 1h`,
		want: `1h0m0s start a
		       2h0m0s stop a`,
	}, {
		name: "kept warm: never in the way of another, and back once that has been idle for a minute", slots: []hearth.Slot{{KeepWarm: within(0, 24)}, {}},
		node: hearth.Node{Exclusive: true, Turn: 10 * time.Second, MinResident: 5 * time.Second},
		play: `tick
		       ready a
		       pass 10s
		       ask b 1 1h
		       ended a
		       ready b
		       pass 1h
		       ask b 2 1h
		       release 1
		       pass 59s
		       release 2
		       pass 59s
		       ask b 3 1h
		       release 3
		       pass 1m
		       ended b`,
		want: `0s start a
		       10s stop a
		       10s start b
		       10s grant 1
		       1h0m10s grant 2
		       1h2m8s grant 3
		       1h3m8s stop b
		       1h3m8s start a`,
	}, {
		name: "of two that are kept warm the one that is up stays", slots: []hearth.Slot{{KeepWarm: within(0, 24)}, {KeepWarm: within(0, 24), IdleSleep: time.Minute}},
		node: hearth.Node{Exclusive: true},
		play: `tick
		       ready a
		       ask b 1 1h
		       ended a
		       ready b
		       release 1
		       pass 24h`,
		want: `0s start a
		       0s stop a
		       0s start b
		       0s grant 1`,
	}, {
		name: "all that have to go for it must have been idle", slots: []hearth.Slot{takes(8), takes(8), {Memory: 20 * gib, KeepWarm: within(10, 24)}}, node: card,
		play: `tick
		       ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       release 1
		       pass 2h
		       release 2
		       pass 1m
		       pass 1s
		       ended a
		       pass 4s
		       ended b`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       2h1m0s stop a
		       2h1m0s stop b
		       2h1m5s start c`,
	}, {
		name: "what was sent to sleep is warm again at its next hours only", slots: []hearth.Slot{{KeepWarm: within(8, 10)}},
		node: hearth.Node{Exclusive: true},
		play: `tick
		       ready a
		       sleep a
		       ended a
		       pass 22h
		       pass 1h`,
		want: `0s start a
		       0s stop a
		       23h0m0s start a`,
	},
}

func daily(from, to int) hearth.Calendar {
	return hearth.Calendar{Spans: []hearth.Span{{Days: hearth.Week, From: time.Duration(from) * time.Hour, To: time.Duration(to) * time.Hour}}}
}

func within(from, to int) *hearth.Calendar {
	c := daily(from, to)
	return &c
}

// TestClockIsLookedAt: the clock on the wall may be set, so a node with hours looks at it now and then, and no other node does.
func TestClockIsLookedAt(t *testing.T) {
	s := newSim(t, hearth.Node{Available: daily(6, 10)}, &hearth.Slot{})
	s.do(event{kind: evTick})
	if at := s.alarm.Sub(t0); at != lookAgain {
		t.Errorf("it is looked at after %v, want %v", at, lookAgain)
	}
	s = newSim(t, hearth.Node{}, &hearth.Slot{KeepWarm: &hearth.Calendar{}, StartTimeout: time.Hour})
	s.do(event{kind: evTick})
	if at := s.alarm.Sub(t0); at != time.Hour {
		t.Errorf("without hours the alarm rings after %v", at)
	}
}
