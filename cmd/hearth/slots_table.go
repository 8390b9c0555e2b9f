package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// slotList is the answer of GET /slots as far as it is shown.
type slotList struct {
	Data    []slotRow `json:"data"`
	Notices []string  `json:"notices"`
}

// slotRow is one slot.
type slotRow struct {
	Slot        string     `json:"slot"`
	Node        string     `json:"node"`
	Model       string     `json:"model"`
	Driver      string     `json:"driver"`
	Engine      string     `json:"engine"`
	State       string     `json:"state"`
	Since       *time.Time `json:"since"`
	Inflight    int        `json:"inflight"`
	Waiting     int        `json:"waiting"`
	Batch       int        `json:"batch_waiting"`
	Concurrency int        `json:"concurrency"`
	Queue       int        `json:"queue"`
	LoadRest    float64    `json:"load_rest_seconds"`
	Votes       int        `json:"votes"`
	TurnSince   *time.Time `json:"turn_since"`
	Next        bool       `json:"next_turn"`
	NextWhy     string     `json:"next_why"`
	Disabled    bool       `json:"disabled"`
	Drained     bool       `json:"drained"`
	PausedUntil *time.Time `json:"paused_until"`
	ShutUntil   *time.Time `json:"shut_until"`
	Foreign     bool       `json:"foreign"`
	Removed     bool       `json:"removed"`
	Learned     struct {
		Load   *float64 `json:"load_seconds"`
		Stop   *float64 `json:"stop_seconds"`
		Loads  uint64   `json:"loads"`
		Served uint64   `json:"served"`
		Times  struct {
			Load    spread `json:"load"`
			Stop    spread `json:"stop"`
			Drain   spread `json:"drain"`
			Service spread `json:"service"`
		} `json:"times"`
	} `json:"learned"`
	Facts struct {
		Window   int    `json:"window"`
		Parallel int    `json:"parallel"`
		Model    string `json:"model"`
	} `json:"facts"`
	Warning   string   `json:"warning"`
	LastError string   `json:"last_error"`
	History   []began  `json:"history"`
	Log       []string `json:"log"`
}

// spread is what a time of a slot is like lately; nil = nothing was measured.
type spread struct {
	P50 *float64 `json:"p50_seconds"`
	P95 *float64 `json:"p95_seconds"`
}

// usual are the times of a slot, as median and 95th percentile; "" = nothing was measured. They outlive the gateway.
func (s *slotRow) usual() string {
	t := &s.Learned.Times
	var parts []string
	for _, x := range []struct {
		verb string
		spread
	}{{"loads", t.Load}, {"stops", t.Stop}, {"drains", t.Drain}, {"serves", t.Service}} {
		if x.P50 != nil {
			parts = append(parts, x.verb+" in "+secondsOrNot(x.P50)+" to "+secondsOrNot(x.P95))
		}
	}
	return strings.Join(parts, ", ")
}

// began is one start.
type began struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Outcome string    `json:"outcome"`
	Why     string    `json:"why"`
}

const untilResume = 24 * 365 * time.Hour // a pause that is longer has no end that matters

// word is what the slot does, in a few words.
func (s *slotRow) word(now time.Time) string {
	barred := ""
	switch {
	case s.State == "unknown":
		return "unknown: its machine does not answer"
	case s.Removed:
		barred = "not in the configuration any more"
	case s.Disabled:
		barred = "disabled"
	case s.Drained:
		barred = "drained"
	case s.PausedUntil != nil && s.PausedUntil.Sub(now) > untilResume:
		barred = "paused"
	case s.PausedUntil != nil:
		barred = "paused until " + moment(*s.PausedUntil, now)
	case s.ShutUntil != nil:
		barred = "outside of its hours until " + moment(*s.ShutUntil, now)
	case s.Foreign:
		barred = "another gateway's"
	}
	switch {
	case barred != "" && (s.State == "asleep" || s.State == "failed"):
		return barred
	case barred != "":
		return barred + " (" + safe(s.State) + ")"
	case s.State == "starting" && s.LoadRest >= 0.5:
		return fmt.Sprintf("starting, %.0fs left", s.LoadRest)
	}
	return safe(s.State)
}

// moment is a time of today, or of another day.
func moment(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// colour is the number of the colour of what the slot does.
func (s *slotRow) colour() string {
	switch {
	case s.State == "unknown" || s.State == "failed":
		return "31" // red
	case s.Removed || s.Disabled || s.Drained || s.PausedUntil != nil || s.ShutUntil != nil || s.Foreign:
		return "35" // magenta
	case s.State == "ready":
		return "32" // green
	case s.State == "asleep":
		return "2" // faint
	}
	return "33" // yellow
}

// note is what an operator should know of the slot.
func (s *slotRow) note(now time.Time) string {
	wrong := s.Warning
	if n := len(s.History); s.State == "failed" || s.State == "unknown" || n > 0 && s.History[n-1].Outcome == "failed" && s.State != "ready" {
		wrong = cmp.Or(s.LastError, s.Warning)
	}
	turn := s.turn(now)
	if wrong != "" && turn != "" {
		wrong += "; "
	}
	return safe(wrong + turn)
}

// turn is how the slot stands with the others of its node, "" = there is nothing to say.
func (s *slotRow) turn(now time.Time) string {
	var parts []string
	if s.TurnSince != nil {
		parts = append(parts, "another model has been waited for for "+lasted(now.Sub(*s.TurnSince)))
	}
	if s.Next {
		parts = append(parts, "its turn is next: "+s.NextWhy)
	}
	switch {
	case s.Votes == 1:
		parts = append(parts, "1 vote")
	case s.Votes > 1:
		parts = append(parts, fmt.Sprintf("%d votes", s.Votes))
	}
	return strings.Join(parts, "; ")
}

// since is for how long the slot has been in its state.
func (s *slotRow) since(now time.Time) string {
	if s.Since == nil {
		return unknown
	}
	return lasted(now.Sub(*s.Since))
}

// lasted is a length of time with its largest unit or two.
func lasted(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d/day), int(d.Hours())%24)
}

func secondsOrNot(s *float64) string {
	if s == nil {
		return unknown
	}
	return significant(*s) + "s"
}

// safe is a text without anything that could steer a terminal.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// screen is what is printed to.
type screen struct {
	terminal bool
	colours  bool
	width    int // 0 = no limit
}

// screenOf looks at what a command prints to. NO_COLOR, set to anything, and a terminal that is dumb turn colours off.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	s := screen{terminal: true, colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = width
	}
	return s
}

func (s screen) paint(colour, text string) string {
	if !s.colours || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// table prints the slots, one a line. The line is cut where the screen ends.
func (s screen) table(w io.Writer, list *slotList, now time.Time) {
	for _, n := range list.Notices {
		fmt.Fprintln(w, s.paint("33", safe(n)))
	}
	if len(list.Data) == 0 {
		fmt.Fprintln(w, "no slot is configured")
		return
	}
	rows := [][]string{{"NODE", "SLOT", "MODEL", "STATE", "FOR", "BUSY", "WAITING", "LOAD", "SERVED", "NOTE"}}
	for i := range list.Data {
		r := &list.Data[i]
		rows = append(rows, []string{
			safe(r.Node), safe(r.Slot), safe(r.Model), r.word(now), r.since(now), fmt.Sprintf("%d/%d", r.Inflight, r.Concurrency),
			r.queue(), secondsOrNot(cmp.Or(r.Learned.Load, r.Learned.Times.Load.P50)), fmt.Sprint(r.Learned.Served), r.note(now),
		})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	const stateColumn = 3
	for i, row := range rows {
		room := s.width
		for j, cell := range row {
			if j < len(row)-1 {
				cell += strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+2)
			}
			if s.width > 0 {
				cell = cut(cell, room)
				room -= utf8.RuneCountInString(cell)
			}
			if i > 0 && j == stateColumn {
				cell = s.paint(list.Data[i-1].colour(), cell)
			}
			if j == len(row)-1 || strings.TrimSpace(strings.Join(row[j+1:], "")) == "" {
				cell = strings.TrimRight(cell, " ")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
}

// cut is the beginning of a text, for so many columns.
func cut(text string, room int) string {
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	if room <= 0 {
		return ""
	}
	return string([]rune(text)[:room-1]) + "…"
}

// queue is how many wait, and how many of them for work in the background.
func (s *slotRow) queue() string {
	if s.Batch == 0 {
		return fmt.Sprint(s.Waiting)
	}
	return fmt.Sprintf("%d (%d batch)", s.Waiting, s.Batch)
}

// slot prints all that is known of one.
func (s screen) slot(w io.Writer, r *slotRow, now time.Time) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-11s"+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(w, "%s on %s: %s\n", safe(r.Slot), safe(r.Node), safe(r.Model))
	line("state", "%s for %s", s.paint(r.colour(), r.word(now)), r.since(now))
	line("requests", "%d of %d in the engine, %s waiting, room for %d", r.Inflight, r.Concurrency, r.queue(), r.Queue)
	if turn := r.turn(now); turn != "" {
		line("turn", "%s", safe(turn))
	}
	line("engine", "%s", r.engine())
	line("learned", "loads in %s, stops in %s; %d came up, %d served",
		secondsOrNot(r.Learned.Load), secondsOrNot(r.Learned.Stop), r.Learned.Loads, r.Learned.Served)
	if usual := r.usual(); usual != "" {
		line("usually", "%s", usual)
	}
	if r.Warning != "" {
		line("warning", "%s", s.paint("33", safe(r.Warning)))
	}
	if r.LastError != "" {
		line("last error", "%s", safe(r.LastError))
	}
	if len(r.History) > 0 {
		fmt.Fprintln(w, "  starts")
	}
	for _, b := range r.History {
		fmt.Fprintf(w, "    %s  %-8s  %6.1fs  %s\n", b.At.Local().Format(time.DateTime), safe(b.Outcome), b.Seconds, safe(b.Why))
	}
	if len(r.Log) > 0 {
		fmt.Fprintln(w, "  log")
	}
	for _, l := range r.Log {
		fmt.Fprintf(w, "    %s\n", safe(l))
	}
}

// engine is what runs in the slot, and what it says of itself.
func (s *slotRow) engine() string {
	var parts []string
	for _, p := range []string{s.Engine, s.Driver} {
		if p != "" {
			parts = append(parts, safe(p))
		}
	}
	if s.Facts.Model != "" {
		parts = append(parts, "has "+safe(s.Facts.Model))
	}
	if s.Facts.Window > 0 {
		parts = append(parts, fmt.Sprintf("window %d", s.Facts.Window))
	}
	if s.Facts.Parallel > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", s.Facts.Parallel))
	}
	return cmp.Or(strings.Join(parts, ", "), unknown)
}
