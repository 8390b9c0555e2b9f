package server

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// eventsName is where a slot's name would stand in the path of the stream of events; no slot may be called so.
const eventsName = "events"

const (
	// heartbeat is how long a stream of events is silent before a comment says that it still lives.
	heartbeat = 10 * time.Second
	// logPoll is the pace of looking for new lines of a log.
	logPoll = 500 * time.Millisecond
)

// eventJSON is one step of a slot. From equals to where only what it may do has changed.
type eventJSON struct {
	At          time.Time  `json:"at"`
	Slot        string     `json:"slot"`
	Node        string     `json:"node"`
	Model       string     `json:"model"`
	From        string     `json:"from"`
	To          string     `json:"to"`
	Why         string     `json:"why"`
	Status      int        `json:"status"`
	Inflight    int        `json:"inflight"`
	Waiting     int        `json:"waiting"`
	LoadRest    float64    `json:"load_rest_seconds"`
	Disabled    bool       `json:"disabled"`
	Drained     bool       `json:"drained"`
	PausedUntil *time.Time `json:"paused_until"`
	ShutUntil   *time.Time `json:"shut_until"`
	Foreign     bool       `json:"foreign"`
	Missed      int        `json:"missed,omitzero"` // events that were lost before this one: read /slots again
}

// slotEvents is a stream of server-sent events: all slots as they are ("slots"), then each step of any slot ("slot").
func (s *Server) slotEvents(w http.ResponseWriter, r *http.Request) error {
	events := s.Fleet.Watch(r.Context()) // before the picture is made: no step may fall between
	out := startStream(w, "text/event-stream")
	if r.Method == http.MethodHead {
		return nil
	}
	err := out.event("slots", struct {
		Data []slotJSON `json:"data"`
	}{s.slotsOf("")})
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for err == nil {
		select {
		case e, ok := <-events:
			if !ok {
				return nil
			}
			err = out.event("slot", s.eventJSON(&e))
		case <-beat.C:
			err = out.write(": still here\n\n")
		case <-s.Ending:
			return nil
		}
		beat.Reset(heartbeat)
	}
	return nil // the watcher left
}

func (s *Server) eventJSON(e *slot.Event) eventJSON {
	v := &e.View
	return eventJSON{
		At: e.At.UTC().Truncate(time.Millisecond), Slot: e.Slot, Node: e.Node, Model: e.Model, From: e.From.String(), To: e.To.String(),
		Why: s.whyOf(e), Status: v.Status(), Inflight: v.Inflight, Waiting: v.Waiting, LoadRest: seconds(v.LoadRest),
		Disabled: v.Disabled, Drained: v.Drained, PausedUntil: orNullTime(v.Paused), ShutUntil: orNullTime(v.Shut), Foreign: v.Foreign, Missed: e.Missed,
	}
}

// whyOf is why a step was taken. An engine's last words are only told of a slot whose secrets are known.
func (s *Server) whyOf(e *slot.Event) string {
	for _, conf := range s.Catalog.Slots {
		if conf.Name == e.Slot {
			return concealed(conf).text(e.Why)
		}
	}
	if e.To == hearth.SlotFailed {
		return ""
	}
	return e.Why
}

// slotLog is the end of what a slot's engine wrote, as text; with follow=1 it goes on with what is written from then on.
func (s *Server) slotLog(w http.ResponseWriter, r *http.Request) error {
	conf, err := s.findSlot(r)
	if err != nil {
		return err
	}
	follow := false
	switch v := r.URL.Query().Get("follow"); v {
	case "1", "true":
		follow = true
	case "", "0", "false":
	default:
		return hearth.Invalid("follow", "follow is 1 or 0")
	}
	t := tailer{fleet: s.Fleet, slot: conf.Name, hide: concealed(conf)}
	lines, err := t.next()
	if err != nil {
		return noLog(err)
	}
	out := startStream(w, "text/plain; charset=utf-8")
	if r.Method == http.MethodHead {
		return nil
	}
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	for {
		if err := out.lines(lines); err != nil || !follow {
			return nil // the reader left, or has it all
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.Ending:
			return nil
		case <-tick.C:
		}
		if lines, err = t.next(); err != nil {
			return nil // the slot is gone
		}
	}
}

// tailer follows the log of a slot over the lives of its engines.
type tailer struct {
	fleet *slot.Fleet
	slot  string
	hide  hide
	run   uint64
	last  []string
}

// next returns the lines that are new since the last call.
func (t *tailer) next() ([]string, error) {
	run := t.fleet.Run(t.slot)
	lines, err := t.fleet.LogTail(t.slot)
	if err != nil {
		return nil, err
	}
	fresh := lines
	if run == t.run {
		fresh = added(t.last, lines)
	}
	t.run, t.last = run, lines
	return t.hide.lines(fresh), nil
}

// added are the lines of now that do not stand at the end of before: both are windows on one text that only grows.
func added(before, now []string) []string {
	for n := min(len(before), len(now)); n > 0; n-- {
		if slices.Equal(before[len(before)-n:], now[:n]) {
			return now[n:]
		}
	}
	return now
}

// stream is an answer that goes on for as long as somebody reads it.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func startStream(w http.ResponseWriter, contentType string) stream {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // proxies: pass it on as it comes
	return stream{w, http.NewResponseController(w)}
}

// write sends text at once, to a reader that takes it in time.
func (s stream) write(text string) error {
	_ = s.c.SetWriteDeadline(time.Now().Add(sendLimit)) // a writer that lacks deadlines never blocks
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}

func (s stream) event(name string, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return s.write("event: " + name + "\ndata: " + string(b) + "\n\n")
}

func (s stream) lines(lines []string) error {
	var b []byte
	for _, l := range lines {
		b = append(append(b, l...), '\n')
	}
	return s.write(string(b))
}
