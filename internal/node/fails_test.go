package node

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

func TestInfer_EngineFails(t *testing.T) {
	t.Run("before an answer", func(t *testing.T) {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			w.engines.down.Store(true)
			status, answer, err := w.chat(w.a)
			if err != nil || status != http.StatusBadGateway || !strings.Contains(answer, "does not answer") || strings.Contains(answer, "refused") {
				t.Errorf("%d %s %v", status, answer, err)
			}
			if w.client.View("a").Unknown {
				t.Error("the machine is taken for lost")
			}
		})
	})
	t.Run("in its answer", func(t *testing.T) {
		engine := func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "data: 0\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		bubble(t, setup{engine: engine}, func(t *testing.T, w *world) {
			status, answer, err := w.chat(w.a)
			if err == nil || word(err) != "" || status != 200 || answer != "data: 0\n\n" {
				t.Errorf("%d %q %v", status, answer, err)
			}
			if w.client.View("a").Unknown {
				t.Error("the machine is taken for lost")
			}
		})
	})
	dies := func(begins bool) (word hearth.SkipReason, answer string) {
		var w *world
		engine := func(rw http.ResponseWriter, _ *http.Request) {
			if begins {
				fmt.Fprint(rw, "data: 0\n\n")
				_ = http.NewResponseController(rw).Flush()
			}
			time.AfterFunc(deathNews/2, func() { _ = w.gpus.list[0].Stop(w.t.Context(), 0) })
			panic(http.ErrAbortHandler)
		}
		bubble(t, setup{engine: engine}, func(t *testing.T, here *world) {
			w = here
			_, text, err := w.chat(w.a)
			r, ok := errors.AsType[*slot.Refusal](err)
			if !ok || r.Message != ended {
				t.Fatalf("%v", err)
			}
			if w.client.View("a").Unknown {
				t.Error("the machine is taken for lost")
			}
			word, answer = r.Word, text
		})
		return word, answer
	}
	t.Run("it ends before an answer", func(t *testing.T) {
		if word, _ := dies(false); word != hearth.SkipFailed {
			t.Error(word)
		}
	})
	t.Run("it ends in its answer", func(t *testing.T) {
		if word, answer := dies(true); word != hearth.SkipFailed || answer != "data: 0\n\n" {
			t.Error(word, answer)
		}
	})
	t.Run("a kept connection that the engine has closed", func(t *testing.T) {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			for i := range 3 {
				if status, answer, err := w.chat(w.a); err != nil || status != 200 {
					t.Fatalf("%d: %d %s %v", i, status, answer, err)
				}
				w.engines.cut()
			}
		})
	})
}

// An engine may close a kept connection in the moment in which the next request is sent on it. A request whose body is held
// is sent again; a large one has a connection of its own.
func TestInfer_KeptConnectionCloses(t *testing.T) {
	var closed atomic.Int64
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Context().Value(turns{}).(*atomic.Int64).Add(1) > 1 {
			closed.Add(1)
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "ok")
	}
	for name, c := range map[string]struct {
		size   int
		closed int64
	}{"held": {smallBody, 2}, "large": {smallBody + 1, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{engine: engine}, func(t *testing.T, w *world) {
				closed.Store(0)
				for i := range 3 {
					l, err := w.lease(w.a)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := w.post(t.Context(), l, chat, strings.NewReader(strings.Repeat("x", c.size)))
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || resp.StatusCode != 200 || string(b) != "ok" {
						t.Errorf("%d: %d %q %v", i, resp.StatusCode, b, err)
					}
				}
				if n := closed.Load(); n != c.closed {
					t.Errorf("%d requests came on a kept connection, want %d", n, c.closed)
				}
			})
		})
	}
}

// An engine that is done is free, however long the end of its answer takes to the gateway.
func TestInfer_EngineIsDone(t *testing.T) {
	engine := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(readAhead+1))
		_, _ = w.Write(make([]byte, readAhead+1)) // one byte more than is read ahead of the gateway
	}
	bubble(t, setup{engine: engine, stall: 10 * time.Second}, func(t *testing.T, w *world) {
		l, err := w.lease(w.a)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.post(t.Context(), l, chat, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		wait(5 * time.Second)
		if n := w.inflight(0); n != 0 {
			t.Errorf("%d in flight", n)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != readAhead+1 {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}
