package slot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

var t0 = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)

// sim plays events against a state and writes down what comes of them.
type sim struct {
	t     *testing.T
	st    *state
	now   time.Time
	alarm time.Time
	log   []string
}

func newSim(t *testing.T, n hearth.Node, slots ...*hearth.Slot) *sim {
	t.Helper()
	for i, s := range slots {
		s.Node = &n
		if s.Name == "" {
			s.Name = string(rune('a' + i))
		}
	}
	return &sim{t: t, st: newState(&n, slots, t0), now: t0}
}

func (s *sim) name(i int) string { return s.st.slots[i].Name }

// do plays one event now and notes its effects: "start a", "grant 3", "refuse 4 slot_busy 2s", "stop a", "leave a", "cut a",
// "no: why an order is not obeyed".
func (s *sim) do(ev event) {
	s.t.Helper()
	ev.now = s.now
	for _, fx := range step(s.st, ev) {
		switch fx.kind {
		case fxStart:
			s.note("start %s", s.name(fx.slot))
		case fxStop:
			s.note("stop %s", s.name(fx.slot))
		case fxLeave:
			s.note("leave %s", s.name(fx.slot))
		case fxCut:
			s.note("cut %s", s.name(fx.slot))
		case fxOrdered:
			if fx.err != nil {
				s.note("no: %v", fx.err)
			}
		case fxGrant:
			s.note("grant %d", fx.id)
		case fxRefuse:
			s.note("refuse %d %s %s", fx.id, fx.refusal.Word, fx.refusal.RetryAfter)
		case fxAlarm:
			s.alarm = fx.at
		}
	}
	if s.st.illegal != 0 {
		s.t.Fatalf("illegal step after %v", s.log)
	}
}

func (s *sim) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%s ", s.now.Sub(t0))+fmt.Sprintf(format, args...))
}

// pass lets time go by; the alarm rings when it is due.
func (s *sim) pass(d time.Duration) {
	s.t.Helper()
	end := s.now.Add(d)
	for rings := 0; !s.alarm.IsZero() && !s.alarm.After(end); rings++ {
		if rings > 1000 {
			s.t.Fatal("the alarm rings without end")
		}
		s.now, s.alarm = s.alarm, time.Time{}
		s.do(event{kind: evTick})
	}
	s.now = end
}

func (s *sim) run(line string) {
	s.t.Helper()
	f := strings.Fields(line)
	slot := 0
	if len(f) > 1 {
		slot = int(f[1][0] - 'a')
	}
	var id uint64
	fmt.Sscan(f[min(1, len(f)-1)], &id)
	run := uint64(0)
	if slot >= 0 && slot < len(s.st.slots) {
		run = s.st.slots[slot].run
	}
	switch f[0] {
	case "ask": // ask <slot> <id> <budget> [next] [also <slot>]
		budget, err := time.ParseDuration(f[3])
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Sscan(f[2], &id)
		ev := event{kind: evAsked, slot: slot, id: id, budget: budget, hasNext: slices.Contains(f, "next")}
		if i := slices.Index(f, "also"); i > 0 {
			ev.also = []int{int(f[i+1][0] - 'a')}
		}
		s.do(ev)
	case "cancel":
		s.do(event{kind: evCancelled, id: id})
	case "release":
		s.do(event{kind: evReleased, id: id})
	case "ready":
		s.do(event{kind: evReady, slot: slot, run: run})
	case "ended":
		s.do(event{kind: evEnded, slot: slot, run: run, end: ending{cause: "engine exited with code 1"}})
	case "pass", "late": // late: no alarm rings
		d, err := time.ParseDuration(f[1])
		if err != nil {
			s.t.Fatal(err)
		}
		if f[0] == "late" {
			s.now = s.now.Add(d)
			return
		}
		s.pass(d)
	case "refuse":
		s.do(event{kind: evRefuse})
	case "close":
		s.do(event{kind: evClose})
	default:
		if !s.order(f, slot, run) {
			s.t.Fatalf("unknown line %q", line)
		}
	}
}

// order plays what an operator, another gateway, an engine or a reload says.
func (s *sim) order(f []string, slot int, run uint64) bool {
	s.t.Helper()
	switch f[0] {
	case "wake", "sleep", "drain", "disable", "enable":
		s.do(event{kind: evOrder, slot: slot, order: &Order{Verb: Verb(f[0])}})
	case "pause", "resume":
		o := &Order{Verb: Verb(f[0])}
		if len(f) > 1 {
			var err error
			if o.For, err = time.ParseDuration(f[1]); err != nil {
				s.t.Fatal(err)
			}
		}
		s.do(event{kind: evOrder, order: o})
	case "foreign":
		s.st.foreign = true
	case "owned":
		s.do(event{kind: evOwned})
	case "busy": // the end of a run whose device could not be had
		s.do(event{kind: evEnded, slot: slot, run: run, end: ending{cause: "the GPU is in use", busy: true}})
	case "says": // says <slot> <parallel>
		n, err := strconv.Atoi(f[2])
		if err != nil {
			s.t.Fatal(err)
		}
		s.do(event{kind: evReport, slot: slot, run: run, report: &Report{Ready: true, Facts: hearth.SlotFacts{Parallel: n}}})
	case "unready":
		s.do(event{kind: evReport, slot: slot, run: run, report: &Report{Why: "it lists other models"}})
	case "reload": // reload <slot> queue|line|model|without|exclusive|again; the others stay as they are
		s.reload(slot, f[2])
	default:
		return false
	}
	return true
}

func (s *sim) reload(slot int, how string) {
	c := &change{node: &hearth.Node{Exclusive: s.st.exclusive, Turn: s.st.turn, MinResident: s.st.minResident}}
	for i, p := range s.st.slots {
		conf := *p.Slot
		restart := false
		if i == slot {
			switch how {
			case "queue":
				conf.Queue = 0
			case "line":
				restart = true
			case "model":
				conf.UpstreamModel += "+"
				restart = true
			}
		}
		c.slots, c.restart = append(c.slots, &conf), append(c.restart, restart)
	}
	switch how {
	case "without":
		c.slots[slot] = nil
	case "exclusive":
		c.node.Exclusive = true
	}
	s.do(event{kind: evReload, change: c})
}

func TestStep(t *testing.T) {
	gpu := hearth.Node{Exclusive: true, Turn: 10 * time.Second, MinResident: 5 * time.Second}
	said := parallelCases
	for _, tt := range slices.Concat(said, waitCases, turnCases, rotaCases, orderCases, reloadCases, guestCases) {
		concurrency := 1
		if len(said) > 0 {
			concurrency, said = 0, said[1:]
		}
		t.Run(tt.name, func(t *testing.T) {
			node := gpu
			if tt.shared {
				node.Exclusive = false
			}
			var slots []*hearth.Slot
			for range 3 {
				slots = append(slots, &hearth.Slot{
					Concurrency: concurrency, Queue: 2, Wait: 90 * time.Second, QueueWait: 10 * time.Second,
					ExpectedLoad: 30 * time.Second, StartTimeout: 2 * time.Minute, IdleSleep: tt.sleep, DrainMax: 40 * time.Second, OnExit: tt.exit,
				})
			}
			s := newSim(t, node, slots...)
			for line := range strings.Lines(tt.play) {
				if line = strings.TrimSpace(line); line != "" {
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

func TestMove(t *testing.T) {
	states := []hearth.SlotState{hearth.SlotAsleep, hearth.SlotStarting, hearth.SlotReady, hearth.SlotDraining, hearth.SlotStopping, hearth.SlotFailed}
	allowed := map[string]bool{
		"asleep>starting": true, "starting>ready": true, "starting>failed": true, "starting>stopping": true,
		"ready>draining": true, "ready>failed": true, "draining>stopping": true, "draining>ready": true,
		"draining>failed": true, "stopping>asleep": true, "failed>asleep": true, "failed>stopping": true,
	}
	for _, from := range states {
		for _, to := range states {
			step := from.String() + ">" + to.String()
			t.Run(step, func(t *testing.T) {
				st := &state{}
				p := &place{state: from, since: t0}
				got := st.move(p, to, t0.Add(time.Second), "")
				if got != allowed[step] {
					t.Errorf("move says %v", got)
				}
				if !got && (p.state != from || !p.since.Equal(t0) || st.illegal != 1) {
					t.Errorf("a refused step left state %v since %v, counted %d", p.state, p.since, st.illegal)
				}
				if got && p.state != to {
					t.Errorf("the state is %v", p.state)
				}
			})
		}
	}
}
