package relay

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

func TestMaxAttempts(t *testing.T) {
	asleep := part{serve: answers, local: true, load: time.Hour}
	for _, c := range []struct {
		name     string
		most     int
		parts    []part
		attempts string
		says     string
	}{
		{"0 walks the whole chain", 0, []part{boom, boom, boom, good}, "500 500 500 200", ""},
		{"the walk ends, and the error says so", 2, []part{boom, boom, good, good}, "500 500", "max_attempts is 2, so 2 further candidates were not tried"},
		{"the last attempt may answer", 2, []part{boom, good}, "500 200", ""},
		{"what is skipped does not count", 1, []part{asleep, good}, "slot_loading 200", ""},
		{"nothing is left untried", 2, []part{boom, boom}, "500 500", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{MaxAttempts: c.most}, c.parts...)
				a := s.ask(t.Context(), chat(""))
				g := s.record(a.id)
				if got := words(g.Attempts); got != c.attempts {
					t.Errorf("attempts %q", got)
				}
				if told := a.err != nil && strings.Contains(a.err.Message, "max_attempts"); told != (c.says != "") {
					t.Errorf("told %v", a.err)
				}
				if c.says != "" && (a.err == nil || !strings.Contains(a.err.Message, c.says) || !strings.Contains(strings.Join(g.Notes, "; "), c.says)) {
					t.Errorf("told %v, noted %q", a.err, g.Notes)
				}
			})
		})
	}
}

// After a failure the rest of the tier is ordered anew: a slot that came free meanwhile is asked before one that did not.
func TestRerank(t *testing.T) {
	same := func(e *hearth.Endpoint) { e.Priority = 0 }
	node := func(h http.HandlerFunc, load time.Duration) part {
		return part{serve: h, local: true, load: load, edit: same}
	}
	for name, c := range map[string]struct {
		wakes time.Duration // somebody else lets the third engine start
		want  string
	}{
		"the third is up by then":   {time.Second, "local-gpu/gpu-2"},
		"nothing changed meanwhile": {time.Hour, "local-gpu/gpu-1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, node(after(10*time.Second, refuses(500, "{}")), 0), node(answers, 30*time.Second), node(answers, 5*time.Second))
				time.AfterFunc(c.wakes, func() { occupiedAt(s, 2)() })
				a := s.ask(t.Context(), chat(""))
				g := s.record(a.id)
				if len(g.Attempts) != 2 || s.cat.Endpoints[0].Tag != "local-gpu/gpu-0" || g.Endpoint != c.want+":"+model {
					t.Errorf("%+v", g.Attempts)
				}
				<-time.After(2 * time.Hour)
			})
		})
	}
}

func TestLastResort(t *testing.T) {
	tier := func(h http.HandlerFunc) part {
		return part{serve: h, edit: func(e *hearth.Endpoint) { e.Priority = 50 }}
	}
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{LastResort: on}, tier(answers), tier(refuses(500, "{}")))
			outFor(health.Failure, health.Threshold)(s)
			a := s.ask(t.Context(), chat(""))
			if got := words(s.record(a.id).Attempts); got != map[bool]string{false: "500", true: "500 200"}[on] {
				t.Errorf("last resort %v: %s", on, got)
			}
			if h := s.health.View()[0]; on != (h.Skip == "") {
				t.Errorf("last resort %v: health %+v", on, h)
			}
			s.permitsBack()
		})
	}
}

// What goes to whom.
func TestForwarded(t *testing.T) {
	engine := func(kind string) part {
		return part{serve: answers, local: true, slot: func(s *hearth.Slot) { s.Engine = kind }}
	}
	for _, c := range []struct {
		name      string
		part      part
		extra     string
		has, none []string
	}{
		{"what would steer the operator's machine stays out", engine("llama-server"), `, "id_slot": 3, "lora": [], "n_predict": 5, "top_k": 4`, []string{`"top_k": 4`}, []string{"id_slot", "lora", "n_predict"}},
		{"nested keys too", engine("ollama"), `, "options": {"num_ctx": 99, "mirostat": 1}`, []string{"mirostat"}, []string{"num_ctx"}},
		{"a provider gets what an engine does not", good, `, "id_slot": 3`, []string{"id_slot"}, nil},
		{"strict keys", part{serve: answers, local: true, slot: func(s *hearth.Slot) { s.StrictKeys = true }}, `, "zebra": 1, "seed": 7`, []string{`"seed": 7`}, []string{"zebra"}},
		{"the one key for the output cap", part{serve: answers, provider: func(p *hearth.Provider) { p.MaxTokensKey = "max_completion_tokens" }}, `, "max_tokens": 9`, []string{`"max_completion_tokens":9`}, []string{`"max_tokens"`}},
		{"OpenRouter's provider object", part{serve: answers, provider: func(p *hearth.Provider) { p.Dialect = "openrouter" }}, `, "provider": {"data_collection": "allow", "ignore": ["x"]}`, nil, []string{`"ignore"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.part)
				a := s.ask(t.Context(), chat(c.extra))
				body := s.peers[0].lastBody()
				if a.err != nil {
					t.Fatal(a.err)
				}
				for _, h := range c.has {
					if !strings.Contains(body, h) {
						t.Errorf("%s lacks %s", body, h)
					}
				}
				for _, n := range c.none {
					if strings.Contains(body, n) {
						t.Errorf("%s holds %s", body, n)
					}
				}
			})
		})
	}
}

func TestForwarded_Provider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, part{serve: answers, edit: func(e *hearth.Endpoint) { e.Quantization, e.ZDR = "fp8", true },
			provider: func(p *hearth.Provider) {
				p.Dialect, p.Currency, p.Margin = "openrouter", "USD", decimal.New(25, -2)
			}})
		a := s.ask(t.Context(), chat(`, "provider": {"zdr": true, "quantizations": ["fp8"], "max_price": {"prompt": 2500000000}}`))
		o := object(t, s.peers[0].lastBody())
		// A dollar is 1,000 KRW, and 1,250 with the margin.
		if a.err != nil || at(o, "provider", "zdr") != true || at(o, "provider", "quantizations", 0) != "fp8" || fmt.Sprint(at(o, "provider", "max_price", "prompt")) != fmt.Sprint(2_000_000) {
			t.Errorf("%v: %v", a.err, o["provider"])
		}
	})
}

// stream_options are asked for, and an upstream that refuses them is asked once more without, and never with them again.
func TestStreamOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, part{serve: func(w http.ResponseWriter, r *http.Request) {}})
		p := s.peers[0]
		p.serve = withoutOptions(s)
		for i, want := range []int64{2, 3} {
			if a := s.ask(t.Context(), chat(stream)); a.err != nil || p.seen.Load() != want {
				t.Errorf("request %d: %v after %d", i, a.err, p.seen.Load())
			}
		}
	})
	// The second body counts in the budget like the first.
	const size = 100 << 10
	big := stream + `, "padding": "` + strings.Repeat("x", size) + `"`
	t.Run("within the budget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, talks)
			var held int64
			refuse := withoutOptions(s)
			s.peers[0].serve = func(w http.ResponseWriter, r *http.Request) {
				<-time.After(time.Second) // the first body has long come back
				held = s.relay.bodies.Load()
				refuse(w, r)
			}
			if a := s.ask(t.Context(), chat(big)); a.err != nil || held < 2*size {
				t.Errorf("%v, %d bytes held", a.err, held)
			}
			synctest.Wait()
			s.calm()
		})
	})
	t.Run("beyond the budget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{MaxBodyTotal: 5 * size / 2}, talks, talks)
			refuse := withoutOptions(s)
			s.peers[0].serve = func(w http.ResponseWriter, r *http.Request) {
				s.relay.bodies.Add(size) // others came
				refuse(w, r)
			}
			a := s.ask(t.Context(), chat(big))
			if a.err == nil || a.err.Type != hearth.ErrOverloaded || s.peers[0].seen.Load() != 1 || s.peers[1].seen.Load() != 0 {
				t.Errorf("%v after %d requests", a.err, s.peers[0].seen.Load())
			}
			synctest.Wait()
			s.relay.bodies.Add(-size)
			s.calm()
		})
	})
}

// withoutOptions is an upstream that does not know stream_options.
func withoutOptions(s *scene) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(s.peers[0].lastBody(), "stream_options") {
			refuses(400, `{"error":{"message":"Unknown parameter: 'stream_options'.","param":"stream_options"}}`)(w, r)
			return
		}
		chatter(w, r)
	}
}

func TestMeasured(t *testing.T) {
	for _, c := range []struct {
		name  string
		part  part
		body  string
		leave time.Duration
		want  routing.Outcomes
	}{
		{"a stream", part{serve: after(3*time.Second, chatter)}, stream, 0, routing.Outcomes{Answered: 1}},
		{"a whole answer", part{serve: after(8*time.Second, answers)}, "", 0, routing.Outcomes{Answered: 1}},
		{"a failure", boom, "", 0, routing.Outcomes{Failed: 1}},
		{"a stream that breaks", cut, stream, 0, routing.Outcomes{Failed: 1}},
		{"a refused account", failing["no account"], "", 0, routing.Outcomes{Failed: 1}},
		{"a rate limit", failing["limited 3 s"], "", 0, routing.Outcomes{Limited: 1}},
		{"the request's own fault", failing["rejects 400"], "", 0, routing.Outcomes{}},
		{"a caller who leaves", talks, stream, 2 * time.Second, routing.Outcomes{}},
		{"a slot that is not ready", part{serve: answers, local: true, load: time.Hour}, "", 0, routing.Outcomes{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.part)
				ctx, leave := contextFor(t, c.leave)
				defer leave()
				s.ask(ctx, chat(c.body))
				got := s.windows.Stats(0, time.Minute, time.Now())
				if got.Outcomes != c.want {
					t.Errorf("%+v", got.Outcomes)
				}
				if c.want.Answered == 0 {
					return
				}
				// 2 tokens in 8 seconds; the time to the first token is known of a stream only
				if v := got.Throughput.P50; v != 0.25 || (got.Latency.P50 == 3) != (c.body == stream) {
					t.Errorf("throughput %v, latency %v", v, got.Latency.P50)
				}
				if v := s.relay.input(&hearth.Request{}, nil, time.Now()).Views.Speeds; len(v) != 1 || v[0].Samples != 1 {
					t.Errorf("the chain is told of %+v", v)
				}
			})
		})
	}
}

func TestMoney(t *testing.T) {
	// 1 KRW for a prompt token and 2 for a completion token; the prompt is estimated at 57.
	with := func(extra string, limit hearth.Nano, f func(*scene, asked, *hearth.Generation), parts ...part) func(*testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, parts...)
				s.key.Limit = limit * 1_000_000_000
				a := s.ask(t.Context(), chat(extra))
				f(s, a, s.record(a.id))
				if left, ok := s.left("KRW"); !ok || left != s.key.Limit-s.record(a.id).Bill.Cost {
					t.Errorf("left %v", left)
				}
			})
		}
	}
	t.Run("without a cap of the caller's one is sent", with("", 2000, func(s *scene, a asked, g *hearth.Generation) {
		if a.err != nil || !strings.Contains(s.peers[0].lastBody(), `"max_tokens":500`) {
			t.Errorf("%v, %s", a.err, s.peers[0].lastBody())
		}
	}, good))
	t.Run("the caller's own cap stands", with(`, "max_tokens": 20`, 2000, func(s *scene, a asked, g *hearth.Generation) {
		if a.err != nil || !strings.Contains(s.peers[0].lastBody(), `"max_tokens": 20`) {
			t.Errorf("%v, %s", a.err, s.peers[0].lastBody())
		}
	}, good))
	t.Run("what others hold back by then counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, part{serve: after(5*time.Second, refuses(500, "{}"))}, part{serve: answers, edit: func(e *hearth.Endpoint) {
				e.List = scenePrice.Times(decimal.NewFromInt(2))
			}})
			s.key.Limit = 2400 * 1_000_000_000
			time.AfterFunc(time.Second, func() {
				if !s.holds(800 * 1_000_000_000) {
					t.Error("nothing was left for others")
				}
			})
			a := s.ask(t.Context(), chat(""))
			if got := words(s.record(a.id).Attempts); a.err == nil || got != "500 over_budget" {
				t.Errorf("%v, %s", a.err, got)
			}
		})
	})
	t.Run("each choice is held back for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var left hearth.Nano
			s := stage(t, Options{}, part{serve: answers})
			s.peers[0].serve = func(w http.ResponseWriter, r *http.Request) {
				left, _ = s.left("KRW")
				answers(w, r)
			}
			s.key.Limit = 5000 * 1_000_000_000
			held := func(extra string) hearth.Nano {
				before, _ := s.left("KRW")
				if a := s.ask(t.Context(), chat(`, "max_tokens": 100`+extra)); a.err != nil {
					t.Error(a.err)
				}
				return before - left
			}
			one, three := held(""), held(`, "n": 3`)
			price, _ := hearth.NanoFromDecimal(s.cat.Endpoints[0].Price.Completion.Mul(decimal.NewFromInt(200)).Shift(-6))
			if d := three - one - price; d < 0 || d > price/10 { // the body is a little longer too
				t.Errorf("held %v for one, %v for three; the output of two costs %v", one, three, price)
			}
		})
	})
	t.Run("a thousand at once do not overspend", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stageFor(t, 64<<20, Options{}, part{serve: after(time.Second, answers)})
			s.key.Limit = 10_000 * 1_000_000_000
			ended, served := make(chan asked), 0
			for range 1000 {
				go func() { ended <- s.ask(t.Context(), chat(`, "max_tokens": 500`)) }()
			}
			for range 1000 {
				a := <-ended
				if a.err == nil {
					served++
				} else if a.err.Type != hearth.ErrInsufficientCredits {
					t.Error(a.err)
				}
			}
			if served != 9 { // of 1,057 KRW at most each
				t.Errorf("%d were served at once", served)
			}
		})
	})
}

// Copies for upstreams count in the budget for bodies, and no body is kept while its answer streams.
func TestBudget(t *testing.T) {
	big := `, "padding": "` + strings.Repeat("x", 100<<10) + `"`
	for name, c := range map[string]struct {
		total  int64
		kind   hearth.ErrorType
		status int
	}{
		"place for the body and its copy": {250 << 10, "", 200},
		"place for the body alone":        {150 << 10, hearth.ErrOverloaded, 0},
		"no place at all":                 {50 << 10, hearth.ErrOverloaded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{MaxBodyTotal: c.total}, part{serve: chatter}, part{serve: chatter})
				var held atomic.Int64
				time.AfterFunc(1500*time.Millisecond, func() { held.Store(s.relay.bodies.Load()) })
				a := s.ask(t.Context(), chat(stream+big))
				if a.status != c.status || c.kind != "" && (a.err == nil || a.err.Type != c.kind || a.err.RetryAfter <= 0) {
					t.Errorf("status %d, %v", a.status, a.err)
				}
				if n := held.Load(); c.kind == "" && n != 0 {
					t.Errorf("%d bytes held while the answer streams", n)
				}
				if c.kind != "" && s.peers[0].seen.Load()+s.peers[1].seen.Load() != 0 {
					t.Error("an upstream was asked")
				}
				synctest.Wait()
				s.calm()
			})
		})
	}
}
