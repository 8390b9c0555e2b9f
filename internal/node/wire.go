package node

import (
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// picture is what a machine says of all its slots at one instant, one event of its stream. Times are relative: the two
// machines need not have the same clock.
type picture struct {
	Number  uint64  `json:"number"` // from 1, one more each time
	At      int64   `json:"at_ms"`  // since the stream began
	Leaving bool    `json:"leaving,omitzero"`
	Last    bool    `json:"last,omitzero"` // the stream ends here, and a new one may be asked for
	Slots   []seen  `json:"slots"`
	Steps   []taken `json:"steps,omitzero"` // since the picture before
}

// seen is one slot in a picture.
type seen struct {
	Name       string `json:"name"`
	Model      string `json:"model"`
	State      string `json:"state"`
	Since      int64  `json:"since_ms"` // ago
	Inflight   int    `json:"inflight"`
	Waiting    int    `json:"waiting"`
	Batch      int    `json:"batch,omitzero"`       // of those who wait
	Limit      int    `json:"concurrency,omitzero"` // 0 = as the engine says, else 1
	OtherBusy  bool   `json:"other_busy,omitzero"`
	LoadRest   int64  `json:"load_rest_ms,omitzero"`
	WaitRest   int64  `json:"wait_rest_ms,omitzero"`
	Soonest    int64  `json:"soonest_ms,omitzero"`
	LastError  string `json:"last_error,omitzero"`
	LoadTime   int64  `json:"load_time_ms,omitzero"`
	StopTime   int64  `json:"stop_time_ms,omitzero"`
	Loads      uint64 `json:"loads,omitzero"`
	Served     uint64 `json:"served,omitzero"`
	Learned    times  `json:"learned,omitzero"`
	Votes      int    `json:"votes,omitzero"`
	Turn       int64  `json:"turn_ms,omitzero"` // ago
	Next       bool   `json:"next,omitzero"`
	NextWhy    string `json:"next_why,omitzero"`
	Disabled   bool   `json:"disabled,omitzero"`
	Drained    bool   `json:"drained,omitzero"`
	Paused     int64  `json:"paused_ms,omitzero"` // for how long still
	Shut       int64  `json:"shut_ms,omitzero"`   // likewise: outside of the node's hours
	Foreign    bool   `json:"foreign,omitzero"`
	Window     int    `json:"window,omitzero"`
	Parallel   int    `json:"parallel,omitzero"`
	EngineName string `json:"engine_model,omitzero"`
	Warning    string `json:"warning,omitzero"`
}

// times are what was learned of a slot.
type times struct {
	Load    figures `json:"load,omitzero"`
	Stop    figures `json:"stop,omitzero"`
	Drain   figures `json:"drain,omitzero"`
	Service figures `json:"service,omitzero"`
}

type figures struct {
	P50 int64 `json:"p50_ms,omitzero"`
	P95 int64 `json:"p95_ms,omitzero"`
	Min int64 `json:"min_ms,omitzero"`
	N   int   `json:"n"`
}

func told(f hearth.Figures) figures {
	return figures{f.P50.Milliseconds(), f.P95.Milliseconds(), f.Min.Milliseconds(), f.N}
}

func (f figures) read() hearth.Figures {
	return hearth.Figures{P50: ms(f.P50), P95: ms(f.P95), Min: ms(f.Min), N: max(0, f.N)}
}

// taken is one step of a slot.
type taken struct {
	Slot string `json:"slot"`
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
	Ago  int64  `json:"ago_ms"`
}

// see makes the wire's form of a view.
func see(s *hearth.Slot, v *hearth.SlotView, now time.Time) seen {
	p := seen{
		Name: s.Name, Model: s.Model.ID, State: v.State.String(), Inflight: v.Inflight, Waiting: v.Waiting, Batch: v.Batch, Limit: s.Concurrency,
		OtherBusy: v.OtherBusy, LoadRest: v.LoadRest.Milliseconds(), WaitRest: v.WaitRest.Milliseconds(), Soonest: v.Soonest.Milliseconds(), LastError: v.LastError,
		LoadTime: v.LoadTime.Milliseconds(), StopTime: v.StopTime.Milliseconds(), Loads: v.Loads, Served: v.Served,
		Learned: times{told(v.Learned.Load), told(v.Learned.Stop), told(v.Learned.Drain), told(v.Learned.Service)},
		Votes:   v.Votes, Next: v.Next, NextWhy: v.NextWhy,
		Disabled: v.Disabled, Drained: v.Drained, Foreign: v.Foreign,
		Window: v.Facts.Window, Parallel: v.Facts.Parallel, EngineName: v.Facts.Model, Warning: v.Facts.Warning,
	}
	if !v.Since.IsZero() {
		p.Since = now.Sub(v.Since).Milliseconds()
	}
	if !v.Turn.IsZero() {
		p.Turn = max(now.Sub(v.Turn).Milliseconds(), 1)
	}
	p.Paused, p.Shut = still(v.Paused, now), still(v.Shut, now)
	return p
}

// still is for how long something lasts that ends at an instant, in ms; 0 = it does not.
func still(end, now time.Time) int64 {
	if rest := end.Sub(now); !end.IsZero() && rest > 0 {
		return max(rest.Milliseconds(), 1)
	}
	return 0
}

// view is what was seen, at the instant at.
func (p *seen) view(at time.Time) hearth.SlotView {
	v := hearth.SlotView{
		State: stateOf(p.State), Since: at.Add(-ms(p.Since)), Inflight: p.Inflight, Waiting: p.Waiting, Batch: p.Batch,
		OtherBusy: p.OtherBusy, LoadRest: ms(p.LoadRest), WaitRest: ms(p.WaitRest), Soonest: ms(p.Soonest), LastError: p.LastError,
		LoadTime: ms(p.LoadTime), StopTime: ms(p.StopTime), Loads: p.Loads, Served: p.Served,
		Learned: hearth.Learned{Load: p.Learned.Load.read(), Stop: p.Learned.Stop.read(), Drain: p.Learned.Drain.read(), Service: p.Learned.Service.read()},
		Votes:   p.Votes, Next: p.Next, NextWhy: p.NextWhy,
		Disabled: p.Disabled, Drained: p.Drained, Foreign: p.Foreign,
		Facts: hearth.SlotFacts{Window: p.Window, Parallel: p.Parallel, Model: p.EngineName, Warning: p.Warning},
	}
	if p.Turn > 0 {
		v.Turn = at.Add(-ms(p.Turn))
	}
	if p.Paused > 0 {
		v.Paused = at.Add(ms(p.Paused))
	}
	if p.Shut > 0 {
		v.Shut = at.Add(ms(p.Shut))
	}
	return v
}

// longest bounds durations from the wire: whatever is longer is as good as for ever, and does not overflow.
const longest = 200 * 365 * 24 * time.Hour

// ms is a duration from the wire.
func ms(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(longest/time.Millisecond))) * time.Millisecond
}

// stateOf is the state with that word; one that is not known is as good as failed.
func stateOf(word string) hearth.SlotState {
	for s := hearth.SlotAsleep; s <= hearth.SlotFailed; s++ {
		if s.String() == word {
			return s
		}
	}
	return hearth.SlotFailed
}

// step makes the wire's form of an event.
func step(e *slot.Event, now time.Time) taken {
	return taken{e.Slot, e.From.String(), e.To.String(), e.Why, now.Sub(e.At).Milliseconds()}
}

// readPicture reads an event's data.
func readPicture(data []byte) (p picture, err error) {
	err = json.Unmarshal(data, &p)
	return p, err
}
