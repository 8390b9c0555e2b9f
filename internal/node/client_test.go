package node

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// bubble runs f in virtual time with a world that follows its machine.
func bubble(t *testing.T, s setup, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		defer w.end()
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown {
			t.Fatalf("the machine is not known: %s", v.LastError)
		}
		for range 2 { // both slots are known now
			if e := <-w.events; e.View.Unknown || e.Node != "gpu-2" || e.From != e.To || e.Why != "the machine answers" {
				t.Errorf("event %+v", e)
			}
		}
		f(t, w)
	})
}

func TestClient_Silence(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		wait(time.Minute)
		synctest.Wait()
		if w.client.View("a").Unknown {
			t.Fatal("a machine that speaks is not known")
		}
		last := w.client.sight.Load().at
		w.wire.freeze()
		w.wire.down.Store(true)
		wait(time.Until(last.Add(stale - time.Millisecond)))
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown {
			t.Errorf("not known before two seconds are over: %s", v.LastError)
		}
		wait(2 * time.Millisecond)
		if v := w.client.View("a"); !v.Unknown || v.Status() != -5 {
			t.Errorf("%s after the last word still known: %+v", time.Since(last), v)
		}
		if _, err := w.lease(w.a); word(err) != hearth.SkipFailed || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("a request may be sent to nobody: %v", err)
		}
	})
}

func TestClient_Loss(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		began := time.Now()
		w.crash()
		synctest.Wait()
		if v := w.client.View("a"); !v.Unknown || time.Since(began) != 0 {
			t.Errorf("a connection that broke is not noticed at once: %+v", v)
		}
		seen := <-w.events
		if !seen.View.Unknown || seen.Node != "gpu-2" || !strings.Contains(seen.Why, "does not answer") {
			t.Errorf("event %+v", seen)
		}
		wait(time.Minute)
		w.wire.down.Store(false)
		back := time.Now()
		for w.client.View("a").Unknown {
			wait(10 * time.Millisecond)
			synctest.Wait()
			if time.Since(back) > retryMost+time.Second {
				t.Fatal("it came back and is not found")
			}
		}
		if n := w.wire.dials.Load(); n > 60 {
			t.Errorf("%d attempts to connect in a minute", n)
		}
		if status, answer, err := w.chat(w.a); err != nil || status != 200 {
			t.Errorf("%d %s %v", status, answer, err)
		}
	})
}

// A slow network delays what a machine says. What it said two seconds ago counts for nothing.
func TestClient_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := 1500 * time.Millisecond
		c := &Client{name: "gpu-2"}
		conf := map[string]*hearth.Slot{}
		c.conf.Store(&conf)
		c.log = discard()
		c.sight.Store(&sight{lost: "nothing yet"})
		began := time.Now()
		wait(delay)
		c.take(&picture{Number: 1, At: 0}, began)
		if why := c.sight.Load().unknown(time.Now()); why != "" {
			t.Errorf("a picture that is %s old: %s", delay, why)
		}
		wait(stale - delay + 1)
		if c.sight.Load().unknown(time.Now()) == "" {
			t.Error("a picture of more than two seconds counts")
		}
		c.take(&picture{Number: 2, At: time.Since(began).Milliseconds() - 2001}, began)
		if c.sight.Load().unknown(time.Now()) == "" {
			t.Error("a picture that came too late counts")
		}
		c.take(&picture{Number: 3, At: time.Since(began).Milliseconds() + 3_600_000}, began)
		if at := c.sight.Load().at; at.After(time.Now()) {
			t.Errorf("a picture of the future: %s", at)
		}
	})
}

func TestClient_Rotates(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		dials := w.wire.dials.Load()
		for range 4 * viewsLast / (100 * time.Millisecond) / 2 {
			wait(200 * time.Millisecond)
			synctest.Wait()
			if w.client.View("a").Unknown {
				t.Fatal("not known while it changes over to another stream")
			}
		}
		if n := w.wire.dials.Load() - dials; n != 0 {
			t.Errorf("%d new connections", n)
		}
		select {
		case e := <-w.events:
			t.Errorf("event %+v", e)
		default:
		}
	})
}

// hostile answers as h does where a hearth node should be.
func hostile(t *testing.T, h http.HandlerFunc, f func(c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newWire()
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		srv := &http.Server{Handler: h, Protocols: p}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(l) }()
		n := &hearth.Node{Name: "gpu-2", Remote: &hearth.Remote{URL: "http://machine", Token: token}}
		c, err := Dial(n, []*hearth.Slot{{Name: "a", Node: n, Model: &hearth.Model{ID: "x/a"}}}, ClientOptions{Dial: l.dial})
		if err != nil {
			t.Fatal(err)
		}
		c.Watch(func(slot.Event) {})
		wait(time.Second)
		synctest.Wait()
		f(c)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		_ = srv.Close()
		<-ended
	})
}

func TestClient_HostileMachine(t *testing.T) {
	stream := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, e := range events {
				fmt.Fprintf(w, "data: %s\n\n", e)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"no JSON":          stream(`hello`),
		"numbers repeat":   stream(`{"number":1,"slots":[]}`, `{"number":1,"slots":[]}`),
		"numbers skip":     stream(`{"number":1,"slots":[]}`, `{"number":3,"slots":[]}`),
		"begins at zero":   stream(`{"number":0,"slots":[]}`),
		"no list of slots": stream(`{"number":1,"slots":{}}`),
		"endless event": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "data: ")
			for range maxPicture>>10 + 1 {
				if _, err := w.Write([]byte(strings.Repeat("x", 1<<10))); err != nil {
					return
				}
			}
		},
		"another status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
		},
		"ends at once": func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			hostile(t, h, func(c *Client) {
				if v := c.View("a"); !v.Unknown {
					t.Errorf("known: %+v", v)
				}
			})
		})
	}
	t.Run("odd values", func(t *testing.T) {
		h := stream(`{"number":1,"at_ms":-9,"slots":[{"name":"a","model":"x/a","state":"flying","since_ms":-5,"load_rest_ms":9223372036854775807,"paused_ms":9223372036854775807}]}`)
		hostile(t, h, func(c *Client) {
			v := c.View("a")
			if v.State != hearth.SlotFailed || v.LoadRest <= 0 || v.Since.After(time.Now()) || v.Paused.Before(time.Now()) {
				t.Errorf("%+v", v)
			}
		})
	})
	t.Run("steps of a slot that is not configured", func(t *testing.T) {
		h := stream(`{"number":1,"slots":[{"name":"a","model":"x/a","state":"ready"}],"steps":[{"slot":"z","from":"asleep","to":"ready"}]}`)
		hostile(t, h, func(c *Client) {
			if v := c.View("a"); v.State != hearth.SlotReady {
				t.Errorf("%+v", v)
			}
		})
	})
	t.Run("the token is wrong", func(t *testing.T) {
		h := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
		hostile(t, h, func(c *Client) {
			if v := c.View("a"); !v.Unknown || !strings.Contains(v.LastError, errToken.Error()) {
				t.Errorf("%+v", v)
			}
		})
	})
}

func TestClient_View(t *testing.T) {
	bubble(t, setup{load: 3 * time.Second, model: "x/another"}, func(t *testing.T, w *world) {
		if v := w.client.View("a"); v.State != hearth.SlotFailed || !strings.Contains(v.LastError, "another model") {
			t.Errorf("a slot with another model: %+v", v)
		}
		if _, err := w.lease(w.a); word(err) != hearth.SkipFailed {
			t.Errorf("lease of another model: %v", err)
		}
		if v := w.client.View("c"); !v.Unknown {
			t.Errorf("a slot that is not configured: %+v", v)
		}
		if v := w.client.View("b"); v.State != hearth.SlotAsleep || v.Status() != -2 {
			t.Errorf("%+v", v)
		}
		if err := w.fleet.Order(t.Context(), slot.Order{Slot: "b", Verb: slot.Wake}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		v := w.client.View("b")
		if v.State != hearth.SlotStarting || v.LoadRest <= 0 || v.Status() != -1 {
			t.Errorf("a step is not told at once: %+v", v)
		}
		e := <-w.events
		if e.Slot != "b" || e.Model != "x/b" || e.From != hearth.SlotAsleep || e.To != hearth.SlotStarting || e.Why == "" || e.View.State != hearth.SlotStarting {
			t.Errorf("event %+v", e)
		}
		wait(400 * time.Millisecond)
		if later := w.client.View("b"); later.LoadRest >= v.LoadRest {
			t.Errorf("the rest of the load does not pass: %s, then %s", v.LoadRest, later.LoadRest)
		}
		wait(3 * time.Second)
		synctest.Wait()
		v = w.client.View("b")
		want := hearth.SlotFacts{Window: 4096, Parallel: 2, Model: "tiny"}
		if v.State != hearth.SlotReady || v.Facts != want || v.LoadTime < 3*time.Second || v.Loads != 1 {
			t.Errorf("%+v", v)
		}
		starts, err := w.client.Starts("b")
		if err != nil || len(starts) != 1 || starts[0].Outcome != slot.StartReady || starts[0].Took < 3*time.Second || time.Since(starts[0].At) > 4*time.Second {
			t.Errorf("%+v, %v", starts, err)
		}
	})
}

func TestClient_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &hearth.Node{Name: "gpu-2", Remote: &hearth.Remote{URL: "http://machine", Token: token}}
		c, err := Dial(n, nil, ClientOptions{Dial: newWire().dial})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err != nil { // as a reload does that fails before anybody watches
			t.Error(err)
		}
		if _, err := c.Acquire(t.Context(), slot.Ask{Slot: &hearth.Slot{Name: "a"}}); word(err) != hearth.SkipLoading {
			t.Errorf("%v", err)
		}
	})
}

func TestDial(t *testing.T) {
	for url, fails := range map[string]bool{
		"https://gpu-2.lan:8801": false, "http://10.0.0.2:8801": false, "unix:///run/hearth-node.sock": false,
		"ftp://gpu-2": true, "gpu-2:8801": true, "": true,
	} {
		_, err := Dial(&hearth.Node{Name: "n", Remote: &hearth.Remote{URL: url}}, nil, ClientOptions{})
		if (err != nil) != fails {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, file := range []string{"no-such-file", "client_test.go"} {
		if _, err := Dial(&hearth.Node{Remote: &hearth.Remote{URL: "https://x", CA: file}}, nil, ClientOptions{}); err == nil {
			t.Errorf("%s is a CA", file)
		}
	}
	_, err := houseDialer("")(t.Context(), "tcp", "8.8.8.8:443")
	if !errors.Is(err, errAway) {
		t.Errorf("a public address: %v", err)
	}
}
