package relay

import (
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/toolcheck"
)

// offers notes the tools of a request that is sent to an endpoint: when its answer has ended, the body is not at hand.
func (r *Relay) offers(x *exchange, e *hearth.Endpoint) {
	if x.routed.tools = nil; r.judge != nil && r.router != nil && !e.Local() && x.chat.Tools {
		x.routed.tools = r.judge.Tools(x.chat.ToolList())
	}
}

// judged hands the tool calls of an answer to who holds them against their schemas: the router is told then, and not by
// what is known at once. Where nobody takes them, that stands.
func (r *Relay) judged(x *exchange, o *outcome, res routing.Result) routing.Result {
	if res.Calls == 0 || x.routed.tools == nil {
		return res
	}
	made := x.stamp.Made()
	if o.answer != nil {
		made = o.answer.Made
	}
	calls := make([]toolcheck.Call, len(made))
	for i, c := range made {
		calls[i] = toolcheck.Call{Name: c.Name, Args: c.Args, Bad: c.Bad, Open: c.Open}
	}
	router, e := r.router, o.endpoint.Index
	if r.judge.Offer(x.routed.tools, calls, func(calls, bad int) { router.Judge(e, calls, bad, time.Now()) }) {
		res.Calls, res.BadCalls = 0, 0
	}
	return res
}
