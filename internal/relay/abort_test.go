package relay

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/upstream"
)

// counted is a piece of a stream with a count on the way, as one of these makes it.
var counted = map[hearth.Running]func(text string, made int) string{
	hearth.RunningNot: func(text string, _ int) string { return word(text) },
	hearth.RunningUsage: func(text string, made int) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n", text, 7+made, made)
	},
	hearth.RunningTimings: func(text string, made int) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}],\"timings\":{\"cache_n\":5,\"prompt_n\":2,\"predicted_n\":%d}}\n\n", text, made)
	},
}

// countsIfAsked streams a word a second, with counts on the way if the body of the request asks for them in the way of its
// kind of engine.
func countsIfAsked(s **scene) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, way := (*s).peers[0].lastBody(), hearth.RunningNot
		switch {
		case strings.Contains(body, `"include_usage":true,"continuous_usage_stats":true`):
			way = hearth.RunningUsage
		case strings.Contains(body, `"timings_per_token":true`):
			way = hearth.RunningTimings
		}
		var pieces []string
		for i, text := range []string{"a", "b", "c", "d", "e", "f"} {
			pieces = append(pieces, counted[way](text, i+1))
		}
		speaks(time.Second, append(pieces, lastWord)...)(w, r)
	}
}

// TestAborted_Engine: what an engine had counted when its caller left is billed, and engines that can count are asked to.
func TestAborted_Engine(t *testing.T) {
	for _, c := range []struct {
		engine   string
		strict   bool
		usage    hearth.Usage
		cost     hearth.Nano
		unbilled int
	}{
		{"vllm", false, hearth.Usage{PromptTokens: 7, CompletionTokens: 4, Reported: true}, 15 * won, 0},
		{"sglang", false, hearth.Usage{PromptTokens: 7, CompletionTokens: 4, Reported: true}, 15 * won, 0},
		{"llama-server", false, hearth.Usage{PromptTokens: 7, CachedTokens: 5, CompletionTokens: 4, Reported: true}, 10 * won, 0},
		{"ollama", false, hearth.Usage{}, 0, 4},
		{"", false, hearth.Usage{}, 0, 4},
		{"vllm", true, hearth.Usage{}, 0, 4},
		{"llama-server", true, hearth.Usage{}, 0, 4},
	} {
		t.Run(fmt.Sprintf("%q, strict %v", c.engine, c.strict), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *scene
				s = stage(t, Options{}, part{local: true, serve: countsIfAsked(&s), slot: func(sl *hearth.Slot) { sl.Engine, sl.StrictKeys = c.engine, c.strict }})
				ctx, leave := context.WithCancel(t.Context())
				time.AfterFunc(3500*time.Millisecond, leave)
				a := s.ask(ctx, chat(stream))
				g := s.record(a.id)
				if a.took > 3500*time.Millisecond+prompt || g == nil || !g.Cancelled || g.HTTP != 200 || g.FinishReason != "" {
					t.Fatalf("after %v: %+v", a.took, g)
				}
				if g.Usage != c.usage || g.Bill.Cost != c.cost || g.Unbilled != c.unbilled {
					t.Errorf("%+v, cost %v, %d unbilled", g.Usage, g.Bill.Cost, g.Unbilled)
				}
				if body := a.answer().body; strings.Contains(body, "usage") || strings.Contains(body, "timings") {
					t.Errorf("counts are passed on that nobody asked for: %s", body)
				}
				synctest.Wait()
				s.calm()
			})
		})
	}
}

// TestRunningCounts_Asked: who asks for counts on the way gets them, and the bill at the end all the same.
func TestRunningCounts_Asked(t *testing.T) {
	for name, c := range map[string]struct{ engine, ask, want string }{
		"usage":   {"vllm", `, "stream_options": {"continuous_usage_stats": true}`, `"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}`},
		"timings": {"llama-server", `, "timings_per_token": true`, `"timings":{"cache_n":5,"prompt_n":2,"predicted_n":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *scene
				s = stage(t, Options{}, part{local: true, serve: countsIfAsked(&s), slot: func(sl *hearth.Slot) { sl.Engine = c.engine }})
				a := s.ask(t.Context(), chat(stream+c.ask))
				ev := a.answer().events()
				if len(ev) < 6 || !strings.Contains(ev[2], c.want) {
					t.Fatalf("no %s in %q", c.want, ev)
				}
				last := object(t, ev[len(ev)-2])
				if at(last, "usage", "completion_tokens") != 2.0 || at(last, "usage", "cost") != 7.0 {
					t.Errorf("the last chunk says %v", last["usage"])
				}
				if g := s.record(a.id); g.Unbilled != 0 || g.Bill.Cost != 7*won {
					t.Errorf("record %+v", g)
				}
			})
		})
	}
}

// TestRunningCounts_Refused: an engine that will not count on the way is asked once more without, and not again.
func TestRunningCounts_Refused(t *testing.T) {
	for engine, key := range map[string]string{"vllm": "continuous_usage_stats", "llama-server": "timings_per_token"} {
		t.Run(engine, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *scene
				s = stage(t, Options{}, part{local: true, slot: func(sl *hearth.Slot) { sl.Engine = engine }, serve: func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(s.peers[0].lastBody(), key) {
						refuses(400, `{"error":{"message":"unknown field: `+key+`"}}`)(w, r)
						return
					}
					speaks(0, word("a"), lastWord)(w, r)
				}})
				for i, want := range []int64{2, 3} {
					if a := s.ask(t.Context(), chat(stream)); a.err != nil || s.peers[0].seen.Load() != want || s.record(a.id).Bill.Cost != 7*won {
						t.Errorf("request %d: %v after %d", i, a.err, s.peers[0].seen.Load())
					}
				}
			})
		})
	}
}

// TestAborted_Provider: on_abort says whether the stream of a caller who left is read on for its usage.
func TestAborted_Provider(t *testing.T) {
	const leaves = 3500 * time.Millisecond
	spoken := []string{word("a"), word("b"), word("c"), word("d"), word("e"), word("f")}
	failed := "data: {\"error\":{\"code\":503,\"message\":\"no capacity\"}}\n\n"
	for _, c := range []struct {
		name     string
		settle   time.Duration
		pieces   []string
		took     time.Duration
		cost     hearth.Nano
		unbilled int
		finish   string
		message  string
	}{
		{"cancel", 0, append(spoken[:6:6], lastWord), leaves, 0, 4, "", ""},
		{"settle", 30 * time.Second, append(spoken[:6:6], lastWord), 6 * time.Second, 7 * won, 0, "stop", ""},
		{"settle, too long", 2 * time.Second, append(spoken[:6:6], lastWord), leaves + 2*time.Second, 0, 4, "", ""},
		{"settle, and it fails", 30 * time.Second, append(spoken[:4:4], counted[hearth.RunningUsage]("e", 5), failed), 5 * time.Second, 0, 0, "error",
			"failed when its caller had left: provider answered with an error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, part{serve: speaks(time.Second, c.pieces...), provider: func(p *hearth.Provider) { p.Settle = c.settle }}, part{serve: answers})
				const limit = 100_000 * won
				s.key.Limit = limit
				ctx, leave := context.WithCancel(t.Context())
				time.AfterFunc(leaves, leave)
				held := make(chan bool, 1)
				time.AfterFunc(leaves+prompt, func() {
					left, _ := s.left("KRW")
					held <- left < limit-7*won
				})
				a := s.ask(ctx, chat(stream+`, "max_tokens": 100`))
				if a.err != nil || a.took < c.took || a.took > c.took+prompt {
					t.Errorf("over after %v with %v", a.took, a.err)
				}
				g := s.record(a.id)
				if g == nil || !g.Cancelled || g.HTTP != 200 || g.Bill.Cost != c.cost || g.Unbilled != c.unbilled || g.FinishReason != c.finish {
					t.Fatalf("record %+v", g)
				}
				if p := g.Attempts[0]; p.Message != c.message || p.Verdict != hearth.Gone || p.Blame != hearth.BlameNobody {
					t.Errorf("attempt %+v", p)
				}
				if is := <-held; is != (c.took > leaves) {
					t.Errorf("its money was held back meanwhile: %v", is)
				}
				if left, _ := s.left("KRW"); left != limit-c.cost {
					t.Errorf("%v is left", left)
				}
				if h := s.health.View()[0]; h.Skip != "" {
					t.Errorf("health %+v", h)
				}
				synctest.Wait()
				// One that fails ends at the moment in which its connection is closed: who is first does not matter.
				if left := s.peers[0].departures(); c.finish != "error" && (c.took == leaves || c.name == "settle, too long") != (len(left) == 1) {
					t.Errorf("the provider was told at %v", left)
				}
				s.calm()
				s.permitsBack()
			})
		})
	}
}

// TestUnbilled_Served: an answer that was served whole, and of which no usage was reported, says so.
func TestUnbilled_Served(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		body  string
		want  int
	}{
		"a stream":              {speaks(0, word("a"), word("b"), "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"), stream, 2},
		"a stream with usage":   {speaks(0, word("a"), word("b"), lastWord), stream, 0},
		"an answer":             {refuses(200, strings.Replace(whole, `"usage"`, `"used"`, 1)), "", 1},
		"an answer with usage":  {answers, "", 0},
		"an answer as a stream": {refuses(200, strings.Replace(whole, `"usage"`, `"used"`, 1)), stream, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, part{serve: c.serve})
				g := s.record(s.ask(t.Context(), chat(c.body)).id)
				if g == nil || g.Unbilled != c.want || g.Usage.Reported != (c.want == 0) || (g.Bill.Cost == 0) != (c.want > 0) {
					t.Errorf("record %+v", g)
				}
			})
		})
	}
}

// TestAborted_Sockets is the same over real sockets: a caller that closes its connection, a provider that is told of it or
// is not.
func TestAborted_Sockets(t *testing.T) {
	for name, settle := range map[string]time.Duration{"cancel": 0, "settle": time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{settle: settle})
			w.fault(t, w.primary, engine.Control{TokensPerSecond: 50, After: -1})
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(chat(stream+`, "max_tokens": 40, "ignore_eos": true`)))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
			leave()
			var g *hearth.Generation
			end := time.After(time.Minute)
			for tick := time.NewTicker(10 * time.Millisecond); g == nil; {
				select {
				case <-tick.C:
					g, _ = w.ledger.Generation(context.Background(), resp.Header.Get("X-Generation-Id"))
				case <-end:
					t.Fatal("no record")
				}
			}
			seen := w.primary.Seen()
			for tick := time.NewTicker(10 * time.Millisecond); seen.Inflight > 0; seen = w.primary.Seen() {
				select {
				case <-tick.C:
				case <-end:
					t.Fatalf("the provider goes on: %+v", seen)
				}
			}
			if !g.Cancelled || g.HTTP != 200 || len(g.Attempts) != 1 {
				t.Errorf("record %+v", g)
			}
			if settle > 0 && (g.Usage.CompletionTokens != 40 || g.Bill.Cost == 0 || g.Unbilled != 0 || seen.Cancelled != 0) {
				t.Errorf("%+v, %v, %d unbilled; the provider saw %+v", g.Usage, g.Bill.Cost, g.Unbilled, seen)
			}
			if settle == 0 && (g.Usage.Reported || g.Bill.Cost != 0 || g.Unbilled == 0 || seen.Cancelled != 1) {
				t.Errorf("%+v, %v, %d unbilled; the provider saw %+v", g.Usage, g.Bill.Cost, g.Unbilled, seen)
			}
		})
	}
}

// TestAborted_Shutdown: what is read on for nobody ends when the gateway does, and has its record.
func TestAborted_Shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, part{serve: speaks(time.Second, word("a"), counted[hearth.RunningUsage]("b", 2), word("c"), word("d"), word("e"), lastWord),
			provider: func(p *hearth.Provider) { p.Settle = 30 * time.Second }})
		base, end := context.WithCancelCause(t.Context())
		ctx, leave := context.WithCancel(base)
		time.AfterFunc(500*time.Millisecond, leave)
		time.AfterFunc(2500*time.Millisecond, func() {
			end(upstream.ErrShutdown)
			s.relay.upstream.EndAbandoned()
		})
		a := s.ask(ctx, chat(stream))
		g := s.record(a.id)
		if a.took != 2500*time.Millisecond || g == nil || !g.Cancelled || g.Usage.CompletionTokens != 2 || g.Bill.Cost != 11*won || g.FinishReason != "" {
			t.Errorf("after %v: %+v", a.took, g)
		}
		synctest.Wait()
		s.calm()
	})
}
