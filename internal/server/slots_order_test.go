package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

func TestSlots_Orders(t *testing.T) {
	bubble(t, "to a slot", func(t *testing.T, y *yard) {
		for _, step := range []struct{ verb, want string }{
			{"wake", "starting -1"}, {"sleep", "stopping -2"}, {"drain", "asleep -10 drained"}, {"disable", "asleep -10 disabled drained"}, {"enable", "asleep -2"},
		} {
			var got slotAnswer
			y.do("POST", "/api/v1/slots/gemma/"+step.verb, "{}", 200, &got)
			if d := describe(got.Data); d != step.want {
				t.Errorf("%s: %s, want %s", step.verb, d, step.want)
			}
			pass(time.Second)
		}
	})
	bubble(t, "to a node", func(t *testing.T, y *yard) {
		var got struct {
			Data []slotJSON `json:"data"`
		}
		for body, until := range map[string]time.Duration{`{"for":"2h"}`: 2 * time.Hour, `{"for":"90m"}`: 90 * time.Minute, "": 100 * 365 * 24 * time.Hour, `{"for":""}`: 100 * 365 * 24 * time.Hour} {
			y.do("POST", "/api/v1/nodes/gpu-1/pause", body, 200, &got)
			if len(got.Data) != 2 || got.Data[1].PausedUntil == nil || !got.Data[1].PausedUntil.Equal(time.Now().Add(until)) || got.Data[0].Status != -10 {
				t.Errorf("%q: %+v", body, got.Data)
			}
		}
		w, ended := y.operator(t.Context(), "POST", "/api/v1/slots/gemma/wake", "")
		if <-ended; w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "the node is paused until ") {
			t.Errorf("wake on a paused node: %d %s", w.Code, w.Body)
		}
		y.do("POST", "/api/v1/nodes/gpu-1/resume", "", 200, &got)
		if len(got.Data) != 2 || got.Data[0].PausedUntil != nil || got.Data[0].Status != -2 {
			t.Errorf("%+v", got.Data)
		}
	})
	bubble(t, "with a body that is none", func(t *testing.T, y *yard) {
		for body, status := range map[string]int{
			`{"for":"2 hours"}`: 400, `{"for":"-2h"}`: 400, `{"for":"0s"}`: 400, `{"for":2}`: 400, `{"until":"x"}`: 400, `[]`: 400, `{"for":"1h"`: 400,
			`{"for":"1h","for":"2h"}`: 400, strings.Repeat(" ", 5000): 413,
		} {
			for _, path := range []string{"/api/v1/nodes/gpu-1/pause", "/api/v1/slots/gemma/drain"} {
				y.do("POST", path, body, status, nil)
			}
		}
		y.do("POST", "/api/v1/nodes/gpu-1/resume", `{"for":"2h"}`, 400, nil)
		var got slotAnswer
		y.do("GET", "/api/v1/slots/gemma", "", 200, &got)
		if got.Data.PausedUntil != nil || got.Data.Drained {
			t.Errorf("an order that was refused holds: %+v", got.Data)
		}
	})
	bubble(t, "that are none", func(t *testing.T, y *yard) {
		y.do("POST", "/api/v1/slots/gemma/explode", "", 404, nil)
		y.do("POST", "/api/v1/nodes/gpu-1/wake", "", 404, nil)
		y.do("GET", "/api/v1/slots/gemma/wake", "", 405, nil)
		y.do("POST", "/api/v1/slots", "", 405, nil)
		y.do("DELETE", "/api/v1/slots/gemma", "", 405, nil)
	})
}

// describe is a slot in a few words.
func describe(s slotJSON) string {
	words := []string{s.State, map[int]string{0: "0", -1: "-1", -2: "-2", -3: "-3", -10: "-10"}[s.Status]}
	if s.Disabled {
		words = append(words, "disabled")
	}
	if s.Drained {
		words = append(words, "drained")
	}
	return strings.Join(words, " ")
}

func TestSlots_OrderErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"a slot that has just gone":     {slot.ErrNoSlot, 404, "there is no slot gemma; there are gemma, qwen"},
		"a reason in words":             {errors.New("the slot is disabled: enable it first"), 409, "the slot is disabled: enable it first"},
		"a reason without end":          {errors.New(strings.Repeat("no ", 5000)), 409, "no no"},
		"a reason that steers":          {errors.New("no \x1b[31m"), 409, `no \x1b[31m`},
		"an order that is not kept":     {&hearth.Error{Type: hearth.ErrInternal, Message: "a restart will forget it", Err: io.ErrShortWrite}, 500, "a restart will forget it"},
		"an error that says who leaves": {context.Canceled, 409, "context canceled"},
	} {
		bubble(t, name, func(t *testing.T, y *yard) {
			y.Order = func(_ context.Context, o slot.Order) error {
				if o != (slot.Order{Slot: "gemma", Verb: slot.Wake}) {
					t.Errorf("order %+v", o)
				}
				return c.err
			}
			w, ended := y.operator(t.Context(), "POST", "/api/v1/slots/gemma/wake", "")
			<-ended
			if w.Code != c.status || len(w.Body.String()) > 1000 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if body := strings.ReplaceAll(w.Body.String(), `\\`, `\`); !strings.Contains(body, c.says) || strings.Contains(body, "short write") {
				t.Errorf("%s", body)
			}
		})
	}
}
