package slot

import (
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// startsKept is how many starts of a slot are remembered.
const startsKept = 10

// Outcome is what became of a start.
type Outcome string

// Outcomes of a start.
const (
	StartRuns    Outcome = "starting" // it is not over
	StartReady   Outcome = "ready"    // the engine came up
	StartFailed  Outcome = "failed"
	StartStopped Outcome = "stopped" // it was given up: nobody wanted it any more, or its device could not be had
	StartAdopted Outcome = "adopted" // an engine of an earlier gateway was taken over
)

// Start is one start of a slot's engine.
type Start struct {
	At      time.Time
	Took    time.Duration // until it was over, 0 = it is not
	Outcome Outcome
	Why     string // it was begun or, once it is over, ended like this; for the operator
}

// chronicler is a node elsewhere that remembers the starts of its slots.
type chronicler interface {
	Starts(slot string) ([]Start, error)
}

// Starts are the last starts of a slot's engine, oldest first. What is returned must not be changed.
func (f *Fleet) Starts(slot string) ([]Start, error) {
	at := f.table.Load().names[slot]
	if at == nil {
		return nil, ErrNoSlot
	}
	if at.local == nil {
		if c, ok := at.remote.(chronicler); ok {
			return c.Starts(slot)
		}
		return nil, nil
	}
	if list := at.cell.starts.Load(); list != nil {
		return *list, nil
	}
	return nil, nil
}

// Run is another number for each engine of a slot of which LogTail may speak, 0 if that is not known.
func (f *Fleet) Run(slot string) uint64 {
	if at := f.table.Load().names[slot]; at != nil && at.cell != nil {
		return at.cell.run.Load()
	}
	return 0
}

// note remembers a step of the slot if it is one of a start. Only the node's goroutine calls it.
func (c *cell) note(t taken, now time.Time) {
	if t.to != hearth.SlotStarting && t.from != hearth.SlotStarting {
		return
	}
	var list []Start
	if old := c.starts.Load(); old != nil {
		list = slices.Clone(*old)
	}
	n := len(list) - 1
	switch {
	case t.to == hearth.SlotStarting:
		list = append(list, Start{At: now, Outcome: StartRuns, Why: t.why})
	case n >= 0 && list[n].Outcome == StartRuns:
		list[n].Took, list[n].Outcome, list[n].Why = now.Sub(list[n].At), outcomeOf(t.to), t.why
	case t.to == hearth.SlotReady: // nobody began it
		list = append(list, Start{At: now, Outcome: StartAdopted, Why: t.why})
	default:
		return
	}
	list = list[max(0, len(list)-startsKept):]
	c.starts.Store(&list)
}

// outcomeOf is that of a start which ended in a state.
func outcomeOf(to hearth.SlotState) Outcome {
	switch to {
	case hearth.SlotReady:
		return StartReady
	case hearth.SlotFailed:
		return StartFailed
	}
	return StartStopped
}
