package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// machine lets f have a lease of a machine that has slot a, ready, and does as h with requests for it.
func machine(t *testing.T, h http.HandlerFunc, f func(*Client, *slot.Lease)) {
	t.Helper()
	views := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `data: {"number":1,"slots":[{"name":"a","model":"x/a","state":"ready"}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	hostile(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == viewsPath {
			views(w, r)
		} else {
			h(w, r)
		}
	}, func(c *Client) {
		at := (*c.conf.Load())["a"]
		l, err := c.Acquire(context.Background(), slot.Ask{Slot: at, Budget: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		f(c, l)
	})
}

// exchanged sends a request by a lease and reads what comes.
func exchanged(t *testing.T, l *slot.Lease) (answer string, sent *http.Request, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.URL+chat, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.Transport.RoundTrip(r)
	if err != nil {
		return "", r, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b)), r, err
}

// What a machine says of a request is believed within bounds.
func TestCarrier_HostileMachine(t *testing.T) {
	says := func(status int, text string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	for name, c := range map[string]struct {
		does   http.HandlerFunc
		answer string
		retry  time.Duration // of the refusal, 0 = it is none
	}{
		"it waited for longer than it took": {says(200, "ok", headWaited, "3600000"), "200 ok", 0},
		"a slot word with an answer":        {says(200, "ok", headStatus, "slot_busy"), "200 ok", 0},
		"a word that is none":               {says(503, "no", headStatus, "slot_gone"), "503 no", 0},
		"come back in a year":               {says(503, "", headStatus, "slot_busy", "Retry-After", "31536000"), "", time.Hour},
		"come back yesterday":               {says(503, "", headStatus, "slot_busy", "Retry-After", "-86400"), "", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			machine(t, c.does, func(_ *Client, l *slot.Lease) {
				answer, _, err := exchanged(t, l)
				r, refused := err.(*slot.Refusal)
				if answer != c.answer || refused != (c.retry > 0) || !refused && err != nil || refused && (r.RetryAfter != c.retry || r.Word != hearth.SkipBusy) {
					t.Errorf("%q, %+v", answer, err)
				}
				if l.Waited() != 0 {
					t.Errorf("waited %v", l.Waited())
				}
			})
		})
	}
}

// The machine is told what of the budget is left when the request is sent, and the gateway's own request stays as it is.
func TestCarrier_Budget(t *testing.T) {
	for _, c := range []struct {
		later time.Duration
		want  string
	}{{0, "30000"}, {10 * time.Second, "20000"}, {time.Hour, "0"}} {
		var told string
		machine(t, func(_ http.ResponseWriter, r *http.Request) { told = r.Header.Get(headBudget) }, func(_ *Client, l *slot.Lease) {
			wait(c.later)
			_, sent, err := exchanged(t, l)
			if err != nil || told != c.want || len(sent.Header) != 0 {
				t.Errorf("after %v: budget %q, %v; sent with %v", c.later, told, err, sent.Header)
			}
		})
	}
}

// A request that does not get through says at once what the next picture would say later.
func TestCarrier_Lost(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		l, err := w.lease(w.a)
		if err != nil {
			t.Fatal(err)
		}
		before := w.client.sight.Load()
		w.wire.down.Store(true) // the connection of the pictures is there yet
		resp, err := w.post(t.Context(), l, chat, strings.NewReader("{}"))
		if word(err) != hearth.SkipFailed {
			t.Fatalf("%v, %v", resp, err)
		}
		if v := w.client.View("a"); !v.Unknown || !strings.Contains(v.LastError, "did not get through") || !v.Since.Equal(before.at) {
			t.Errorf("%+v", v)
		}
		wait(stale)
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown {
			t.Errorf("the next picture changes nothing: %+v", v)
		}
	})
}

// Why a machine is not known is not forgotten for a request that does not get through either.
func TestCarrier_LostBefore(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		l, err := w.lease(w.a)
		if err != nil {
			t.Fatal(err)
		}
		w.crash()
		wait(time.Second)
		synctest.Wait()
		why := w.client.View("a").LastError
		if _, err := w.post(t.Context(), l, chat, strings.NewReader("{}")); word(err) != hearth.SkipFailed {
			t.Error(err)
		}
		if v := w.client.View("a"); v.LastError != why || why == "" {
			t.Errorf("%q, and then %q", why, v.LastError)
		}
	})
}

// A client that has been closed knows nothing and says why.
func TestClient_Closed(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		if err := w.client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := w.client.View("a"); !v.Unknown || !strings.Contains(v.LastError, unfollowed) {
			t.Errorf("%+v", v)
		}
		if _, err := w.lease(w.a); word(err) != hearth.SkipLoading {
			t.Errorf("a lease: %v", err)
		}
	})
}
