package slot

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"myip.co.kr/hearth"
)

const gib = 1 << 30

// roomCase is a script for the slots a, b, … of one node, whose clock stands at t0, a Friday, 09:00 UTC.
type roomCase struct {
	name  string
	node  hearth.Node
	slots []hearth.Slot
	play  string
	want  string
}

func takes(gibs int64, devices ...int) hearth.Slot {
	return hearth.Slot{Memory: gibs * gib, Devices: devices}
}

func companion(gibs int64) hearth.Slot {
	return hearth.Slot{Memory: gibs * gib, Companion: true, KeepWarm: &hearth.Calendar{}}
}

// card is a node that holds what fits into 24 GiB.
var card = hearth.Node{Devices: []hearth.Device{{ID: 0, Memory: 24 * gib}}, Turn: 10 * time.Second, MinResident: 5 * time.Second}

var roomCases = []roomCase{
	{
		name: "two that fit are up beside each other", node: card, slots: []hearth.Slot{takes(12), takes(12)},
		play: `ask a 1 1h
		       ask b 2 1h
		       pass 1s
		       ready a
		       ready b`,
		want: `0s start a
		       0s start b
		       1s grant 1
		       1s grant 2`,
	}, {
		name: "to the byte", node: card, slots: []hearth.Slot{takes(12), {Memory: 12*gib + 1}},
		play: `ask a 1 1h
		       ask b 2 1h
		       pass 1s
		       ready a`,
		want: `0s start a
		       1s grant 1`,
	}, {
		name: "who has been idle for longest goes, and nobody else", node: card, slots: []hearth.Slot{takes(10), takes(10), takes(12)},
		play: `ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       pass 1s
		       release 2
		       pass 1s
		       release 1
		       pass 10s
		       ask c 3 1h
		       pass 1s
		       ended b`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       12s stop b
		       13s start c`,
	}, {
		name: "who is in use goes only if the idle ones are not enough, when its turn is over", node: card, slots: []hearth.Slot{takes(10), takes(10), takes(20)},
		play: `ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       release 2
		       pass 10s
		       ask c 3 1h
		       ended b
		       pass 20s
		       release 1
		       ended a`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       10s stop b
		       30s stop a
		       30s start c`,
	}, {
		name: "a small one is spared where a large one has to go anyway", node: card, slots: []hearth.Slot{takes(2), takes(20), takes(20)},
		play: `ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       release 1
		       pass 1s
		       release 2
		       pass 10s
		       ask c 3 1h
		       ended b`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       11s stop b
		       11s start c`,
	}, {
		name: "who waits for much room is not overtaken by who would take it", node: card, slots: []hearth.Slot{takes(12), takes(24), takes(8)},
		play: `ask a 1 1h
		       ready a
		       pass 1m
		       ask b 2 1h
		       pass 1s
		       ask c 3 1h
		       pass 30s
		       release 1
		       ended a`,
		want: `0s start a
		       0s grant 1
		       1m31s stop a
		       1m31s start b`,
	}, {
		name: "but by who leaves room enough", node: card, slots: []hearth.Slot{takes(16), takes(14), takes(8)},
		play: `ask a 1 1h
		       ready a
		       pass 1m
		       ask b 2 1h
		       pass 1s
		       ask c 3 1h`,
		want: `0s start a
		       0s grant 1
		       1m1s start c`,
	}, {
		name: "each device counts", slots: []hearth.Slot{takes(20, 0), takes(20, 1), takes(8, 1, 0)},
		node: hearth.Node{Devices: []hearth.Device{{ID: 0, Memory: 24 * gib}, {ID: 1, Memory: 28 * gib}}, Turn: 10 * time.Second},
		play: `ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       release 1
		       release 2
		       pass 1s
		       ask c 3 1h
		       ended a`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       1s stop a
		       1s start c`,
	}, {
		name: "an exclusive node with two devices holds a model on each", slots: []hearth.Slot{takes(0, 0), takes(0, 1), takes(0)},
		node: hearth.Node{Exclusive: true, Devices: []hearth.Device{{ID: 0}, {ID: 1}}, Turn: 10 * time.Second},
		play: `ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       release 1
		       pass 1s
		       ask c 3 1h
		       ended a
		       ask a 4 1h
		       pass 30s
		       release 2
		       ended b`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       1s stop a
		       31s stop b
		       31s start c`,
	}, {
		name: "what companions take is kept for them, up or not", node: card, slots: []hearth.Slot{takes(11), takes(10), companion(4)},
		play: `tick
		       ended c
		       ask a 1 1h
		       ask b 2 1h
		       ready a
		       pass 1s`,
		want: `0s start c
		       0s start a
		       0s grant 1
		       1s start c`,
	},
}

// companionCases are about slots that are to be up, and sent to sleep.
var companionCases = []roomCase{
	{
		name: "a companion is up from the start, beside whatever is there", slots: []hearth.Slot{{}, {}, companion(0)},
		node: hearth.Node{Exclusive: true, Turn: 10 * time.Second},
		play: `tick
		       ready c
		       ask a 1 1h
		       ready a
		       release 1
		       ask b 2 1h
		       ended a
		       ready b
		       ask c 3 1h
		       pass 24h`,
		want: `0s start c
		       0s start a
		       0s grant 1
		       0s stop a
		       0s start b
		       0s grant 2
		       0s grant 3`,
	}, {
		name: "a companion that fails is started again, more and more slowly", slots: []hearth.Slot{companion(0)}, node: card,
		play: `tick
		       ended a
		       pass 1s
		       ended a
		       pass 2s
		       ended a
		       pass 4s
		       ready a
		       pass 2m
		       ended a`,
		want: `0s start a
		       1s start a
		       3s start a
		       7s start a
		       2m7s start a`,
	}, {
		name: "an operator's sleep holds until somebody asks", slots: []hearth.Slot{companion(0)}, node: card,
		play: `tick
		       ready a
		       sleep a
		       ended a
		       pass 1h
		       ask a 1 1h
		       ready a
		       release 1
		       pass 1h
		       drain a
		       ended a
		       pass 1h
		       enable a`,
		want: `0s start a
		       0s stop a
		       1h0m0s start a
		       1h0m0s grant 1
		       2h0m0s stop a
		       3h0m0s start a`,
	}, {
		name: "a changed start line is taken when it is idle, and it is up again at once", slots: []hearth.Slot{companion(0)}, node: card,
		play: `tick
		       ready a
		       ask a 1 1h
		       reload a line
		       pass 5s
		       release 1
		       ended a`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       5s start a`,
	}, {
		name: "the end", slots: []hearth.Slot{companion(0)}, node: card,
		play: `tick
		       ready a
		       close
		       ended a
		       pass 1h`,
		want: `0s start a
		       0s stop a`,
	},
}

// TestRoom: who is up beside whom, who goes for whom, and when.
func TestRoom(t *testing.T) {
	for _, list := range [][]roomCase{roomCases, companionCases, hourCases} {
		for _, tt := range list {
			t.Run(tt.name, func(t *testing.T) {
				var slots []*hearth.Slot
				for _, s := range tt.slots {
					s.Concurrency, s.Queue, s.Wait, s.QueueWait = 1, 4, 2*time.Hour, 2*time.Hour
					s.StartTimeout, s.DrainMax = 3*time.Hour, 40*time.Second
					slots = append(slots, &s)
				}
				s := newSim(t, tt.node, slots...)
				for line := range strings.Lines(tt.play) {
					if line = strings.TrimSpace(line); line == "tick" {
						s.do(event{kind: evTick})
					} else if line != "" {
						s.run(line)
					}
				}
				var want []string
				for line := range strings.Lines(tt.want) {
					if line = strings.TrimSpace(line); line != "" {
						want = append(want, line)
					}
				}
				if diff := cmp.Diff(want, s.log); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
			})
		}
	}
}
