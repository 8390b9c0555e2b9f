package market

import (
	"strconv"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// scheduler is the policy of gateways, by their own core.
type scheduler struct {
	*world
	core *slot.Core
	keys []string
}

// dawn is when runs begin; any time would do.
var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newScheduler(w *world, v slot.Voting) *scheduler {
	node := &hearth.Node{Name: "gpu", Exclusive: true, Turn: w.Turn, MinResident: minResident}
	var slots []*hearth.Slot
	for i := range w.Models {
		name := "model-" + strconv.Itoa(i)
		slots = append(slots, &hearth.Slot{
			Index: i, Name: name, Node: node, Model: &hearth.Model{ID: name}, Concurrency: w.Models[i].Concurrency, Queue: queueLimit,
			Wait: w.longest(), QueueWait: queueWait, ExpectedLoad: w.Models[i].LoadTime,
		})
	}
	s := &scheduler{world: w, core: slot.NewCore(node, slots, dawn)}
	s.core.SetVoting(v)
	for i := range w.Keys {
		s.keys = append(s.keys, "key-"+strconv.Itoa(i))
	}
	return s
}

func (s *scheduler) time() time.Time { return dawn.Add(s.now) }

func (s *scheduler) ask(id int) {
	r := &s.requests[id]
	s.do(s.core.Ask(s.time(), slot.CoreAsk{ID: uint64(id) + 1, Slot: r.model, Key: s.keys[r.key], Budget: r.budget, HasNext: s.Fallback}))
}

func (s *scheduler) release(id int)          { s.do(s.core.Release(s.time(), uint64(id)+1)) }
func (s *scheduler) ready(m int, run uint64) { s.do(s.core.Ready(s.time(), m, run)) }
func (s *scheduler) ended(m int, run uint64) { s.do(s.core.Ended(s.time(), m, run)) }
func (s *scheduler) tick()                   { s.do(s.core.Tick(s.time())) }

func (s *scheduler) do(list []slot.Decision) {
	for _, d := range list {
		switch d.Kind {
		case slot.CoreStart:
			s.start(d.Slot, d.Run)
		case slot.CoreStop:
			s.stop(d.Slot, d.Run)
		case slot.CoreGrant:
			s.grant(int(d.ID)-1, d.Run)
		case slot.CoreRefuse:
			s.refuse(int(d.ID) - 1)
		case slot.CoreAlarm:
			s.alarm = d.At.Sub(dawn)
		}
	}
}
