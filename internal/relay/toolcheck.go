package relay

import (
	"time"

	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/toolcheck"
)

// offers notes the tools of a request that is sent to an endpoint: when its answer has ended, the body is not at hand.
func (r *Relay) offers(x *exchange) {
	if x.routed.tools = nil; r.judge != nil && x.chat.Tools {
		x.routed.tools = r.judge.Tools(x.chat.ToolList())
	}
}

// judges hands the tool calls of an answer to who holds them against their schemas. The windows get the sample and the
// router hears of the calls when that is done, and not by what is known at once. It is false where nobody takes them: then
// what is known stands.
func (r *Relay) judges(x *exchange, o *outcome, s routing.Sample) bool {
	return s.Calls > 0 && x.routed.tools != nil && r.offer(x, o, s)
}

// offer is judges for an answer with calls.
func (r *Relay) offer(x *exchange, o *outcome, s routing.Sample) bool {
	made := x.stamp.Made()
	if o.answer != nil {
		made = o.answer.Made
	}
	calls := make([]toolcheck.Call, len(made))
	for i, c := range made {
		calls[i] = toolcheck.Call{Name: c.Name, Args: c.Args, Bad: c.Bad, Open: c.Open}
	}
	router, windows, e := r.router, r.windows, o.endpoint // the router passes over own slots
	return r.judge.Offer(x.routed.tools, calls, func(calls, bad int) {
		s.Calls, s.BadCalls = calls, bad
		if windows != nil {
			windows.Add(e.Index, s)
		}
		if router != nil {
			router.Judge(e.Index, calls, bad, time.Now())
		}
	})
}
