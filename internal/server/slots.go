package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// The operator's view of slots. Only who operates the gateway sees it: it shows what engines write.

// slotJSON is all that is known of one slot.
type slotJSON struct {
	Slot        string      `json:"slot"`
	Node        string      `json:"node"`
	Model       string      `json:"model"`
	Driver      string      `json:"driver,omitempty"` // none for a slot of another machine
	Devices     []int       `json:"devices,omitempty"`
	Memory      int64       `json:"memory,omitempty"`    // bytes of each device that it is said to take
	Companion   bool        `json:"companion,omitempty"` // it is up at all times, beside whatever is there
	Engine      string      `json:"engine,omitempty"`    // as configured
	Remote      bool        `json:"remote"`              // another machine owns it
	State       string      `json:"state"`               // "unknown" = its machine is not heard of
	Status      int         `json:"status"`              // as in the list of endpoints
	Since       *time.Time  `json:"since"`
	Inflight    int         `json:"inflight"`
	Waiting     int         `json:"waiting"`
	Batch       int         `json:"batch_waiting"` // of them those of batch keys
	Concurrency int         `json:"concurrency"`   // requests in flight at once
	Queue       int         `json:"queue"`         // how many may wait
	LoadRest    float64     `json:"load_rest_seconds"`
	WaitRest    float64     `json:"wait_rest_seconds"` // predicted, of a request that comes now
	OtherBusy   bool        `json:"other_model"`       // another model holds the node
	Votes       int         `json:"votes"`             // requests that went elsewhere, for waiting was hopeless, and may start it yet
	TurnSince   *time.Time  `json:"turn_since"`        // its turn is limited since then, because another model is waited for
	Next        bool        `json:"next_turn"`         // its turn comes next on the node
	NextWhy     string      `json:"next_why,omitzero"` // why it does
	Disabled    bool        `json:"disabled"`
	Drained     bool        `json:"drained"`
	PausedUntil *time.Time  `json:"paused_until"`
	ShutUntil   *time.Time  `json:"shut_until"` // the node is outside of its hours until then
	Foreign     bool        `json:"foreign"`    // another gateway owns the node
	Removed     bool        `json:"removed"`    // the configuration has it no more, but something of its engine is left
	Learned     learnedJSON `json:"learned"`
	Facts       factsJSON   `json:"facts"`
	Warning     string      `json:"warning,omitempty"`    // where the engine contradicts the configuration
	LastError   string      `json:"last_error,omitempty"` // of the last start that failed, or crash
	History     []startJSON `json:"history"`              // the last starts, oldest first; of other machines only where one slot is shown
	Log         []string    `json:"log,omitempty"`        // the last lines of its engine, where one slot is shown
}

// unheardOf is the state of a slot whose machine is not heard of.
const unheardOf = "unknown"

// learnedJSON is what was measured of a slot; null = nothing yet.
type learnedJSON struct {
	Load   *float64 `json:"load_seconds"` // the last start that came up
	Stop   *float64 `json:"stop_seconds"` // the last stop
	Loads  uint64   `json:"loads"`        // starts that came up
	Served uint64   `json:"served"`       // requests that were let into the engine

	Times timesJSON `json:"times"` // what they are like lately
}

// timesJSON are distributions of what was measured lately.
type timesJSON struct {
	Load    figuresJSON `json:"load"`    // from the start of the engine until it is ready
	Stop    figuresJSON `json:"stop"`    // until nothing of it is left
	Drain   figuresJSON `json:"drain"`   // until those who used it were done when it was to go
	Service figuresJSON `json:"service"` // for which a request has a place in it
}

// figuresJSON are null where nothing was measured.
type figuresJSON struct {
	P50 *float64 `json:"p50_seconds"`
	P95 *float64 `json:"p95_seconds"`
	Min *float64 `json:"min_seconds"`
	N   int      `json:"n"` // of how many
}

func figures(f hearth.Figures) figuresJSON {
	if f.N == 0 {
		return figuresJSON{}
	}
	return figuresJSON{new(seconds(f.P50)), new(seconds(f.P95)), new(seconds(f.Min)), f.N}
}

func timesOf(l *hearth.Learned) timesJSON {
	return timesJSON{figures(l.Load), figures(l.Stop), figures(l.Drain), figures(l.Service)}
}

// factsJSON is what the engine says of itself; null = it does not say.
type factsJSON struct {
	Window   *int    `json:"window"`   // tokens of one request
	Parallel *int    `json:"parallel"` // requests at once
	Model    *string `json:"model"`    // what it has loaded
}

type startJSON struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // until it was over
	Outcome string    `json:"outcome"`
	Why     string    `json:"why,omitempty"`
}

// slotsRoutes registers the operator's routes.
func (s *Server) slotsRoutes(base string) {
	s.route("GET", base+"/slots", s.admin(s.slots))
	s.route("GET", base+"/slots/{slot}", s.admin(s.slot)) // of which /slots/events is one
	s.route("GET", base+"/slots/{slot}/log", s.admin(s.slotLog))
	for _, v := range []slot.Verb{slot.Wake, slot.Sleep, slot.Drain, slot.Disable, slot.Enable} {
		s.route("POST", base+"/slots/{slot}/"+string(v), s.admin(s.orderSlot(v)))
	}
	for _, v := range []slot.Verb{slot.Pause, slot.Resume} {
		s.route("POST", base+"/nodes/{node}/"+string(v), s.admin(s.orderNode(v)))
	}
}

func (s *Server) slots(w http.ResponseWriter, _ *http.Request) error {
	var notices []string
	if s.Notices != nil {
		notices = s.Notices()
	}
	return writeJSON(w, http.StatusOK, struct {
		Data    []slotJSON `json:"data"`
		Notices []string   `json:"notices"` // what there is to know of the gateway itself
	}{s.slotsOf(""), append([]string{}, notices...)})
}

// slotsOf are the slots of a node, "" = of all, in the order of the configuration; then those that it has no more, until
// nothing of their engines is left.
func (s *Server) slotsOf(node string) []slotJSON {
	list := []slotJSON{}
	for _, conf := range s.Catalog.Slots {
		if node == "" || conf.Node.Name == node {
			list = append(list, s.slotJSON(conf))
		}
	}
	for _, l := range s.Fleet.Leaving() {
		if node == "" || l.Slot.Node.Name == node {
			j := slotOf(l.Slot, l.View)
			j.Drained, j.Removed = false, true // nobody ordered it
			list = append(list, j)
		}
	}
	return list
}

func (s *Server) slot(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("slot") == eventsName {
		return s.slotEvents(w, r)
	}
	conf, err := s.findSlot(r)
	if err != nil {
		return err
	}
	j := s.slotJSON(conf)
	if j.Remote && j.State != unheardOf {
		j.History = s.history(conf)
	}
	if j.State != unheardOf {
		log, err := s.Fleet.LogTail(conf.Name)
		if errors.Is(err, slot.ErrNoSlot) {
			return noLog(err)
		}
		j.Log = concealed(conf).lines(log) // none if the machine does not answer: the rest is worth showing
	}
	return writeJSON(w, http.StatusOK, slotAnswer{j})
}

type slotAnswer struct {
	Data slotJSON `json:"data"`
}

// slotJSON is the present state of a slot.
func (s *Server) slotJSON(conf *hearth.Slot) slotJSON {
	j := slotOf(conf, s.Fleet.View(conf))
	if !j.Remote { // another machine is asked where one slot is shown
		j.History = s.history(conf)
	}
	return j
}

// slotOf is what a slot's view says.
func slotOf(conf *hearth.Slot, v hearth.SlotView) slotJSON {
	hide := concealed(conf)
	j := slotJSON{
		Slot: conf.Name, Node: conf.Node.Name, Devices: conf.Devices, Memory: conf.Memory, Companion: conf.Companion, Driver: conf.Driver, Engine: conf.Engine, Remote: conf.Node.Remote != nil,
		State: stateOf(v), Status: v.Status(), Since: orNullTime(v.Since), Inflight: v.Inflight, Waiting: v.Waiting, Batch: v.Batch,
		Concurrency: concurrency(conf, v), Queue: conf.Queue, LoadRest: seconds(v.LoadRest), WaitRest: seconds(v.WaitRest), OtherBusy: v.OtherBusy,
		Votes: v.Votes, TurnSince: orNullTime(v.Turn), Next: v.Next, NextWhy: hide.text(v.NextWhy),
		Disabled: v.Disabled, Drained: v.Drained, PausedUntil: orNullTime(v.Paused), ShutUntil: orNullTime(v.Shut), Foreign: v.Foreign,
		Learned: learnedJSON{Load: measuredSeconds(v.LoadTime), Stop: measuredSeconds(v.StopTime), Loads: v.Loads, Served: v.Served, Times: timesOf(&v.Learned)},
		Facts:   factsJSON{Window: orNull(v.Facts.Window), Parallel: orNull(v.Facts.Parallel), Model: orNull(v.Facts.Model)},
		Warning: hide.text(v.Facts.Warning), LastError: hide.text(v.LastError), History: []startJSON{},
	}
	if conf.Model != nil {
		j.Model = conf.Model.ID
	}
	return j
}

// history are the last starts of a slot. One that has just gone has none, nor has one whose machine does not answer.
func (s *Server) history(conf *hearth.Slot) []startJSON {
	list, hide := []startJSON{}, concealed(conf)
	starts, _ := s.Fleet.Starts(conf.Name)
	for _, b := range starts {
		list = append(list, startJSON{b.At.UTC(), seconds(b.Took), string(b.Outcome), hide.text(b.Why)})
	}
	return list
}

// stateOf is the word for what a slot does.
func stateOf(v hearth.SlotView) string {
	if v.Unknown {
		return unheardOf
	}
	return v.State.String()
}

// concurrency is how many requests the slot's engine gets at once: as configured, else as it says, else one.
func concurrency(conf *hearth.Slot, v hearth.SlotView) int {
	if conf.Concurrency > 0 {
		return conf.Concurrency
	}
	return max(1, v.Facts.Parallel)
}

// seconds rounds to a thousandth.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

func measuredSeconds(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	n := seconds(d)
	return &n
}

func orNullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

// findSlot is the slot that a path names.
func (s *Server) findSlot(r *http.Request) (*hearth.Slot, error) {
	name := r.PathValue("slot")
	for _, conf := range s.Catalog.Slots {
		if conf.Name == name {
			return conf, nil
		}
	}
	return nil, s.noSlot(name)
}

func (s *Server) noSlot(name string) error {
	var names []string
	for _, conf := range s.Catalog.Slots {
		names = append(names, conf.Name)
	}
	return hearth.Errorf(hearth.ErrNotFound, "there is no slot %s; %s", printable(name), thereAre(names))
}

func (s *Server) noNode(name string) error {
	var names []string
	for _, conf := range s.Catalog.Slots {
		if !slices.Contains(names, conf.Node.Name) {
			names = append(names, conf.Node.Name)
		}
	}
	return hearth.Errorf(hearth.ErrNotFound, "there is no node %s; %s", printable(name), thereAre(names))
}

// thereAre lists the first names there are.
func thereAre(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none is configured"
	case len(names) > most:
		names = append(names[:most:most], "…")
	}
	return "there are " + strings.Join(names, ", ")
}

// noLog is the error of a log that cannot be read now.
func noLog(err error) error {
	if errors.Is(err, slot.ErrNoSlot) {
		return hearth.Errorf(hearth.ErrNotFound, "the slot is not configured any more")
	}
	return &hearth.Error{Type: hearth.ErrProvider, Message: "the slot's machine does not tell its log now", Err: err}
}
