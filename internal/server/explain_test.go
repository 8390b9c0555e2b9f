package server

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/relay"
)

func TestExplain_Expected(t *testing.T) {
	c := catalogOf(t)
	e := c.Endpoints[0]
	e.List = hearth.Price{Prompt: decimal.New(30, 0), Completion: decimal.New(150, 0), Image: decimal.New(2, 0), Request: decimal.New(1, 0)}
	e.ImageTokens = 1000
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	s := &Server{Parts: Parts{Catalog: c}}
	for _, k := range []struct {
		name   string
		req    hearth.Request
		exact  map[int]int
		cap    int
		in     int
		out    int
		amount string
	}{
		{"a usual answer is assumed", hearth.Request{Estimate: 1000}, nil, 0, 1000, chain.DefaultOutput, "1.105"},
		{"up to the cap asked for", hearth.Request{Estimate: 1000, MaxTokens: 10}, nil, 0, 1000, 10, "1.0315"},
		{"up to the cap it is lowered to", hearth.Request{Estimate: 1000, MaxTokens: 4000}, nil, 20, 1000, 20, "1.033"},
		{"with images", hearth.Request{Estimate: 1000, MaxTokens: 10, Images: 2}, nil, 0, 3000, 10, "5.0915"},
		{"as the engine counted it", hearth.Request{Estimate: 1000, MaxTokens: 10, Images: 2}, map[int]int{0: 500}, 0, 500, 10, "5.0165"},
	} {
		t.Run(k.name, func(t *testing.T) {
			got := s.expected(&chain.Input{Request: &k.req, Exact: k.exact}, hearth.Candidate{Endpoint: e, MaxTokens: k.cap})
			want := Cost{Prompt: "30", Completion: "150", Currency: "KRW", PromptTokens: k.in, CompletionTokens: k.out}
			want.Expected = jsontext.Value(k.amount)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("an amount out of range stays an amount", func(t *testing.T) {
		e.List.Completion = decimal.New(1, 30)
		if err := c.Seal(); err != nil {
			t.Fatal(err)
		}
		if got := s.expected(&chain.Input{Request: &hearth.Request{MaxTokens: 1 << 30}}, hearth.Candidate{Endpoint: e}); string(got.Expected) != "9223372036.854775807" {
			t.Errorf("%+v", got)
		}
	})
}

func TestExplain_Candidate(t *testing.T) {
	c := catalogOf(t)
	e := c.Endpoints[0]
	e.Context = 8192
	s := &Server{Parts: Parts{Catalog: c}}
	now := time.Now()
	x := &relay.Explained{In: chain.Input{Request: &hearth.Request{}, Now: now}}
	candidate := func(speeds ...hearth.EndpointSpeed) Candidate {
		x.In.Views.Speeds = speeds
		return s.candidate(x, hearth.Candidate{Endpoint: e, Reason: "why", MaxTokens: 7})
	}
	got := candidate()
	if got.Endpoint != "acme:a/b" || *got.Context != 8192 || got.MaxTokens != 7 || got.Reason != "why" || got.Slot != nil || got.Share != nil || got.Speed != nil {
		t.Errorf("%+v", got)
	}
	v := hearth.EndpointSpeed{At: now, Samples: 3, Latency: hearth.Percentiles{P50: .25, P75: .5, P90: 1, P99: 2}, Calls: 4, BadCalls: 1}
	want := &Speed{Samples: 3, Latency: &percentiles{250, 500, 1000, 2000}, Calls: 4, BadCalls: 1}
	if d := cmp.Diff(want, candidate(v).Speed); d != "" {
		t.Error(d)
	}
	v.At = now.Add(-hearth.SpeedWindow)
	if got := candidate(v).Speed; got != nil {
		t.Errorf("a measurement that is too old is shown: %+v", got)
	}
}

// TestExplain_Routing: every term has its own place.
func TestExplain_Routing(t *testing.T) {
	got := routingOf(&hearth.RoutedTerms{
		Price: 1, Wait: 2, Decode: 3, Failed: 4, Quality: 5, Later: -17, Total: 6, TTFT: 7, Rest: 8, Cached: 9, Tries: 10, InFlight: 11, Cap: 12, Knee: 13,
		Errors: .14, Limits: .15, BadTools: .16, State: "open", Flagged: true, New: true,
	})
	want := &Routing{
		Price: 1, Wait: 2, Decode: 3, Failed: 4, Quality: 5, Later: -17, Total: 6, TTFT: 7, Rest: 8, Cached: 9, Tries: 10, InFlight: 11, Cap: 12, Knee: 13,
		Errors: .14, Limits: .15, BadTools: .16, State: "open", Flagged: true, New: true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestExplain_Slot: of a slot the window is what its engine says.
func TestExplain_Slot(t *testing.T) {
	m := &hearth.Model{ID: "a/b"}
	slot := &hearth.Slot{Name: "b", Node: &hearth.Node{Name: "gpu-1"}, Model: m, Engine: "llama-server"}
	e := &hearth.Endpoint{Model: m, Provider: &hearth.Provider{Slug: "local-gpu", Kind: hearth.Local, Currency: "KRW"}, Slot: slot, Context: 8192}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{e.Provider}, Nodes: []*hearth.Node{slot.Node}, Slots: []*hearth.Slot{slot}, Endpoints: []*hearth.Endpoint{e}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	s := &Server{Parts: Parts{Catalog: c}}
	view := hearth.SlotView{State: hearth.SlotReady, Facts: hearth.SlotFacts{Window: 4096}}
	x := &relay.Explained{In: chain.Input{Request: &hearth.Request{}, Views: chain.Views{Catalog: c, Slots: []hearth.SlotView{view}}}}
	if got := s.candidate(x, hearth.Candidate{Endpoint: e}); got.Slot == nil || *got.Context != 4096 || !got.Local {
		t.Errorf("%+v", got)
	}
}

func TestExplain_Refused(t *testing.T) {
	m, node := &hearth.Model{ID: "a/b"}, &hearth.Node{Name: "gpu-1", Exclusive: true}
	slot := &hearth.Slot{Name: "b", Node: node, Model: m, Engine: "llama-server"}
	p := &hearth.Provider{Slug: "local-gpu", Kind: hearth.Local, Currency: "KRW"}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{p}, Nodes: []*hearth.Node{node}, Slots: []*hearth.Slot{slot},
		Endpoints: []*hearth.Endpoint{{Model: m, Provider: p, Tag: "local-gpu/gpu-1", Slot: slot, Context: 100}}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	s := &Server{Parts: Parts{Catalog: c}}
	explained := func(state hearth.SlotState) Chain {
		x := relay.Explained{In: chain.Input{Request: &hearth.Request{Models: []string{"a/b"}, Estimate: 120},
			Views: chain.Views{Catalog: c, Slots: []hearth.SlotView{{State: state}}}}}
		x.Chain, x.Err = chain.Build(x.In)
		return s.explained(&x)
	}
	got := explained(hearth.SlotAsleep)
	if got.Error == nil || got.Error.Code != 400 || got.Error.Type != hearth.ErrContextLength || len(got.Candidates) != 0 || len(got.Dropped) != 1 || len(got.Notes) != 0 {
		t.Errorf("%+v, error %+v", got, got.Error)
	}
	got = explained(hearth.SlotReady)
	want := []string{"before the request is refused, the engine of local-gpu/gpu-1:a/b is asked how many tokens the prompt has"}
	if d := cmp.Diff(want, got.Notes); d != "" {
		t.Error(d)
	}
}
