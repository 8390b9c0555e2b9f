package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// The queue of a slot on another machine is as fair as one at home.
func TestInfer_Fair(t *testing.T) {
	var order []string
	var next chan struct{} // of the bubble
	engine := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, chat) {
			_, _ = io.WriteString(w, "{}")
			return
		}
		order = append(order, string(b))
		<-next
		_, _ = io.WriteString(w, "{}")
	}
	bubble(t, setup{engine: engine, change: func(s *hearth.Slot) { s.Concurrency = 1 }}, func(t *testing.T, w *world) {
		next = make(chan struct{})
		ask := func(body, key string, class hearth.Class) {
			l, err := w.lease(w.a, func(a *slot.Ask) { a.Key, a.Class, a.Generation = key, class, body })
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				resp, err := w.post(t.Context(), l, chat, strings.NewReader(body))
				if err != nil {
					t.Errorf("%s: %v", body, err)
					return
				}
				_ = resp.Body.Close()
				l.Release()
			}()
			synctest.Wait()
		}
		ask("first", "a", "")
		for _, q := range []struct {
			body, key string
			class     hearth.Class
		}{{"night 1", "n", hearth.Batch}, {"a 1", "a", ""}, {"a 2", "a", ""}, {"b 1", "b", ""}} {
			ask(q.body, q.key, q.class)
		}
		for range 5 {
			next <- struct{}{}
			synctest.Wait()
		}
		if d := cmp.Diff([]string{"first", "a 1", "b 1", "a 2", "night 1"}, order); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if n := w.fleet.View(w.cat.Slots[0]).Learned.Service.N; n != 5 {
			t.Errorf("%d service times are learned", n)
		}
		l, _ := w.lease(w.a)
		if resp, err := w.post(t.Context(), l, "/tokenize", strings.NewReader("{}")); err != nil {
			t.Error(err)
		} else {
			_ = resp.Body.Close()
		}
		synctest.Wait()
		if n := w.fleet.View(w.cat.Slots[0]).Learned.Service.N; n != 5 {
			t.Errorf("the counting of a prompt is learned as a service time: %d", n)
		}
	})
}

// A machine can tell keys apart, and learns nothing else of them.
func TestCarrier_Key(t *testing.T) {
	label := func(a slot.Ask) http.Header {
		c := &carrier{ask: a, slot: &hearth.Slot{Model: &hearth.Model{ID: "x/a"}}, asked: time.Now()}
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://machine/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.labelled(r).Header
	}
	const id = "key-01J00000000000000000000000"
	one, same, other := label(slot.Ask{Key: id}), label(slot.Ask{Key: id}), label(slot.Ask{Key: id + "1"})
	if k := one.Get(headKey); len(k) != 32 || strings.Contains(k, "key") || k != same.Get(headKey) || k == other.Get(headKey) {
		t.Errorf("%q, %q, %q", k, same.Get(headKey), other.Get(headKey))
	}
	if h := label(slot.Ask{}); h.Get(headKey) != "" || h.Get(headClass) != "" {
		t.Errorf("without a key: %v", h)
	}
	if got := label(slot.Ask{Key: id, Class: hearth.Batch}).Get(headClass); got != "batch" {
		t.Errorf("class %q", got)
	}
}
