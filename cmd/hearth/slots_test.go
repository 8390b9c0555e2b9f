package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// standIn is a gateway that answers as it is told.
type standIn struct {
	mu    sync.Mutex
	slots string          // of GET /slots
	steps chan func()     // each changes something and is then told as an event; closed, the stream ends
	paths map[string]bool // that were asked for, with their key
	asked chan struct{}   // told of every GET /slots; nil = nobody is
}

func (g *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.paths[r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Authorization")] = true
	slots := g.slots
	g.mu.Unlock()
	if r.URL.Path != "/api/v1/slots/events" {
		_, _ = io.WriteString(w, slots)
		if g.asked != nil {
			g.asked <- struct{}{}
		}
		return
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(w, format, args...)
		_ = http.NewResponseController(w).Flush()
	}
	say("event: slots\ndata: {\"data\":[]}\n\n: still here\n\n")
	n := 0
	for change := range g.steps {
		g.mu.Lock()
		change()
		g.mu.Unlock()
		n++
		say("event: slot\ndata: {\"slot\":\"s%d\"}\n\n", n)
	}
}

func newStandIn(t *testing.T, slots string) (*standIn, string) {
	t.Helper()
	g := &standIn{slots: slots, steps: make(chan func(), 10), paths: map[string]bool{}}
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	return g, srv.URL + "/api/v1/"
}

// ran runs a command and returns what it prints.
func ran(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(args, streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// ago is a time that was a while ago, as in JSON.
func ago(d time.Duration) string {
	return `"` + time.Now().Add(-d).UTC().Format(time.RFC3339Nano) + `"`
}

func oneSlot(state string, more string) string {
	return `{"data":[{"slot":"gemma","node":"gpu-1","model":"google/gemma","state":"` + state + `","since":` + ago(90*time.Minute) + `,"concurrency":4` + more + `}]}`
}

func TestSlots_Table(t *testing.T) {
	for name, c := range map[string]struct{ slots, want string }{
		"a slot that serves": {
			oneSlot("ready", `,"inflight":3,"waiting":12,"batch_waiting":5,"learned":{"load_seconds":12.345,"served":1200}`),
			"NODE   SLOT   MODEL         STATE  FOR    BUSY  WAITING       LOAD   SERVED  NOTE\ngpu-1  gemma  google/gemma  ready  1h30m  3/4   12 (5 batch)  12.3s  1200\n",
		},
		"what the gateway itself has to say": {
			`{"data":[],"notices":["needs a restart: listen"]}`, "needs a restart: listen\nno slot is configured\n",
		},
		"a warning": {
			oneSlot("ready", `,"warning":"its window is 8192, the configuration says 16384","last_error":"long past","history":[{"outcome":"failed"}]`),
			"NODE   SLOT   MODEL         STATE  FOR    BUSY  WAITING  LOAD  SERVED  NOTE\n" +
				"gpu-1  gemma  google/gemma  ready  1h30m  0/4   0        -     0       its window is 8192, the configuration says 16384\n",
		},
		"a start that failed, after its back-off": {
			oneSlot("asleep", `,"last_error":"out of memory","history":[{"outcome":"ready"},{"outcome":"failed"}]`),
			"NODE   SLOT   MODEL         STATE   FOR    BUSY  WAITING  LOAD  SERVED  NOTE\ngpu-1  gemma  google/gemma  asleep  1h30m  0/4   0        -     0       out of memory\n",
		},
		"a load that was measured before the last restart": {
			oneSlot("asleep", `,"learned":{"load_seconds":null,"served":0,"times":{"load":{"p50_seconds":8.5,"p95_seconds":9}}}`),
			"NODE   SLOT   MODEL         STATE   FOR    BUSY  WAITING  LOAD  SERVED  NOTE\ngpu-1  gemma  google/gemma  asleep  1h30m  0/4   0        8.5s  0\n",
		},
		"a turn that is limited": {
			oneSlot("ready", `,"turn_since":`+ago(270*time.Second)),
			"NODE   SLOT   MODEL         STATE  FOR    BUSY  WAITING  LOAD  SERVED  NOTE\n" +
				"gpu-1  gemma  google/gemma  ready  1h30m  0/4   0        -     0       another model has been waited for for 4m\n",
		},
		"who is next, with a warning": {
			oneSlot("asleep", `,"waiting":2,"votes":3,"next_turn":true,"next_why":"it\u001b runs out","warning":"odd"`),
			"NODE   SLOT   MODEL         STATE   FOR    BUSY  WAITING  LOAD  SERVED  NOTE\n" +
				"gpu-1  gemma  google/gemma  asleep  1h30m  0/4   2        -     0       odd; its turn is next: it? runs out; 3 votes\n",
		},
		"what would steer a terminal": {
			oneSlot("failed", `,"last_error":"\u001b[2Jx\u009b1m\r\nroot#\u202e"`),
			"NODE   SLOT   MODEL         STATE   FOR    BUSY  WAITING  LOAD  SERVED  NOTE\ngpu-1  gemma  google/gemma  failed  1h30m  0/4   0        -     0       ?[2Jx?1m??root#?\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, url := newStandIn(t, c.slots)
			code, out, errs := ran("slots", "--url", url, "--key", "k")
			if d := cmp.Diff(c.want, out); d != "" || code != 0 || errs != "" {
				t.Errorf("%d %q (-want +got):\n%s", code, errs, d)
			}
		})
	}
}

func TestSlots_Usual(t *testing.T) {
	_, url := newStandIn(t, `{"data":{"slot":"gemma","node":"gpu-1","model":"google/gemma","state":"asleep","learned":{"times":{`+
		`"load":{"p50_seconds":8.5,"p95_seconds":9},"drain":{"p50_seconds":null},"service":{"p50_seconds":2,"p95_seconds":31.25}}}}}`)
	if code, out, _ := ran("slots", "gemma", "--url", url); code != 0 || !strings.Contains(out, "  usually    loads in 8.5s to 9s, serves in 2s to 31.2s\n") {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestSlots_Word(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	in := func(d time.Duration) *time.Time { t := now.Add(d); return &t }
	for want, s := range map[string]slotRow{
		"ready":                                {State: "ready"},
		"starting, 12s left":                   {State: "starting", LoadRest: 12.4},
		"starting":                             {State: "starting", LoadRest: 0.2},
		"unknown: its machine does not answer": {State: "unknown", Disabled: true},
		"disabled":                             {State: "asleep", Disabled: true, Drained: true},
		"disabled (draining)":                  {State: "draining", Disabled: true},
		"not in the configuration any more (draining)": {State: "draining", Removed: true},
		"drained":                               {State: "failed", Drained: true},
		"outside of its hours until 14:30":      {State: "asleep", ShutUntil: in(150 * time.Minute)},
		"paused until 14:30":                    {State: "asleep", PausedUntil: in(150 * time.Minute)},
		"paused until 2026-03-02 13:00 (ready)": {State: "ready", PausedUntil: in(25 * time.Hour)},
		"paused":                                {State: "asleep", PausedUntil: in(90 * 365 * 24 * time.Hour)},
		"another gateway's":                     {State: "asleep", Foreign: true},
	} {
		if got := s.word(now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, d := range map[string]time.Duration{"0s": -time.Second, "59s": 59*time.Second + 999*time.Millisecond, "1m": time.Minute, "2h05m": 125*time.Minute + time.Second, "3d07h": 79 * time.Hour} {
		if got := lasted(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// TestSlots_WatchedFile: where no terminal is, a page follows another only when something has changed, and that time passes
// is no change.
func TestSlots_WatchedFile(t *testing.T) {
	t.Parallel()
	since := ago(5 * time.Second) // so that what is shown of it changes every second
	lately := func(state string) string {
		return `{"data":[{"slot":"gemma","node":"gpu-1","model":"google/gemma","state":"` + state + `","since":` + since + `}]}`
	}
	g, url := newStandIn(t, lately("asleep"))
	g.asked = make(chan struct{}, 1000)
	looked := func(times int) {
		for range times {
			select {
			case <-g.asked:
			case <-time.After(patience):
				t.Error("the slots are not looked at")
			}
		}
	}
	go func() {
		looked(2) // whether there is such a slot, and the first page
		for _, change := range []func(){func() {}, func() {}, func() { g.slots = lately("ready") }, func() {}} {
			g.steps <- change
			looked(2) // of which one was surely begun after the step
		}
		close(g.steps)
	}()
	code, out, errs := ran("slots", "--watch", "--url", url)
	pages := strings.Split(out, "\n\n")
	if len(pages) != 2 || !strings.Contains(pages[0], " asleep ") || !strings.Contains(pages[1], " ready ") || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	if code != 1 || errs != "hearth: the gateway has ended\n" {
		t.Errorf("%d %q", code, errs)
	}
}

// TestSlots_WatchedJSON: a line for each step, of the slot that is asked for alone.
func TestSlots_WatchedJSON(t *testing.T) {
	t.Parallel()
	for slot, want := range map[string]string{"": "{\"slot\":\"s1\"}\n{\"slot\":\"s2\"}\n", "s2": "{\"slot\":\"s2\"}\n"} {
		g, url := newStandIn(t, `{"data":{}}`)
		g.steps <- func() {}
		g.steps <- func() {}
		close(g.steps)
		args := []string{"slots", "-w", "--json", "--url", url}
		if slot != "" {
			args = append(args, slot)
		}
		if _, out, _ := ran(args...); out != want {
			t.Errorf("%q: %q", slot, out)
		}
	}
}

func TestOperate_Requests(t *testing.T) {
	t.Setenv("MYIP_API_KEY", "from-the-environment")
	for args, want := range map[string]string{
		"wake gemma":             "POST /api/v1/slots/gemma/wake Bearer from-the-environment",
		"sleep gemma --key mine": "POST /api/v1/slots/gemma/sleep Bearer mine",
		"drain a/b":              "POST /api/v1/slots/a%2Fb/drain Bearer from-the-environment",
		"disable %2e":            "POST /api/v1/slots/%252e/disable Bearer from-the-environment",
		"enable ?x#y":            "POST /api/v1/slots/%3Fx%23y/enable Bearer from-the-environment",
		"pause gpu-1 --for 90m":  "POST /api/v1/nodes/gpu-1/pause Bearer from-the-environment",
		"resume gpu-1":           "POST /api/v1/nodes/gpu-1/resume Bearer from-the-environment",
		"logs gemma":             "GET /api/v1/slots/gemma/log Bearer from-the-environment",
	} {
		g, url := newStandIn(t, oneSlot("asleep", ""))
		code, out, errs := ran(append(strings.Fields(args), "--url", url)...)
		if code != 0 || errs != "" || out == "" {
			t.Errorf("%s: %d %q %q", args, code, out, errs)
		}
		if !g.paths[want] || len(g.paths) != 1 {
			t.Errorf("%s: asked for %v, want %s", args, g.paths, want)
		}
	}
}

func TestLogs_SteerNoTerminal(t *testing.T) {
	_, url := newStandIn(t, "loading\n\x1b[2J한국어\u202e\n")
	if code, out, errs := ran("logs", "gemma", "--url", url); code != 0 || out != "loading\n?[2J한국어?\n" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}
