package relay

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/toolcheck"
)

// Arguments that are JSON, but not what the function's schema asks for, are a broken tool call: the router hears of them
// after the last byte.
func TestToolCalls_Schema(t *testing.T) {
	const call = `{"choices":[{"index":0,"%s":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":"%s"}}]},"finish_reason":"%s"}]}`
	const tools = `, "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "required": ["x"]}}}]`
	for _, tc := range []struct {
		name, args, finish, tools string
		judged                    int64
		broken                    bool
	}{
		{"as the schema asks", `{\"x\":1}`, "tool_calls", tools, 1, false},
		{"without what it requires", `{}`, "tool_calls", tools, 1, true},
		{"no JSON", `{`, "tool_calls", tools, 1, true},
		{"cut at the output limit", `{`, "length", tools, 1, false},
		{"of a request without tools", `{}`, "tool_calls", "", 0, false},
	} {
		for _, kind := range []string{"a stream", "an answer as a whole", "a stream of an own slot"} {
			t.Run(tc.name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					streams, local := kind != "an answer as a whole", kind == "a stream of an own slot"
					body, serve := "", refuses(200, fmt.Sprintf(call, "message", tc.args, tc.finish))
					if streams {
						body, serve = stream, speaks(0, "data: "+fmt.Sprintf(call, "delta", tc.args, tc.finish)+"\n\ndata: [DONE]\n\n")
					}
					s := stage(t, Options{ByCost: true}, part{serve: serve, local: local})
					r, j := routing.NewRouter(s.cat, routing.Options{}, time.Now()), toolcheck.New()
					s.relay.router, s.relay.judge = r, j
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go j.Run(ctx)
					rate := func() float64 {
						r.Refresh(time.Now())
						if list := r.Overview(model, time.Now()); len(list) > 0 {
							return list[0].BadTools
						}
						return 0 // the router does not know own slots
					}
					before := rate()
					if a := s.ask(t.Context(), chat(body+tc.tools)); a.err != nil {
						t.Fatal(a.err)
					}
					synctest.Wait()
					if after := rate(); after > before != (tc.broken && !local) || j.Judged() != tc.judged {
						t.Errorf("the rate of broken calls went from %v to %v, %d judged", before, after, j.Judged())
					}
					bad := 0
					if tc.broken {
						bad = 1
					}
					if v := s.windows.Speeds()[0]; v.Samples != 1 || v.Calls != 1 || v.BadCalls != bad {
						t.Errorf("%d of %d calls of %d answers are bad by what is published", v.BadCalls, v.Calls, v.Samples)
					}
				})
			})
		}
	}
}

// Where nobody is there to look at tool calls, or too many wait, what is known at once counts, and once.
func TestToolCalls_NobodyLooks(t *testing.T) {
	const call = `{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":"{"}}]},"finish_reason":"tool_calls"}]}`
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{ByCost: true}, part{serve: refuses(200, call)})
		r, j := routing.NewRouter(s.cat, routing.Options{}, time.Now()), toolcheck.New()
		s.relay.router, s.relay.judge = r, j
		rate := func() float64 {
			r.Refresh(time.Now())
			return r.Overview(model, time.Now())[0].BadTools
		}
		ask := func() {
			if a := s.ask(t.Context(), chat(`, "tools": [{"type": "function", "function": {"name": "add"}}]`)); a.err != nil {
				t.Fatal(a.err)
			}
		}
		before := rate()
		for j.Dropped() == 0 { // nobody takes them
			ask()
		}
		if v := s.windows.Speeds()[0]; v.Samples != 1 || v.Calls != 1 || v.BadCalls != 1 {
			t.Errorf("of an answer that nobody looks at %+v", v)
		}
		if after := rate(); after <= before {
			t.Errorf("the rate of broken calls went from %v to %v", before, after)
		}
	})
}
