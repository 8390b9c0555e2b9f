package slot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// played is a ready slot a with one place, taken by request 1000, whose requests took service each so far, and a slot b. Lines
// of a play: "key name [batch] [for=1h]
// [also]" asks, the ids count from 1; "done" releases whoever holds the place, "for=2s done" so much later; "leave 3" leaves.
func played(t *testing.T, service time.Duration, play string) (served []string) {
	t.Helper()
	var conf hearth.Slot
	conf.Wait, conf.QueueWait, conf.StartTimeout, conf.ExpectedLoad = time.Hour, time.Hour, time.Hour, time.Second
	conf.Queue = 200
	other := conf
	s := newSim(t, hearth.Node{}, &conf, &other)
	s.do(event{kind: evAsked, id: 1000, budget: time.Hour})
	s.run("ready a")
	for range memory {
		s.st.slots[0].service.add(service)
	}
	id, holds := uint64(0), uint64(1000)
	for line := range strings.Lines(play) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		wait := time.Hour
		for _, w := range f {
			if d, ok := strings.CutPrefix(w, "for="); ok {
				var err error
				if wait, err = time.ParseDuration(d); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.log = nil
		switch f[len(f)-1] {
		case "done":
			if len(f) > 1 {
				s.pass(wait)
			}
			s.do(event{kind: evReleased, id: holds})
		default:
			if f[0] == "leave" {
				s.run(strings.Replace(strings.TrimSpace(line), "leave", "cancel", 1))
				break
			}
			id++
			ev := event{kind: evAsked, id: id, key: f[0], budget: wait}
			if slices.Contains(f, "batch") {
				ev.class = hearth.Batch
			}
			if slices.Contains(f, "also") {
				ev.slot, ev.also = 1, []int{0}
			}
			s.do(ev)
		}
		for _, l := range s.log {
			var at string
			if _, err := fmt.Sscanf(l, "%s grant %d", &at, &holds); err == nil {
				served = append(served, fmt.Sprint(holds))
			} else if strings.Contains(l, "refuse") {
				served = append(served, strings.Fields(l)[1]+" "+strings.Fields(l)[2])
			}
		}
	}
	return served
}

func TestTurnsOfKeys(t *testing.T) {
	done := func(n int) string { return strings.Repeat("done\n", n) }
	for _, tt := range []struct{ name, play, want string }{
		{"one key: who came first", "a\n a\n a\n" + done(3), "1 2 3"},
		{"two keys take turns", "a\n a\n a\n b\n b\n" + done(5), "1 4 2 5 3"},
		{"a key that comes later waits for one of each other key at most", "a\n a\n a\n b\n b\n done\n c\n" + done(5), "1 4 2 6 5 3"},
		{"a key that always has one waiting gets every other place", "a\n a\n a\n b\n done\n done\n b\n done\n done\n b\n done\n done\n", "1 4 2 5 3 6"},
		{"who leaves is passed over, and its key keeps its turn", "a\n a\n b\n leave 1\n" + done(2), "2 3"},
		{"a key of which nobody is left has no turn", "a\n b\n b\n leave 1\n" + done(2), "2 3"},
		{"whose turn it was and leaves gives it to the next", "a\n b\n c\n leave 1\n" + done(2), "2 3"},
		{"guests take turns by their key too", "a\n a\n a\n b also\n b\n" + done(5), "1 4 2 5 3"},
		{"guests of one key are in line with the others of it", "a also\n a\n a also\n" + done(3), "1 2 3"},
		{"a guest that leaves is passed over", "a\n b also\n b\n leave 2\n" + done(2), "1 3"},
		{"requests without a key are one key", "a\n a\n - \n a\n" + done(4), "1 3 2 4"},
		{"interactive before batch, whoever came first", "a batch\n a batch\n b\n c\n" + done(4), "3 4 1 2"},
		{"batch keys take turns too", "a batch\n a batch\n b batch\n" + done(3), "1 3 2"},
		{"a key of both classes has its turn in each", "a batch\n a\n b batch\n b\n" + done(4), "2 4 1 3"},
		{"an interactive one that comes while batch ones wait is next", "a batch\n a batch\n done\n b\n" + done(2), "1 3 2"},
		{"interactive guests come before batch requests of the slot", "a batch\n b also\n" + done(2), "2 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(strings.Fields(tt.want), played(t, time.Minute, tt.play)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Batch requests are served in time, by what requests have taken so far.
func TestBatchIsNotHeldPastItsBudget(t *testing.T) {
	done := func(n int) string { return strings.Repeat("done\n", n) }
	for _, tt := range []struct {
		name       string
		service    time.Duration
		play, want string
	}{
		{"time enough", 10 * time.Second, "a for=11s batch\n b\n done\n", "2"},
		{"as much as one service takes is not enough", 10 * time.Second, "a for=10s batch\n b\n b\n" + done(3), "1 2 3"},
		{"which is measured", 5 * time.Second, "a for=6s batch\n b\n b\n done\n", "2"},
		{"two take turns with the others", 10 * time.Second, "a for=10s batch\n a for=10s batch\n b\n b\n" + done(4), "1 3 2 4"},
		{"three too, whatever is left of their time", 10 * time.Second, strings.Repeat("a for=1s batch\n", 3) + "b\n b\n b\n" + done(6), "1 4 2 5 3 6"},
		{
			"a crowd that runs out of time together begins in time", 5 * time.Second,
			strings.Repeat("a for=38s batch\n", 4) + strings.Repeat("b\n", 9) + strings.Repeat("for=5s done\n", 8), "1 5 2 6 3 7 4 8",
		},
		{
			"a smaller crowd begins later", 5 * time.Second,
			strings.Repeat("a for=38s batch\n", 2) + strings.Repeat("b\n", 9) + strings.Repeat("for=5s done\n", 8), "3 4 5 6 1 7 2 8",
		},
		{
			"a crowd that is larger than what is looked at", time.Second,
			strings.Repeat("a for=200s batch\n", 32) + strings.Repeat("c for=200s batch\n", 32) + strings.Repeat("e for=200s batch\n", 16) + "b\n" + strings.Repeat("for=72s done\n", 1), "1",
		},
		{"the turn is that of the key whose time runs out", 10 * time.Second, "a for=1h batch\n b for=9s batch\n c\n" + done(3), "2 3 1"},
		{"and within the key it is that of the request", 10 * time.Second, "a for=1h batch\n a for=9s batch\n c\n" + done(3), "2 3 1"},
		{"without others it is who came first", 10 * time.Second, "a for=1h batch\n a for=9s batch\n" + done(2), "1 2"},
		{"a guest's time counts", 10 * time.Second, "a for=9s batch also\n c\n" + done(2), "1 2"},
		{"and is forgotten when it leaves", 10 * time.Second, "a for=9s batch also\n d for=30s batch\n c\n leave 1\n" + done(2), "3 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(strings.Fields(tt.want), played(t, tt.service, tt.play)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestShareOfTheQueue(t *testing.T) {
	for _, tt := range []struct {
		name               string
		queue, concurrency int
		key                string
		ready              bool
		fit                int // of one key, beside the one in the engine
	}{
		{"half of it", 6, 1, "k", true, 3},
		{"half of it, rounded down", 7, 1, "k", true, 3},
		{"at least one", 1, 1, "k", true, 1},
		{"none where there is no queue", 0, 1, "k", true, 0},
		{"whose key is not known is not bound", 6, 1, "", true, 6},
		{"before the engine is ready, and as many as it takes then", 6, 4, "k", false, 7},
		{"without a queue too", 0, 4, "k", false, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t, hearth.Node{}, &hearth.Slot{Queue: tt.queue, Concurrency: tt.concurrency, Wait: time.Hour, QueueWait: time.Hour, StartTimeout: time.Hour})
			if tt.ready {
				s.do(event{kind: evAsked, id: 1000, budget: time.Hour, key: "k"})
				s.run("ready a")
			}
			ask := func(id uint64, key string) bool {
				s.log = nil
				s.do(event{kind: evAsked, id: id, budget: time.Hour, key: key})
				return !strings.Contains(strings.Join(s.log, "|"), "slot_queue_full")
			}
			n := 0
			for id := uint64(1); id < 20 && ask(id, tt.key); id++ {
				n++
			}
			if n != tt.fit {
				t.Errorf("%d fit", n)
			}
			if room := tt.queue > tt.fit && tt.key != ""; ask(100, "another") != room && tt.ready {
				t.Errorf("another key fits in beside them: %v", !room)
			}
			if n == 0 {
				return
			}
			if s.do(event{kind: evCancelled, id: 1}); !ask(101, tt.key) {
				t.Error("who leaves does not make room")
			}
		})
	}
	t.Run("guests count where they asked alone", func(t *testing.T) {
		conf := hearth.Slot{Queue: 4, Concurrency: 1, Wait: time.Hour, QueueWait: time.Hour, StartTimeout: time.Hour}
		other := conf
		s := newSim(t, hearth.Node{}, &conf, &other)
		s.do(event{kind: evAsked, id: 1000, budget: time.Hour, key: "k"})
		s.run("ready a")
		s.log = nil
		for id := uint64(1); id <= 3; id++ {
			s.do(event{kind: evAsked, slot: 1, also: []int{0}, id: id, budget: time.Hour, key: "k"})
		}
		for id := uint64(4); id <= 5; id++ {
			s.do(event{kind: evAsked, id: id, budget: time.Hour, key: "k"})
		}
		if d := cmp.Diff([]string{"0s start b"}, s.log); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
