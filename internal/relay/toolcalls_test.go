package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// A call of a function that the request does not offer is a bad one.
func TestMeasured_ToolCalls(t *testing.T) {
	const call = `{"choices":[{"index":0,"%s":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	for name, bad := range map[string]int{"add": 0, "sub": 1} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s is offered, stream %v", name, streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body, serve := "", refuses(200, fmt.Sprintf(call, "message"))
					if streams {
						body, serve = stream, speaks(0, "data: "+fmt.Sprintf(call, "delta")+"\n\ndata: [DONE]\n\n")
					}
					s := stage(t, Options{}, part{serve: serve})
					a := s.ask(t.Context(), chat(body+`, "tools": [{"type": "function", "function": {"name": "`+name+`"}}]`))
					if v := s.windows.Speeds()[0]; a.err != nil || v.Calls != 1 || v.BadCalls != bad {
						t.Errorf("%v: %d of %d calls are bad", a.err, v.BadCalls, v.Calls)
					}
				})
			})
		}
	}
}
