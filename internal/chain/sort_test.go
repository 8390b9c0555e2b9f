package chain

import (
	"slices"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

const (
	across     = "provider.sort price across models"
	unmeasured = ", not measured lately: by expected price"
)

// Step 7, order.
var orderCases = []buildCase{
	{name: "order puts the named first, in that order, within each model", req: with(ask(gemma, other, exaone), hearth.Preferences{Order: []string{"beta", "acme"}}),
		want:    []string{betaGemma, acmeGemma, localGemma, acmeOther, localExaone},
		reasons: []string{reasonOrder, reasonOrder, reasonPriority, reasonOrder, reasonPriority}},
	{name: "order by display name and variant", req: with(ask(gemma), hearth.Preferences{Order: []string{"Beta", "acme/fp8"}}), want: []string{betaGemma, acmeGemma, localGemma}},
	{name: "order by one node", req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu/gpu-2"}}), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{}) }},
	{name: "endpoints of one name keep their own order", req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu"}}), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{State: ready}) }},
	{name: "the rest goes by price, nothing is drawn", req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu"}}), want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.Rank = func([]hearth.Candidate) { panic("the rank was asked") } }},
	{name: "a session stays where its cache is, among those named", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "acme"}}), given: staysAt(acmeGemma),
		want: []string{acmeGemma, betaGemma, localGemma}, reasons: []string{reasonStays, reasonOrder, reasonPriority},
		notes: []string{"the session stays at acme/fp8, which stands later in provider.order: its cache is there"}},
	{name: "a session at the first is where it would be anyway", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "acme"}}), given: staysAt(betaGemma),
		want: []string{betaGemma, acmeGemma, localGemma}, reasons: []string{reasonOrder, reasonOrder, reasonPriority}, notes: []string{}},
	{name: "a session at who is not named moves nobody", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta"}}), given: staysAt(acmeGemma), want: []string{betaGemma, localGemma, acmeGemma}, notes: []string{}},
	{name: "nor if nothing stands between", req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu", "beta"}}), given: staysAt(acmeGemma), want: []string{localGemma, betaGemma, acmeGemma}, notes: []string{}},
	{name: "a session passes no own slot", req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu", "beta", "acme"}}), given: staysAt(acmeGemma), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "a session right behind an own slot", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "local-gpu", "acme"}}), given: staysAt(acmeGemma), want: []string{betaGemma, localGemma, acmeGemma}, notes: []string{}},
	{name: "a session at who is filtered out", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "acme"}, Ignore: []string{"acme"}}), given: staysAt(acmeGemma), want: []string{betaGemma, localGemma}, notes: []string{}},
	{name: "a session without fallbacks", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "acme"}, NoFallbacks: true}), given: staysAt(acmeGemma), want: []string{acmeGemma}},
	{name: "a session under a sort moves nobody", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), given: func(s *scene) { s.Stays = func([]hearth.Candidate) int { panic("asked") } }, want: []string{acmeGemma, localGemma, betaGemma}},
	{name: "who does not serve the model is passed over", req: with(ask(exaone), hearth.Preferences{Order: []string{"beta"}}), want: []string{localExaone}, notes: []string{}},
	{name: "order replaces sort", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta"}, Sort: hearth.SortPrice}), want: []string{betaGemma, localGemma, acmeGemma},
		notes: []string{"provider.sort has no effect: provider.order is given"}},
	{name: "order replaces a suffix", req: with(ask(gemma+":floor"), hearth.Preferences{Order: []string{"beta"}}), want: []string{betaGemma, localGemma, acmeGemma},
		notes: []string{"suffix :floor has no effect: provider.order is given"}},
	{name: "order stays within each model in spite of partition none", req: with(ask(gemma, exaone), hearth.Preferences{Order: []string{"local-gpu"}, AcrossModels: true, Sort: hearth.SortPrice}),
		want:  []string{localGemma, acmeGemma, betaGemma, localExaone},
		notes: []string{"provider.sort has no effect: provider.order is given", `provider.sort.partition "none" has no effect without a sort`}},
}

// staysAt has the session at an endpoint.
func staysAt(id string) func(*scene) {
	return func(s *scene) {
		s.Stays = func(cs []hearth.Candidate) int {
			return slices.IndexFunc(cs, func(c hearth.Candidate) bool { return line(c.Endpoint) == id })
		}
	}
}

// threeMeasured: beta is fastest, our slot answers first, acme was not measured lately.
func threeMeasured(s *scene) {
	s.measured(betaGemma, 2, 90)
	s.measured(localGemma, 0.2, 40)
	s.measured(acmeGemma, 0.1, 200)
	old := s.speeds[acmeGemma]
	old.At = now.Add(-hearth.SpeedWindow)
	s.speeds[acmeGemma] = old
}

// Step 7, sort, partition and suffixes.
var sortCases = []buildCase{
	{name: "sort price by what this request is expected to cost", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 100}, hearth.Preferences{Sort: hearth.SortPrice}),
		want: []string{acmeGemma, localGemma, betaGemma}, reasons: []string{"provider.sort price", "provider.sort price", "provider.sort price"}},
	{name: "sort price counts images", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 100, Images: 1}, hearth.Preferences{Sort: hearth.SortPrice}),
		given: func(s *scene) { s.at(acmeGemma).List.Image = price("1", "0").Prompt }, want: []string{localGemma, betaGemma, acmeGemma}},
	{name: "sort price over all priorities of a model", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), given: func(s *scene) { s.at(acmeGemma).Priority = 99 },
		want: []string{acmeGemma, localGemma, betaGemma}},
	{name: "sort price without a cap: the model's mean answer decides", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000}, hearth.Preferences{Sort: hearth.SortPrice}),
		given: func(s *scene) { // as dear as each other at 900 tokens
			flatAndLong(s)
			answers(s, betaGemma, 90, 90*946) // (10 × 500 + 90 × 946) / 100 = 901.4
		}, want: []string{acmeGemma, "flat " + gemma, "long " + gemma, localGemma, betaGemma}},
	{name: "the mean is over all endpoints of the model, however old", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000}, hearth.Preferences{Sort: hearth.SortPrice}),
		given: func(s *scene) {
			flatAndLong(s)
			answers(s, betaGemma, 45, 45*900)
			answers(s, localGemma, 45, 45*987) // (10 × 500 + 45 × 900 + 45 × 987) / 100 = 899.15
		}, want: []string{acmeGemma, "long " + gemma, "flat " + gemma, localGemma, betaGemma}},
	{name: "a few answers do not make a mean", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000}, hearth.Preferences{Sort: hearth.SortPrice}),
		given: func(s *scene) {
			flatAndLong(s)
			answers(s, betaGemma, 2, 2*2500) // (10 × 500 + 2 × 2500) / 12 = 833
		}, want: []string{acmeGemma, "long " + gemma, "flat " + gemma, localGemma, betaGemma}},
	{name: "a cap goes before the mean", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 899}, hearth.Preferences{Sort: hearth.SortPrice}),
		given: func(s *scene) {
			flatAndLong(s)
			answers(s, betaGemma, 1000, 1000*2000)
		}, want: []string{acmeGemma, "long " + gemma, "flat " + gemma, localGemma, betaGemma}},
	{name: "across models each has its own mean", req: with(hearth.Request{Models: []string{gemma, exaone}, FromList: true, Estimate: 1}, hearth.Preferences{Sort: hearth.SortPrice, AcrossModels: true, Only: []string{"local-gpu"}}),
		given: func(s *scene) { answers(s, localGemma, 1000, 1000*2000) }, want: []string{localExaone, localGemma}},
	{name: "what an engine counted goes before the estimate", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 10}, hearth.Preferences{Sort: hearth.SortPrice}),
		given: exact(100), // 0.0045 against 0.0142
		want:  []string{localGemma, acmeGemma, betaGemma}},
	{name: "a lowered cap counts as it is lowered", req: with(hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 10000}, hearth.Preferences{Sort: hearth.SortPrice, Ignore: []string{"acme"}}),
		given: func(s *scene) { engineOf("vllm")(s); s.serve("middle", "35") }, // 0.96 + 0.1152 against 1.12
		want:  []string{localGemma, "middle " + gemma, betaGemma}},
	{name: "ties by slug, not by the whole tag", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice, Only: []string{"acme", "acme-2"}}), want: []string{acmeGemma, "acme-2 " + gemma},
		given: func(s *scene) { s.serve("acme-2", "0"); s.at(acmeGemma).List = hearth.Price{} }},
	{name: "ties by tag", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), want: []string{acmeGemma, betaGemma, localGemma},
		given: func(s *scene) {
			for _, n := range []string{localGemma, acmeGemma, betaGemma} {
				s.at(n).List = hearth.Price{}
			}
		}},
	{name: "sort stays within each model", req: with(ask(other, gemma), hearth.Preferences{Sort: hearth.SortPrice}), want: []string{acmeOther, acmeGemma, localGemma, betaGemma}},
	{name: "sort switches the draw off", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), want: []string{acmeGemma, localGemma, betaGemma},
		given: func(s *scene) { s.Rank = func([]hearth.Candidate) { panic("the rank was asked") } }},
	{name: "so does a suffix", req: ask(gemma + ":floor"), want: []string{acmeGemma, localGemma, betaGemma},
		given: func(s *scene) { s.Rank = func([]hearth.Candidate) { panic("the rank was asked") } }},
	{name: "partition none sorts across models", req: with(ask(other, gemma, exaone), hearth.Preferences{Sort: hearth.SortPrice, AcrossModels: true}),
		want: []string{acmeGemma, localGemma, localExaone, betaGemma, acmeOther}, reasons: []string{across, across, across, across, across}},
	{name: "partition none without a sort has no effect", req: with(ask(exaone, gemma), hearth.Preferences{AcrossModels: true}), want: []string{localExaone, localGemma, acmeGemma, betaGemma},
		notes: []string{`provider.sort.partition "none" has no effect without a sort`}},
	{name: "sort throughput: the fastest first, the unmeasured last", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortThroughput}), given: threeMeasured,
		want: []string{betaGemma, localGemma, acmeGemma}, notes: []string{}, reasons: []string{"provider.sort throughput", "provider.sort throughput", "provider.sort throughput" + unmeasured}},
	{name: "sort latency: the quickest first, the unmeasured last", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortLatency}), given: threeMeasured,
		want: []string{localGemma, betaGemma, acmeGemma}, notes: []string{}},
	{name: "the unmeasured go by price", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortLatency}), given: func(s *scene) { s.measured(betaGemma, 9, 9) },
		want: []string{betaGemma, acmeGemma, localGemma}, reasons: []string{"provider.sort latency", "provider.sort latency" + unmeasured, "provider.sort latency" + unmeasured}},
	{name: "equal speed by slug", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortThroughput}), given: func(s *scene) {
		s.measured(betaGemma, 1, 50)
		s.measured(localGemma, 2, 50)
		s.measured(acmeGemma, 3, 50)
	}, want: []string{acmeGemma, betaGemma, localGemma}},
	{name: "nothing measured is noted", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortThroughput}), want: []string{acmeGemma, localGemma, betaGemma},
		notes: []string{"sort throughput: nothing was measured for " + gemma + " lately, the order is by price"}},
	{name: "an old measurement is none", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortLatency}), want: []string{acmeGemma, localGemma, betaGemma},
		given: func(s *scene) { threeMeasured(s); delete(s.speeds, betaGemma); delete(s.speeds, localGemma) },
		notes: []string{"sort latency: nothing was measured for " + gemma + " lately, the order is by price"}},
	{name: "partition none by throughput", req: with(ask(gemma, exaone), hearth.Preferences{Sort: hearth.SortThroughput, AcrossModels: true}),
		given: func(s *scene) { threeMeasured(s); s.measured(localExaone, 1, 60) }, want: []string{betaGemma, localExaone, localGemma, acmeGemma}},
	{name: "exacto by the operator's grade", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortTools}), want: []string{betaGemma, acmeGemma, localGemma},
		given: func(s *scene) { s.at(betaGemma).ToolQuality, s.at(localGemma).ToolQuality = 0.91, 0.89 }},
	{name: "exacto by bad calls: who breaks many goes last", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortTools}), want: []string{localGemma, betaGemma, acmeGemma},
		given: func(s *scene) { calls(s, acmeGemma, 100, 30); calls(s, betaGemma, 100, 3) }, notes: []string{}},
	{name: "exacto: a few bad calls weigh little against a grade", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortTools}), want: []string{acmeGemma, localGemma, betaGemma},
		given: func(s *scene) {
			calls(s, acmeGemma, 2, 1) // 1 × (1 − 1.2/22) > 0.9 × 0.99
			s.at(acmeGemma).ToolQuality = 1
		}},
	{name: "exacto: of one quality by price", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortTools}), want: []string{acmeGemma, localGemma, betaGemma},
		notes: []string{"sort exacto: nothing is known for " + gemma + " of the quality of tool calls, the order is by price"}},
	{name: "a suffix beside a sort wins for its model", req: with(ask(gemma+":floor", other), hearth.Preferences{Sort: hearth.SortLatency}), given: threeMeasured,
		want:  []string{acmeGemma, localGemma, betaGemma, acmeOther},
		notes: []string{"provider.sort has no effect on " + gemma + ": it is asked for with suffix :floor"}},
	{name: "a suffix sorts its model in spite of partition none", req: with(ask(other, gemma+":floor"), hearth.Preferences{AcrossModels: true}), want: []string{acmeOther, acmeGemma, localGemma, betaGemma},
		reasons: []string{reasonPriority, "suffix :floor", "suffix :floor", "suffix :floor"}, notes: []string{`provider.sort.partition "none" has no effect without a sort`}},
	{name: "a sort across models beats a suffix", req: with(ask(other, gemma+":nitro"), hearth.Preferences{Sort: hearth.SortPrice, AcrossModels: true}),
		want:  []string{acmeGemma, localGemma, betaGemma, acmeOther},
		notes: []string{"suffix :nitro has no effect: provider.sort sorts the endpoints of all models together"}},
}

// flatAndLong adds two endpoints that cost the same for 1000 tokens of prompt and 900 of answer.
func flatAndLong(s *scene) {
	s.serve("flat", "100")
	s.serve("long", "10").List.Completion = decimal.NewFromInt(100)
}

// answers says how long an endpoint's answers were, an hour ago.
func answers(s *scene, name string, n, tokens int) {
	s.speeds[name] = hearth.EndpointSpeed{At: now.Add(-time.Hour), Samples: n, Counted: n, Output: tokens}
}

func calls(s *scene, name string, all, bad int) {
	s.speeds[name] = hearth.EndpointSpeed{At: now, Samples: 1, Calls: all, BadCalls: bad}
}

// Step 7, the bars.
var barCases = []buildCase{
	{name: "preferred_min_throughput moves who misses it to the back", req: with(ask(gemma), hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 50}}), given: threeMeasured,
		want: []string{acmeGemma, betaGemma, localGemma}, reasons: []string{reasonPrice, reasonPrice, reasonSlow}, notes: []string{}},
	{name: "preferred_max_latency likewise", req: with(ask(gemma), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}}),
		given: func(s *scene) { threeMeasured(s); s.measured(acmeGemma, 1.5, 9) }, want: []string{localGemma, acmeGemma, betaGemma}, reasons: []string{reasonPriority, reasonLate, reasonLate}},
	{name: "exactly at the bar is not missed", req: with(ask(gemma), hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 40}, MaxLatency: hearth.Percentiles{P50: 0.2}}), given: threeMeasured,
		want: []string{localGemma, acmeGemma, betaGemma}, reasons: []string{reasonPriority, reasonPrice, reasonLate}},
	{name: "any of several percentiles", req: with(ask(gemma), hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 40, P90: 30}}), given: threeMeasured,
		want: []string{acmeGemma, betaGemma, localGemma}},
	{name: "a percentile that was not measured misses nothing", req: with(ask(gemma), hearth.Preferences{MinThroughput: hearth.Percentiles{P99: 1000}}), given: threeMeasured,
		want: []string{localGemma, acmeGemma, betaGemma}, notes: []string{"provider.preferred_min_throughput has no effect: nothing was measured lately"}},
	{name: "a bar that nothing was measured for is noted", req: with(ask(gemma), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}}), want: []string{localGemma, acmeGemma, betaGemma},
		notes: []string{"provider.preferred_max_latency has no effect: nothing was measured lately"}},
	{name: "all miss it and none is out", req: with(ask(gemma), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 0.001}}), want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { threeMeasured(s); s.measured(acmeGemma, 1, 1) }},
	{name: "to the back of its model, not of the chain", req: with(ask(gemma, other), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}}), given: threeMeasured,
		want: []string{localGemma, acmeGemma, betaGemma, acmeOther}},
	{name: "with partition none to the back of the chain", req: with(ask(gemma, other), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}, AcrossModels: true}), given: threeMeasured,
		want: []string{localGemma, acmeGemma, acmeOther, betaGemma}, notes: []string{}},
	{name: "and no resident model comes back from there", req: with(ask(gemma, exaone), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 0.1}, AcrossModels: true, Only: []string{"local-gpu"}}),
		given: func(s *scene) { s.measured(localGemma, 0.2, 40); s.slot("gemma", ready) }, want: []string{localExaone, localGemma}, reasons: []string{reasonPriority, reasonLate}},
	{name: "a resident model that stands where it stands keeps its reason", req: with(ask(gemma, exaone), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 0.1}}),
		given: func(s *scene) { s.measured(localGemma, 0.2, 40); s.slot("gemma", ready) }, want: []string{acmeGemma, betaGemma, localGemma, localExaone}, reasons: []string{reasonPrice, reasonPrice, reasonLate, reasonPriority}},
	{name: "behind a sort too", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice, MaxLatency: hearth.Percentiles{P50: 0.1}}), given: threeMeasured,
		want: []string{acmeGemma, localGemma, betaGemma}, reasons: []string{"provider.sort price", reasonLate, reasonLate}},
	{name: "behind an order too", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta"}, MaxLatency: hearth.Percentiles{P50: 1}}), given: threeMeasured,
		want: []string{localGemma, acmeGemma, betaGemma}},
}

// Step 8.
var cutCases = []buildCase{
	{name: "no fallbacks: the rest is told as cut", req: with(ask(gemma, exaone), hearth.Preferences{NoFallbacks: true, Ignore: []string{"beta"}}), want: []string{localGemma},
		drops: []string{
			"beta:" + gemma + " @2 conditions: in provider.ignore",
			"acme/fp8:" + gemma + " @1 cut: provider.allow_fallbacks is false",
			"local-gpu/gpu-1:" + exaone + " @1 cut: provider.allow_fallbacks is false",
		}},
	{name: "no fallbacks: the first that is left", req: with(ask(gemma, exaone), hearth.Preferences{NoFallbacks: true}), given: func(s *scene) { s.cool(localGemma) }, want: []string{acmeGemma}},
	{name: "no fallbacks under order", req: with(ask(gemma), hearth.Preferences{NoFallbacks: true, Order: []string{"beta"}}), want: []string{betaGemma}},
	{name: "the cut comes before the resident is looked for", req: with(ask(exaone, gemma), hearth.Preferences{NoFallbacks: true}),
		given: func(s *scene) { s.slot("gemma", ready) }, want: []string{localExaone}},
	{name: "no fallbacks with one candidate", req: with(ask(exaone), hearth.Preferences{NoFallbacks: true}), want: []string{localExaone}, drops: []string{}},
}

// Step 9.
var residentCases = []buildCase{
	{name: "of two adjacent local slots the resident is first", req: ask(exaone, gemma), given: func(s *scene) { s.slot("gemma", ready) }, want: []string{localGemma, localExaone, acmeGemma, betaGemma}},
	{name: "a starting slot counts when none is ready", req: ask(exaone, gemma), given: func(s *scene) { s.slot("gemma", starting) }, want: []string{localGemma, localExaone, acmeGemma, betaGemma},
		reasons: []string{reasonStarting, reasonPriority, reasonPrice, reasonPrice}},
	{name: "a ready slot beats a starting one", req: ask(exaone, gemma), given: func(s *scene) { s.slot("gemma", ready); s.slot("exaone", starting) }, want: []string{localGemma, localExaone, acmeGemma, betaGemma}},
	{name: "and a starting one behind it", req: with(ask(exaone, gemma), hearth.Preferences{Only: []string{"local-gpu"}}), given: func(s *scene) { s.slot("exaone", ready); s.slot("gemma", starting) }, want: []string{localExaone, localGemma}},
	{name: "a draining slot is never preferred", req: ask(exaone, gemma), given: func(s *scene) { s.slot("gemma", draining) }, want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
	{name: "never across an external one", req: ask(gemma, exaone), given: func(s *scene) { s.slot("exaone", ready) }, want: []string{localGemma, acmeGemma, betaGemma, localExaone}},
	{name: "across one that is out", req: with(ask(gemma, exaone), hearth.Preferences{Only: []string{"local-gpu"}}), given: func(s *scene) { s.slot("exaone", ready) }, want: []string{localExaone, localGemma}},
	{name: "not on another node", req: ask(exaone, gemma), given: func(s *scene) {
		s.at(localGemma).Slot.Node = &hearth.Node{Name: "gpu-9", Exclusive: true}
		s.slot("gemma", ready)
	}, want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
	{name: "not on a node that holds several models", req: ask(exaone, gemma), given: func(s *scene) { s.Views.Catalog.Nodes[0].Exclusive = false; s.slot("gemma", ready) },
		want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
	{name: "on one that holds several, if they need the same memory", req: ask(exaone, gemma), given: func(s *scene) {
		s.Views.Catalog.Nodes[0].Exclusive, s.Views.Catalog.Nodes[0].Devices = false, []hearth.Device{{ID: 0, Memory: 1}}
		s.slot("gemma", ready)
	}, want: []string{localGemma, localExaone, acmeGemma, betaGemma}},
	{name: "not where each has a device of its own", req: ask(exaone, gemma), given: func(s *scene) {
		s.Views.Catalog.Nodes[0].Devices = []hearth.Device{{ID: 0}, {ID: 1}}
		s.at(localGemma).Slot.Devices, s.at(localExaone).Slot.Devices = []int{0}, []int{1}
		s.slot("gemma", ready)
	}, want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
	{name: "not under order", req: with(ask(exaone, gemma), hearth.Preferences{Order: []string{"local-gpu"}}), given: func(s *scene) { s.slot("gemma", ready) }, want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
	{name: "nor under sort", req: with(ask(exaone, gemma), hearth.Preferences{Sort: hearth.SortPrice, Only: []string{"local-gpu"}}), given: func(s *scene) { s.slot("gemma", ready) }, want: []string{localExaone, localGemma}},
	{name: "nor under a suffix", req: with(ask(exaone, gemma+":nitro"), hearth.Preferences{Only: []string{"local-gpu"}}), given: func(s *scene) { s.slot("gemma", ready) }, want: []string{localExaone, localGemma}},
}

func TestToolQuality(t *testing.T) {
	for name, tc := range map[string]struct {
		grade      float64
		calls, bad int
		want       float64
	}{
		"nothing known":              {0, 0, 0, 0.9 * 0.99},
		"graded":                     {0.5, 0, 0, 0.5 * 0.99},
		"all of twenty bad":          {1, 20, 20, 1 - 20.2/40},
		"none of a hundred and more": {1, 180, 0, 1 - 0.2/200},
	} {
		t.Run(name, func(t *testing.T) {
			got := toolQuality(&hearth.Endpoint{ToolQuality: tc.grade}, hearth.EndpointSpeed{Calls: tc.calls, BadCalls: tc.bad})
			if got < tc.want-1e-12 || got > tc.want+1e-12 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestRank_Bars: who misses a bar goes behind the others anyway, so it has no part in what is drawn.
func TestRank_Bars(t *testing.T) {
	s := newScene()
	s.serve("gamma", "1")
	s.measured(betaGemma, 2, 10)
	q := with(ask(gemma), hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 50}})
	in := s.input(t, &q)
	var asked []string
	in.Rank = func(tier []hearth.Candidate) {
		asked = append(asked, lines(tier)...)
		slices.Reverse(tier)
	}
	c, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	got := lines(c.Candidates)
	if len(asked) != 2 || slices.Contains(asked, betaGemma) || got[1] != asked[1] || got[3] != betaGemma || c.Candidates[3].Reason != reasonSlow {
		t.Errorf("asked about %v, chain %v", asked, got)
	}
}
