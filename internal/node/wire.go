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
	Limit      int    `json:"concurrency,omitzero"` // 0 = as the engine says, else 1
	OtherBusy  bool   `json:"other_busy,omitzero"`
	LoadRest   int64  `json:"load_rest_ms,omitzero"`
	LastError  string `json:"last_error,omitzero"`
	LoadTime   int64  `json:"load_time_ms,omitzero"`
	StopTime   int64  `json:"stop_time_ms,omitzero"`
	Loads      uint64 `json:"loads,omitzero"`
	Served     uint64 `json:"served,omitzero"`
	Disabled   bool   `json:"disabled,omitzero"`
	Drained    bool   `json:"drained,omitzero"`
	Paused     int64  `json:"paused_ms,omitzero"` // for how long still
	Foreign    bool   `json:"foreign,omitzero"`
	Window     int    `json:"window,omitzero"`
	Parallel   int    `json:"parallel,omitzero"`
	EngineName string `json:"engine_model,omitzero"`
	Warning    string `json:"warning,omitzero"`
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
		Name: s.Name, Model: s.Model.ID, State: v.State.String(), Inflight: v.Inflight, Waiting: v.Waiting, Limit: s.Concurrency,
		OtherBusy: v.OtherBusy, LoadRest: v.LoadRest.Milliseconds(), LastError: v.LastError,
		LoadTime: v.LoadTime.Milliseconds(), StopTime: v.StopTime.Milliseconds(), Loads: v.Loads, Served: v.Served,
		Disabled: v.Disabled, Drained: v.Drained, Foreign: v.Foreign,
		Window: v.Facts.Window, Parallel: v.Facts.Parallel, EngineName: v.Facts.Model, Warning: v.Facts.Warning,
	}
	if !v.Since.IsZero() {
		p.Since = now.Sub(v.Since).Milliseconds()
	}
	if rest := v.Paused.Sub(now); !v.Paused.IsZero() && rest > 0 {
		p.Paused = max(rest.Milliseconds(), 1)
	}
	return p
}

// view is what was seen, at the instant at.
func (p *seen) view(at time.Time) hearth.SlotView {
	v := hearth.SlotView{
		State: stateOf(p.State), Since: at.Add(-ms(p.Since)), Inflight: p.Inflight, Waiting: p.Waiting,
		OtherBusy: p.OtherBusy, LoadRest: ms(p.LoadRest), LastError: p.LastError,
		LoadTime: ms(p.LoadTime), StopTime: ms(p.StopTime), Loads: p.Loads, Served: p.Served,
		Disabled: p.Disabled, Drained: p.Drained, Foreign: p.Foreign,
		Facts: hearth.SlotFacts{Window: p.Window, Parallel: p.Parallel, Model: p.EngineName, Warning: p.Warning},
	}
	if p.Paused > 0 {
		v.Paused = at.Add(ms(p.Paused))
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
