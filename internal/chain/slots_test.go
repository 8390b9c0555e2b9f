package chain

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// viewed gives the slot of Gemma a view.
func viewed(v hearth.SlotView) func(*scene) {
	return func(s *scene) { s.slots["gemma"] = v }
}

// sized asks for Gemma with a prompt of so many tokens.
func sized(tokens int) hearth.Request {
	return hearth.Request{Models: []string{gemma}, Estimate: tokens}
}

// What a slot's view says beside its state.
var slotCases = []buildCase{
	{name: "a slot that the operator has disabled is as a disabled endpoint", req: ask(gemma), given: viewed(hearth.SlotView{State: hearth.SlotReady, Disabled: true}),
		want:  []string{acmeGemma, betaGemma},
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 conditions: its slot is disabled by the operator"}},
	{name: "a drained one stays: it will say so itself", req: ask(gemma), given: viewed(hearth.SlotView{Drained: true}), want: []string{localGemma, acmeGemma, betaGemma}},

	{name: "an engine's smaller window counts", req: sized(8193), given: viewed(hearth.SlotView{Facts: hearth.SlotFacts{Window: 8192}}),
		want:  []string{acmeGemma, betaGemma},
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 capability context_length: prompt estimated at 8193 tokens, window 8192"}},
	{name: "up to its last token", req: sized(8192), given: viewed(hearth.SlotView{Facts: hearth.SlotFacts{Window: 8192}}), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "an engine's larger window does not: the operator meant the smaller one", req: sized(40000), given: viewed(hearth.SlotView{Facts: hearth.SlotFacts{Window: 65536}}),
		want: []string{acmeGemma, betaGemma}},
	{name: "a window that nobody configured is the engine's", req: sized(40000), want: []string{acmeGemma, betaGemma},
		given: func(s *scene) {
			s.at(localGemma).Context = 0
			s.slots["gemma"] = hearth.SlotView{Facts: hearth.SlotFacts{Window: 16384}}
		}},
	{name: "what an engine said holds nothing while its node is not heard of", req: sized(8193), given: viewed(hearth.SlotView{Unknown: true, Facts: hearth.SlotFacts{Window: 8192}}),
		want: []string{localGemma, acmeGemma, betaGemma}},

	{name: "an engine that works on four at once has a free place", req: ask(gemma), want: []string{localGemma, node2, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{State: hearth.SlotReady, Inflight: 3, Facts: hearth.SlotFacts{Parallel: 4}}, hearth.SlotView{State: hearth.SlotReady, Inflight: 1})},
	{name: "and when it is full, one with less work per place comes first", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{State: hearth.SlotReady, Inflight: 4, Waiting: 5, Facts: hearth.SlotFacts{Parallel: 4}}, hearth.SlotView{State: hearth.SlotReady, Inflight: 1, Waiting: 1})},
	{name: "an engine that has not said how many has one place", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{State: hearth.SlotReady, Inflight: 1}, hearth.SlotView{State: hearth.SlotReady})},

	{name: "a drained slot comes last of its tier", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{State: hearth.SlotReady, Drained: true}, hearth.SlotView{OtherBusy: true})},
	{name: "so does one whose node is not heard of", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{State: hearth.SlotReady, Unknown: true}, hearth.SlotView{OtherBusy: true})},
	{name: "one of a paused node", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{Paused: now.Add(time.Hour)}, hearth.SlotView{OtherBusy: true})},
	{name: "one of a node that is outside of its hours", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{Shut: now.Add(time.Hour)}, hearth.SlotView{OtherBusy: true})},
	{name: "and one of a node that is another gateway's", req: ask(gemma), want: []string{node2, localGemma, acmeGemma, betaGemma},
		given: parallel(hearth.SlotView{Foreign: true}, hearth.SlotView{OtherBusy: true})},
	{name: "what is not heard of is not resident", req: ask(exaone, gemma), want: []string{localExaone, localGemma, acmeGemma, betaGemma},
		given: viewed(hearth.SlotView{State: hearth.SlotReady, Unknown: true})},
}

// parallel makes a second node with Gemma. The places of the first are the engine's to say.
func parallel(first, second hearth.SlotView) func(*scene) {
	return func(s *scene) {
		s.Views.Catalog.Slots[0].Concurrency = 0
		s.slots["gemma"] = first
		s.node("gpu-2", second)
	}
}

func TestDisabledSlotAlone(t *testing.T) {
	s := newScene()
	s.slots["exaone"] = hearth.SlotView{State: hearth.SlotReady, Disabled: true}
	req := ask(exaone)
	if _, err := Build(s.input(t, &req)); err == nil || err.Type != hearth.ErrNoEndpoints || err.HTTPStatus() != 404 {
		t.Errorf("error %v", err)
	}
}

func TestRecountAsksNobodyWhoIsNotHeardOf(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		s := newScene()
		s.at(localExaone).Slot.Engine = "llama-server"
		s.slots["exaone"] = hearth.SlotView{State: hearth.SlotReady, Unknown: unknown}
		req := hearth.Request{Models: []string{exaone}, Estimate: 40000}
		in := s.input(t, &req)
		ch, _ := Build(in)
		if asked := Recount(in, ch) != nil; asked == unknown {
			t.Errorf("unknown %v: asked %v", unknown, asked)
		}
	}
}
