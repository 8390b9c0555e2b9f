package relay

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/upstream"
)

// switched is an upstream that can be made to fail.
type switched struct{ down bool }

func (u *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	quick(w, r)
}

// TestSession_UnderOrder: a named conversation stays where its cache is, inside the providers that the caller has named.
func TestSession_UnderOrder(t *testing.T) {
	ups := []*switched{{}, {}, {}}
	w := &world{key: &hearth.Key{ID: "key-1"}}
	cat := tierOf(t, 3, serve(t, ups[0]), serve(t, ups[1]), serve(t, ups[2]))
	w.open(t, setup{}, cat)
	w.byCost(time.Now())
	w.url = serve(t, w)
	goes := func(what, more, want string, header ...string) {
		t.Helper()
		a := w.post(t, chat(`, "provider": {"order": ["provider-a", "provider-b"]}`+more), header...)
		if a.status != 200 || a.header.Get("X-Myip-Provider") != want {
			t.Fatalf("%s: %d from %q, want %s\n%s", what, a.status, a.header.Get("X-Myip-Provider"), want, a.body)
		}
		w.relay.router.Refresh(time.Now())
		if noted := strings.Contains(a.header.Get("X-Myip-Note"), "the session stays"); noted != strings.Contains(what, "stays") {
			t.Errorf("%s: note %q", what, a.header.Get("X-Myip-Note"))
		}
	}
	const mine = `, "session_id": "mine"`
	goes("at first the first", mine, "Provider A")
	ups[0].down = true
	goes("the first is down", mine, "Provider B")
	ups[0].down = false
	goes("the session stays", mine, "Provider B")
	goes("and stays by its header", "", "Provider B", "X-Session-Id", "mine")
	goes("another session", `, "session_id": "other"`, "Provider A")
	goes("no session is named", "", "Provider A")
	w.key = &hearth.Key{ID: "key-2"}
	goes("the same name, of another key", mine, "Provider A")
	w.key = &hearth.Key{ID: "key-1"}
	ups[1].down = true
	goes("where the session stays is down", mine, "Provider A")
	ups[1].down = false
	goes("it has moved for good", mine, "Provider A")
}

// cacher is an upstream whose answers tell of a cache that held most of the prompt.
type cacher struct{ down bool }

func (u *cacher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":90}}}`)
}

// TestSession_UnnamedUnderOrder: a conversation that nobody has named moves nothing in the caller's own order, even where it is
// known that its cache is elsewhere.
func TestSession_UnnamedUnderOrder(t *testing.T) {
	ups := []*cacher{{}, {}}
	w := &world{key: &hearth.Key{ID: "key-1"}}
	w.open(t, setup{}, tierOf(t, 2, serve(t, ups[0]), serve(t, ups[1])))
	w.byCost(time.Now())
	w.url = serve(t, w)
	goes := func(what, more, want string) {
		t.Helper()
		if a := w.post(t, chat(`, "provider": {"order": ["provider-a", "provider-b"]}`+more)); a.status != 200 || a.header.Get("X-Myip-Provider") != want {
			t.Errorf("%s: %d from %q, want %s\n%s", what, a.status, a.header.Get("X-Myip-Provider"), want, a.body)
		}
		w.relay.router.Refresh(time.Now())
	}
	ups[0].down = true
	goes("the first is down", "", "Provider B")
	armed := 0
	for _, s := range w.relay.router.State(time.Now()).Sessions {
		if s.Armed && strings.HasPrefix(s.Endpoint, "provider-b") {
			armed++
		}
	}
	if armed != 1 {
		t.Fatalf("%d conversations stick to the second; its cache is proven by the answer", armed)
	}
	ups[0].down = false
	goes("the first is back", "", "Provider A")
}

// TestKey_TimeValue: a key's value of time and its wish not to explore are the router's.
func TestKey_TimeValue(t *testing.T) {
	w := newMarket(t, 2, nil)
	per := func(k *hearth.Key) (kappa float64, explores bool) {
		t.Helper()
		x, err := w.relay.Explain([]byte(chat("")), k, "", "")
		if err != nil || x.Err != nil {
			t.Fatal(err, x.Err)
		}
		for _, terms := range x.Terms {
			kappa = terms.Wait
		}
		var r routed
		in := x.In
		in.Key = k
		w.relay.route(&in, &r, "gen")
		return kappa, !r.ask.NoExplore
	}
	usual, explores := per(&hearth.Key{ID: "k"})
	if usual <= 0 || !explores {
		t.Fatalf("%g, %v", usual, explores)
	}
	for _, c := range []struct {
		key  hearth.Key
		want float64 // of the model's 1.5
	}{
		{hearth.Key{Kappa: 3000}, 2}, {hearth.Key{Class: hearth.Batch}, 0.1 / 1.5}, {hearth.Key{Class: hearth.Batch, Kappa: 1500, NoExplore: true}, 1},
	} {
		got, explores := per(&c.key)
		if ratio := got / usual / c.want; ratio < 0.999 || ratio > 1.001 || explores == c.key.NoExplore {
			t.Errorf("%+v: waiting costs %g times the usual, want %g; explores %v", c.key, got/usual, c.want, explores)
		}
	}
}

// TestPaced: what a slow caller makes of a stream says nothing of how fast the endpoint is.
func TestPaced(t *testing.T) {
	first := time.Now()
	for name, c := range map[string]struct {
		waited, took time.Duration
		paced        bool
	}{
		"a caller who keeps up":   {240 * time.Millisecond, 300 * time.Millisecond, false},
		"a long answer":           {900 * time.Millisecond, 10 * time.Second, false},
		"a slow caller":           {2 * time.Second, 10 * time.Second, true},
		"a slow caller, in short": {300 * time.Millisecond, 400 * time.Millisecond, true},
	} {
		x, o := &exchange{}, &outcome{stream: &upstream.Stream{FirstAt: first, LastAt: first.Add(c.took), Waited: c.waited}}
		o.stream.Usage = hearth.Usage{PromptTokens: 10, CompletionTokens: 10, Reported: true}
		o.health = health.Success
		if res := x.result(o); res.Paced != c.paced || res.Out != 10 || !o.ended().Equal(first.Add(c.took)) {
			t.Errorf("%s: %+v, ended %v", name, res, o.ended().Sub(first))
		}
	}
	w := newMarket(t, 1, nil)
	r := w.relay.router
	rest := func() float64 { return r.Overview(model, first.Add(time.Minute))[0].Rest }
	before := rest()
	for i := range 30 {
		try := r.Begin(&routing.Ask{In: 10, Stream: true}, 0, routing.Only, first.Add(time.Duration(i)*time.Second))
		try.First(first.Add(time.Duration(i)*time.Second + 100*time.Millisecond))
		try.Done(routing.Result{In: 10, Out: 500, Paced: true}, first.Add(time.Duration(i+100)*time.Second))
	}
	r.Refresh(first.Add(time.Minute))
	if after := rest(); after > before*1.01 {
		t.Errorf("the rest of an answer takes %g s, %g before", after, before)
	}
}
