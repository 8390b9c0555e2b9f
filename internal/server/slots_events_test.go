package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// steps are the events of a stream as words.
func steps(t *testing.T, body string) []string {
	t.Helper()
	var list []string
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(block, "\ndata: ")
		if !ok {
			list = append(list, block)
			continue
		}
		var e struct {
			eventJSON
			Data []slotJSON `json:"data"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%q: %v", block, err)
		}
		switch name {
		case "event: slots":
			list = append(list, fmt.Sprintf("all %d, first %s", len(e.Data), e.Data[0].State))
		case "event: slot":
			list = append(list, fmt.Sprintf("%s %s → %s %d: %s", e.Slot, e.From, e.To, e.Status, e.Why))
		default:
			list = append(list, block)
		}
	}
	return list
}

func TestSlots_Events(t *testing.T) {
	bubble(t, "all as it is, then every step, and a sign of life when there is none", func(t *testing.T, y *yard) {
		ctx, leave := context.WithCancel(t.Context())
		w, ended := y.operator(ctx, "GET", "/api/v1/slots/events", "")
		pass(9 * time.Second)
		y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
		pass(9 * time.Second) // the silence begins anew with every event
		y.do("POST", "/api/v1/slots/gemma/disable", "", 200, nil)
		pass(21 * time.Second)
		leave()
		<-ended
		want := []string{
			"all 2, first asleep",
			"gemma asleep → starting -1: it is to be up", "gemma starting → ready 0: the engine is ready",
			"gemma ready → draining -10: the operator has disabled it", "gemma draining → stopping -10: nobody uses it", "gemma stopping → asleep -10: the engine is gone",
			": still here", ": still here",
		}
		if d := cmp.Diff(want, steps(t, w.Body.String())); d != "" {
			t.Error(d)
		}
		if h := w.Header(); h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" || !w.Flushed {
			t.Errorf("headers %v", h)
		}
	})
	bubble(t, "it ends with the gateway", func(t *testing.T, y *yard) {
		_, events := y.operator(t.Context(), "GET", "/api/v1/slots/events", "")
		_, log := y.operator(t.Context(), "GET", "/api/v1/slots/gemma/log?follow=1", "")
		pass(time.Minute)
		select {
		case <-events:
			t.Error("the events have ended before")
		case <-log:
			t.Error("the log has ended before")
		default:
		}
		close(y.ending)
		synctest.Wait()
		<-events
		pass(logPoll)
		<-log
	})
	bubble(t, "HEAD has no body", func(t *testing.T, y *yard) {
		for _, path := range []string{"/api/v1/slots/events", "/api/v1/slots/gemma/log?follow=1"} {
			w, ended := y.operator(t.Context(), "HEAD", path, "")
			if <-ended; w.Code != 200 || w.Body.Len() != 0 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
	bubble(t, "an engine's last words are told without its secrets, and of an unknown slot not at all", func(t *testing.T, y *yard) {
		e := slot.Event{Slot: "gemma", To: hearth.SlotFailed, Why: "it says top-secret-1"}
		if got := y.eventJSON(&e).Why; got != "it says [redacted]" {
			t.Error(got)
		}
		e.Slot = "new"
		if got := y.eventJSON(&e).Why; got != "" {
			t.Error(got)
		}
		if e.To = hearth.SlotReady; y.eventJSON(&e).Why == "" {
			t.Error("nothing is told of it")
		}
	})
}

func TestSlots_Log(t *testing.T) {
	bubble(t, "as it stands", func(t *testing.T, y *yard) {
		y.do("GET", "/api/v1/slots/gemma/log", "", 200, nil)
		y.do("GET", "/api/v1/slots/gemma/log?follow=yes", "", 400, nil)
		y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
		pass(time.Second)
		w, ended := y.operator(t.Context(), "GET", "/api/v1/slots/gemma/log", "")
		<-ended
		if got := w.Body.String(); got != "loading\nwith the key [redacted] of [redacted]\n" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%q %v", got, w.Header())
		}
	})
	bubble(t, "followed over the lives of its engines", func(t *testing.T, y *yard) {
		ctx, leave := context.WithCancel(t.Context())
		w, ended := y.operator(ctx, "GET", "/api/v1/slots/gemma/log?follow=1", "")
		y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
		pass(3 * time.Second)
		y.engine.say("one", "one", "key top-secret-1")
		pass(time.Second)
		y.engine.say("one")
		pass(time.Second)
		y.do("POST", "/api/v1/slots/gemma/sleep", "", 200, nil)
		pass(10 * time.Second)
		for range 2 { // which write the very same lines
			y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
			pass(3 * time.Second)
			y.do("POST", "/api/v1/slots/gemma/sleep", "", 200, nil)
			pass(10 * time.Second)
		}
		leave()
		<-ended
		const begin = "loading\nwith the key [redacted] of [redacted]\n"
		if d := cmp.Diff(begin+"one\none\nkey [redacted]\none\n"+begin+begin, w.Body.String()); d != "" {
			t.Error(d)
		}
	})
}

func TestAdded(t *testing.T) {
	for name, c := range map[string]struct{ before, now, want string }{
		"nothing":               {"a b", "a b", ""},
		"one more":              {"a b", "a b c", "c"},
		"the window has moved":  {"a b c", "b c d", "d"},
		"it has moved past all": {"a b c", "d e f", "d e f"},
		"from nothing":          {"", "a b", "a b"},
		"the same again":        {"a a", "a a a", "a"},
		"it was cut":            {"a b c", "", ""},
		"part of it repeats":    {"a b a", "b a b", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(added(strings.Fields(c.before), strings.Fields(c.now)), " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
