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
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", tc.name, streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body, serve := "", refuses(200, fmt.Sprintf(call, "message", tc.args, tc.finish))
					if streams {
						body, serve = stream, speaks(0, "data: "+fmt.Sprintf(call, "delta", tc.args, tc.finish)+"\n\ndata: [DONE]\n\n")
					}
					s := stage(t, Options{ByCost: true}, part{serve: serve})
					r, j := routing.NewRouter(s.cat, routing.Options{}, time.Now()), toolcheck.New()
					s.relay.router, s.relay.judge = r, j
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go j.Run(ctx)
					rate := func() float64 {
						r.Refresh(time.Now())
						return r.Overview(model, time.Now())[0].BadTools
					}
					before := rate()
					if a := s.ask(t.Context(), chat(body+tc.tools)); a.err != nil {
						t.Fatal(a.err)
					}
					synctest.Wait()
					if after := rate(); after > before != tc.broken || j.Judged() != tc.judged {
						t.Errorf("the rate of broken calls went from %v to %v, %d judged", before, after, j.Judged())
					}
				})
			})
		}
	}
}
