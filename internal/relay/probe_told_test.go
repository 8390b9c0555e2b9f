package relay

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

// routedStage is a stage with a router by cost. Its endpoints share a priority.
func routedStage(t *testing.T, parts ...part) (*scene, *routing.Router) {
	t.Helper()
	s := stage(t, Options{ByCost: true}, parts...)
	for _, e := range s.cat.Endpoints {
		e.Priority = 0
	}
	r := routing.NewRouter(s.cat, routing.Options{}, time.Now())
	s.relay.router = r
	return s, r
}

// terms are what the router says of an endpoint now.
func terms(t *testing.T, r *routing.Router, endpoint int) routing.Terms {
	t.Helper()
	r.Refresh(time.Now())
	for _, w := range r.Overview(model, time.Now()) {
		if w.Endpoint == endpoint {
			return w
		}
	}
	t.Fatal("the router does not know it")
	return routing.Terms{}
}

// TestProbe_Told: health and the router learn from a probe what they would from a request.
func TestProbe_Told(t *testing.T) {
	bubble := func(name string, serve http.HandlerFunc, f func(*testing.T, *scene, *routing.Router)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := routedStage(t, free(serve), good)
				f(t, s, r)
			})
		})
	}
	probe := func(t *testing.T, s *scene, want string) Probed {
		t.Helper()
		p, ok := s.relay.Probe(t.Context(), s.cat.Endpoints[0])
		if !ok || p.Word() != want {
			t.Errorf("%v, %s instead of %s: %s", ok, p.Word(), want, p.Message)
		}
		return p
	}
	bubble("the key is refused", refuses(401, `{"error":{"message":"no such key"}}`), func(t *testing.T, s *scene, r *routing.Router) {
		before, log := terms(t, r, 0).Errors, new(strings.Builder)
		s.relay.log = slog.New(slog.NewTextHandler(log, nil))
		probe(t, s, "key_refused")
		if h := s.health.View()[0]; !h.Account || terms(t, r, 0).Errors <= before {
			t.Errorf("%+v, error rate %v after %v", h, terms(t, r, 0).Errors, before)
		}
		if !strings.Contains(log.String(), "a provider refuses our account") {
			t.Errorf("nobody is told: %s", log)
		}
	})
	bubble("a rate limit", refuses(429, `{}`, "Retry-After", "120"), func(t *testing.T, s *scene, r *routing.Router) {
		probe(t, s, "rate_limited")
		if h := s.health.View()[0]; time.Until(h.Until) != 2*time.Minute || terms(t, r, 0).Standing != routing.Cooling {
			t.Errorf("%+v, %s", h, terms(t, r, 0).Standing)
		}
		<-time.After(119 * time.Second)
		if got := terms(t, r, 0).Standing; got != routing.Cooling {
			t.Errorf("a second before the end it is %s", got)
		}
	})
	bubble("it hangs without end", silent, func(t *testing.T, s *scene, r *routing.Router) {
		s.cat.Endpoints[0].Provider.Limits = hearth.Limits{}
		before := terms(t, r, 0).Errors
		if p := probe(t, s, "failed"); p.Took != probeTotal || terms(t, r, 0).Errors <= before {
			t.Errorf("%+v, error rate %v after %v", p, terms(t, r, 0).Errors, before)
		}
	})
	bubble("its first token, and that it is back then", speaks(20*time.Second, word("a"), lastWord), func(t *testing.T, s *scene, r *routing.Router) {
		s.fails(0)
		<-time.After(health.Cooldown)
		before := terms(t, r, 0).TTFT
		go probe(t, s, "answered")
		<-time.After(10 * time.Second) // the first token is there, the rest is not
		if h := s.health.View()[0]; h.Skip != "" {
			t.Errorf("while it answers it is %+v", h)
		}
		<-time.After(20 * time.Second)
		if after := terms(t, r, 0).TTFT; after >= before {
			t.Errorf("its first token is expected in %v s, in %v before it came at once", after, before)
		}
	})
	bubble("a usage that cannot be", speaks(0, word("a"), "data: "+`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":-5,"completion_tokens":-1,"total_tokens":-6}}`+"\n\ndata: [DONE]\n\n"), func(t *testing.T, s *scene, _ *routing.Router) {
		if p := probe(t, s, "answered"); p.Cost != 0 {
			t.Errorf("it costs %d", p.Cost)
		}
	})
}

// TestProbe_Plain: an endpoint that does not know stream_options is asked without, at once and from then on; and the limit has the
// name that the provider knows.
func TestProbe_Plain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *peer
		s, _ := routedStage(t, free(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(p.lastBody(), "stream_options") {
				refuses(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options","code":null}}`)(w, r)
				return
			}
			answers(w, r)
		}), good)
		p = s.peers[0]
		e := s.cat.Endpoints[0]
		e.Provider.MaxTokensKey = "max_completion_tokens"
		for _, requests := range []int64{2, 3} {
			if p, ok := s.relay.Probe(t.Context(), e); !ok || p.Word() != "answered" || s.peers[0].seen.Load() != requests {
				t.Errorf("%v %s (%s) after %d requests, want %d", ok, p.Word(), p.Message, s.peers[0].seen.Load(), requests)
			}
		}
		if body := s.peers[0].lastBody(); !strings.Contains(body, `"max_completion_tokens":1`) || strings.Contains(body, `"max_tokens"`) {
			t.Error(body)
		}
	})
}

// TestProber_When: a probe comes at the instant from which one may, not at the next look.
func TestProber_When(t *testing.T) {
	bubble := func(name string, serve http.HandlerFunc, f func(*testing.T, *scene, func(time.Duration, int64))) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := routedStage(t, free(serve), good)
				f(t, s, func(at time.Duration, want int64) {
					t.Helper()
					<-time.After(at)
					if n := s.peers[0].seen.Load(); n != want {
						t.Errorf("%d probes, want %d", n, want)
					}
				})
			})
		})
	}
	bubble("the end of a cooldown, and of the time between two", refuses(400, `{}`), func(_ *testing.T, s *scene, after func(time.Duration, int64)) {
		s.fails(0)
		<-time.After(300 * time.Millisecond)
		s.probes(1300 * time.Millisecond)
		after(59600*time.Millisecond, 0)
		after(200*time.Millisecond, 1) // at 60 s, though the looks are at 60.3
		after(1100*time.Millisecond, 1)
		after(200*time.Millisecond, 2) // at 61.3
	})
	bubble("one that has answered has failed for the first time when it fails again", refuses(400, `{}`), func(_ *testing.T, s *scene, after func(time.Duration, int64)) {
		s.probes(10 * time.Second)
		s.fails(0)
		after(61*time.Second, 1)
		<-time.After(10 * time.Minute) // ever less often
		s.peers[0].plays(answers)
		<-time.After(2 * time.Minute)
		before := s.peers[0].seen.Load()
		s.peers[0].plays(refuses(400, `{}`))
		s.fails(0)
		after(61*time.Second, before+1)
		after(10*time.Second, before+2)
	})
	bubble("one that could not be sent takes no time", after(5*time.Second, refuses(400, `{}`)), func(t *testing.T, s *scene, seen func(time.Duration, int64)) {
		s.fails(0)
		<-time.After(health.Cooldown)
		go s.ask(t.Context(), chat(stream)) // a caller has the permit, for five seconds
		synctest.Wait()
		s.probes(time.Minute)
		seen(4*time.Second, 1)
		seen(4*time.Second, 2)
	})
}

// TestProber_ByPrice: where nothing is ordered by cost, breakers are nobody's, and no reason to ask.
func TestProber_ByPrice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := routedStage(t, free(answers), good)
		s.relay.opt.ByCost = false
		ask := routing.Ask{In: 10, Stream: true}
		for i := range 40 {
			try, res := r.Begin(&ask, i%2, routing.Share, time.Now()), routing.Result{Outcome: routing.Failed}
			if i%2 == 1 {
				res = routing.Result{Outcome: routing.Answered, In: 10, Out: 10}
			}
			<-time.After(100 * time.Millisecond)
			try.Done(res, time.Now())
			r.Refresh(time.Now())
		}
		<-time.After(11 * time.Second)
		r.Refresh(time.Now())
		if len(r.Probes(nil, time.Now())) != 1 {
			t.Fatal("no breaker is half-open")
		}
		s.probes(time.Second)
		<-time.After(time.Minute)
		if n := s.peers[0].seen.Load(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}
