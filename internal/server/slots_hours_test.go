package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// TestSlots_Hours: a node outside of its hours says until when, and is woken by nobody.
func TestSlots_Hours(t *testing.T) {
	bubble(t, "a reload takes the hours in which it is", func(t *testing.T, y *yard) { // a bubble begins at midnight
		var got struct {
			Data []slotJSON `json:"data"`
		}
		y.do("GET", "/api/v1/slots", "", 200, &got)
		if got.Data[0].ShutUntil != nil || got.Data[0].Status != -2 {
			t.Errorf("before: %+v", got.Data[0])
		}
		next := *y.Catalog
		node := *next.Nodes[0]
		node.Available = hearth.Calendar{Spans: []hearth.Span{{Days: hearth.Week, From: 9 * time.Hour, To: 19 * time.Hour}}}
		next.Nodes, next.Slots = []*hearth.Node{&node}, nil
		for _, s := range y.Catalog.Slots {
			conf := *s
			conf.Node, conf.Companion, conf.Devices, conf.Memory = &node, true, []int{0}, 1<<30
			next.Slots = append(next.Slots, &conf)
		}
		if err := y.Fleet.Reload(&next); err != nil {
			t.Fatal(err)
		}
		y.Catalog = &next
		y.do("GET", "/api/v1/slots", "", 200, &got)
		nine := time.Now().Add(9 * time.Hour)
		for _, s := range got.Data {
			if s.ShutUntil == nil || !s.ShutUntil.Equal(nine) || s.Status != -10 || !s.Companion || len(s.Devices) != 1 || s.Memory != 1<<30 {
				t.Errorf("%+v", s)
			}
		}
		w, ended := y.operator(t.Context(), "POST", "/api/v1/slots/gemma/wake", "")
		if <-ended; w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "the node is outside of its hours until 2000-01-01T09:00:00Z") {
			t.Errorf("wake: %d %s", w.Code, w.Body)
		}
		pass(9*time.Hour + time.Second)
		y.do("GET", "/api/v1/slots", "", 200, &got)
		if got.Data[0].ShutUntil != nil || got.Data[0].Status != -2 {
			t.Errorf("at nine: %+v", got.Data[0])
		}
	})
}
