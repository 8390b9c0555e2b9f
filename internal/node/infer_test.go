package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

func TestInfer(t *testing.T) {
	var got *http.Request
	var body []byte
	answering := func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Engine", "secret")
		w.Header().Set(headStatus, "slot_failed")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "an answer")
	}
	bubble(t, setup{load: 3 * time.Second, engine: answering}, func(t *testing.T, w *world) {
		l, err := w.lease(w.a)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{"x":1}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusTeapot || string(b) != "an answer" {
			t.Errorf("%d %s %v", resp.StatusCode, b, err)
		}
		if took := time.Since(began); took < 3*time.Second || l.Waited() < 3*time.Second || l.Waited() > took {
			t.Errorf("waited %s of %s for an engine that loads 3 s", l.Waited(), took)
		}
		for name := range resp.Header {
			if name != "Content-Type" && name != "Content-Length" && name != "Date" {
				t.Errorf("header %s reaches the gateway", name)
			}
		}
		if got.URL.Path != chat || got.Method != http.MethodPost || string(body) != `{"x":1}` {
			t.Errorf("the engine got %s %s %s", got.Method, got.URL, body)
		}
		for name, v := range got.Header {
			want := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer engine-key", "User-Agent": "hearth-node", "Content-Length": "7"}
			if want[name] != v[0] {
				t.Errorf("the engine got %s: %v", name, v)
			}
		}
	})
}

// Each piece of an answer comes as soon as the engine has made it, and the place comes back at its end.
func TestInfer_Streams(t *testing.T) {
	var beat chan struct{} // made in the bubble, whose time stands still for others
	engine := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			<-beat
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	}
	bubble(t, setup{engine: engine}, func(t *testing.T, w *world) {
		beat = make(chan struct{})
		l, err := w.lease(w.a)
		if err != nil {
			t.Fatal(err)
		}
		go func() { beat <- struct{}{} }()
		resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 100)
		for i := range 3 {
			if n, err := resp.Body.Read(buf); err != nil || string(buf[:n]) != fmt.Sprintf("data: %d\n\n", i) {
				t.Fatalf("%q, %v", buf[:n], err)
			}
			if i < 2 {
				if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 1 {
					t.Errorf("%d in flight", v.Inflight)
				}
				beat <- struct{}{}
			}
		}
		if _, err := resp.Body.Read(buf); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
		synctest.Wait()
		if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 0 {
			t.Errorf("%d in flight after the end", v.Inflight)
		}
	})
}

// block is an engine that answers a piece and then nothing until its caller leaves.
func block(left *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: 0\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left.Add(1)
	}
}

// A gateway that leaves frees the engine, or the place in the queue, however much of its body is unread.
func TestInfer_Leaves(t *testing.T) {
	var left atomic.Int64
	bubble(t, setup{engine: block(&left), change: func(s *hearth.Slot) { s.Concurrency, s.Queue, s.Node.Exclusive = 1, 80, false }}, func(t *testing.T, w *world) {
		ctx, leave := context.WithCancel(t.Context())
		l, _ := w.lease(w.a)
		resp, err := w.post(ctx, l, chat, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		large := bytes.Repeat([]byte("x"), 700<<10)
		waiting, stop := context.WithCancel(t.Context())
		failed := make(chan error, 40)
		for range 40 { // together more than a connection holds unread, were it not for its bounds
			go func() {
				l, _ := w.lease(w.a)
				_, err := w.post(waiting, l, chat, bytes.NewReader(large))
				failed <- err
			}()
		}
		synctest.Wait()
		if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 1 || v.Waiting != 40 {
			t.Fatalf("%d in flight, %d wait", v.Inflight, v.Waiting)
		}
		beside, _ := w.lease(w.b)
		in, out := context.WithTimeout(t.Context(), time.Minute)
		other, err := w.post(in, beside, chat, strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Errorf("a request to a free engine is held up by those that wait: %v", err)
		} else {
			other.Body.Close()
		}
		out()
		stop()
		for range 40 {
			if err := <-failed; !errors.Is(err, context.Canceled) || word(err) != "" {
				t.Fatalf("who left got %v", err)
			}
		}
		synctest.Wait()
		if v := w.fleet.View(w.cat.Slots[0]); v.Waiting != 0 || v.Inflight != 1 {
			t.Errorf("%d still wait", v.Waiting)
		}
		leave()
		synctest.Wait()
		if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 0 || left.Load() != 2 {
			t.Errorf("%d in flight; the engines were left by %d", v.Inflight, left.Load())
		}
		if v := w.client.View("a"); v.Unknown {
			t.Errorf("leaving is taken for a loss: %s", v.LastError)
		}
	})
}

// A gateway that dies frees all that it had. Its streams end one after the other: one that waits may still be let in for a
// moment, by the place of one that has ended, and leaves then.
func TestInfer_GatewayDies(t *testing.T) {
	var left atomic.Int64
	bubble(t, setup{engine: block(&left), change: func(s *hearth.Slot) { s.Concurrency = 1 }}, func(t *testing.T, w *world) {
		got := make(chan error, 3)
		for range 3 {
			go func() {
				l, _ := w.lease(w.a)
				resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{}`))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				got <- err
			}()
		}
		synctest.Wait()
		w.wire.cut()
		for range 3 {
			if err := <-got; word(err) != hearth.SkipFailed {
				t.Errorf("the gateway's side: %v", err)
			}
		}
		synctest.Wait()
		if v, asked := w.fleet.View(w.cat.Slots[0]), w.asked.Load(); v.Inflight != 0 || v.Waiting != 0 || asked == 0 || left.Load() != asked {
			t.Errorf("%d in flight, %d wait, the engine was asked by %d and left by %d", v.Inflight, v.Waiting, asked, left.Load())
		}
	})
}

func TestInfer_Words(t *testing.T) {
	bubble(t, setup{load: 50 * time.Second, change: func(s *hearth.Slot) { s.Queue, s.Concurrency = 0, 1 }}, func(t *testing.T, w *world) {
		began := time.Now()
		_, _, err := w.chat(w.a, func(a *slot.Ask) { a.Budget = 2 * time.Second })
		r, ok := errors.AsType[*slot.Refusal](err)
		if !ok || r.Word != hearth.SkipLoading || r.RetryAfter < time.Second || r.Message == "" {
			t.Fatalf("%v", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("refused after %s of a budget of 2 s", took)
		}
		first := make(chan error, 1)
		go func() { _, _, err := w.chat(w.a); first <- err }()
		synctest.Wait()
		if _, _, err := w.chat(w.a); word(err) != hearth.SkipQueueFull {
			t.Errorf("%v", err)
		}
		if err := w.client.Order(t.Context(), slot.Order{Slot: "a", Verb: slot.Drain}); err != nil {
			t.Fatal(err)
		}
		if err := <-first; word(err) != hearth.SkipFailed {
			t.Errorf("%v", err)
		}
		if w.asked.Load() != 0 {
			t.Error("the engine was asked")
		}
	})
}

// A body that is longer than it may be is refused, said beforehand or not, and is not held in memory.
func TestInfer_Bodies(t *testing.T) {
	var got atomic.Int64
	engine := func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Store(n)
	}
	bubble(t, setup{engine: engine, body: 300 << 10}, func(t *testing.T, w *world) {
		send := func(body io.Reader) (int, error) {
			l, err := w.lease(w.a)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.post(t.Context(), l, chat, body)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, err
		}
		long := bytes.Repeat([]byte("x"), 300<<10+1)
		if status, err := send(bytes.NewReader(long)); status != http.StatusRequestEntityTooLarge || w.gpus.starts() != 0 {
			t.Errorf("%d %v; %d engines were started for nothing", status, err, w.gpus.starts())
		}
		for name, body := range map[string]io.Reader{
			"of known length": bytes.NewReader(long), "of unknown length": io.MultiReader(bytes.NewReader(long)),
		} {
			if status, err := send(body); status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %d %v", name, status, err)
			}
		}
		for name, body := range map[string]io.Reader{
			"of known length": bytes.NewReader(long[1:]), "of unknown length": io.MultiReader(bytes.NewReader(long[1:])),
			"small": bytes.NewReader(long[:10]), "none": strings.NewReader(""),
		} {
			want := map[string]int64{"small": 10, "none": 0}
			size, ok := want[name]
			if !ok {
				size = 300 << 10
			}
			if status, err := send(body); status != 200 || got.Load() != size {
				t.Errorf("%s: %d %v, the engine got %d bytes of %d", name, status, err, got.Load(), size)
			}
		}
		synctest.Wait()
		if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 0 {
			t.Errorf("%d in flight", v.Inflight)
		}
	})
}

// Who stops in the middle of its body, or does not take its answer, holds the engine for the stall time at most.
func TestInfer_Stalls(t *testing.T) {
	t.Run("body", func(t *testing.T) {
		reads := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
		bubble(t, setup{stall: 5 * time.Second, engine: reads}, func(t *testing.T, w *world) {
			for name, size := range map[string]int64{"small": 100, "large": 100 << 10} {
				l, _ := w.lease(w.a)
				r, wr := io.Pipe()
				req, _ := http.NewRequest(http.MethodPost, l.URL+chat, r)
				req.ContentLength = size
				req.Header.Set("Authorization", "Bearer "+token)
				go func() { _, _ = wr.Write([]byte("half")) }()
				began := time.Now()
				resp, err := l.Transport.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				if took := time.Since(began); took > 6*time.Second || word(err) != hearth.SkipFailed || errors.Is(err, slot.ErrUnsent) {
					t.Errorf("%s: held for %s: %v", name, took, err)
				}
				wr.Close()
				synctest.Wait()
				if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 0 {
					t.Errorf("%s: %d in flight", name, v.Inflight)
				}
			}
		})
	})
	t.Run("answer", func(t *testing.T) {
		engine := func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}
		bubble(t, setup{engine: engine, stall: 5 * time.Second}, func(t *testing.T, w *world) {
			l, _ := w.lease(w.a)
			resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			wait(4 * time.Second)
			if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 1 {
				t.Errorf("%d in flight before the time is over", v.Inflight)
			}
			wait(2 * time.Second)
			synctest.Wait()
			if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 0 {
				t.Errorf("%d in flight", v.Inflight)
			}
			if w.client.View("a").Unknown {
				t.Error("the machine is not known: its views waited behind the answer")
			}
		})
	})
}

// An engine may take its time over a body that has come whole, also where a deadline is the connection's.
func TestInfer_BodyHasCome(t *testing.T) {
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(time.Minute):
			fmt.Fprint(w, "ok")
		case <-r.Context().Done():
		}
	}
	for _, size := range []int{10, 2 * smallBody} {
		bubble(t, setup{engine: engine, stall: 5 * time.Second}, func(t *testing.T, w *world) {
			tr := &http.Transport{DialContext: w.wire.dial} // speaks HTTP/1
			defer tr.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://machine/v1/slots/a"+chat, strings.NewReader(strings.Repeat("x", size)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set(headBudget, "1000")
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok" || resp.ProtoMajor != 1 {
				t.Errorf("%d bytes: %s %q %v", size, resp.Status, b, err)
			}
		})
	}
}

// Of several slots that would do, one that is ready serves.
func TestAcquire_Also(t *testing.T) {
	bubble(t, setup{load: 30 * time.Second, change: func(s *hearth.Slot) { s.Concurrency = 1 }}, func(t *testing.T, w *world) {
		if err := w.client.Order(t.Context(), slot.Order{Slot: "b", Verb: slot.Wake}); err != nil {
			t.Fatal(err)
		}
		both := func(a *slot.Ask) { a.Also = []*hearth.Slot{w.b} }
		if l, err := w.lease(w.a, both); err != nil || l.Slot != w.a {
			t.Errorf("nothing is ready: %v %v", l, err)
		}
		wait(2 * time.Minute)
		synctest.Wait()
		l, err := w.lease(w.a, both)
		if err != nil || l.Slot != w.b || !strings.HasSuffix(l.URL, "/v1/slots/b") {
			t.Errorf("%v %v", l, err)
		}
		if l, err := w.lease(w.a); err != nil || l.Slot != w.a {
			t.Errorf("the other one does not do: %v %v", l, err)
		}
	})
}
