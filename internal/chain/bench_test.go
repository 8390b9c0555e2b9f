package chain

import (
	"fmt"
	"testing"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// bigWorld has three models with twenty endpoints each, one of them local.
func bigWorld(b *testing.B) Input {
	local := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW"}
	node := &hearth.Node{Name: "gpu-1", Exclusive: true}
	cat := &hearth.Catalog{Currency: "KRW", Nodes: []*hearth.Node{node}}
	req := &hearth.Request{FromList: true, Estimate: 1200}
	for m := range 3 {
		model := &hearth.Model{ID: fmt.Sprintf("author/model-%d", m)}
		s := &hearth.Slot{Name: model.ID, Node: node, Model: model, Concurrency: 1}
		cat.Models, cat.Slots, req.Models = append(cat.Models, model), append(cat.Slots, s), append(req.Models, model.ID)
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: model, Provider: local, Tag: "local-gpu/gpu-1", Slot: s, Context: 32768})
		for p := range 19 {
			prov := &hearth.Provider{Slug: fmt.Sprintf("p%d", p), Name: fmt.Sprintf("Provider %d", p), Kind: hearth.External, Currency: "KRW"}
			cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: model, Provider: prov, Tag: prov.Slug, Priority: 50, Context: 131072,
				List: hearth.Price{Prompt: decimal.NewFromInt(int64(100 + p*37%19)), Completion: decimal.NewFromInt(int64(400 + p))}})
		}
	}
	if err := cat.Seal(); err != nil {
		b.Fatal(err)
	}
	v := Views{Catalog: cat, Slots: make([]hearth.SlotView, 3), Health: make([]hearth.EndpointHealth, len(cat.Endpoints))}
	return Input{Request: req, Views: v, Now: now}
}

// BenchmarkBuild builds the chain of three models with twenty endpoints each.
func BenchmarkBuild(b *testing.B) {
	in := bigWorld(b)
	b.ReportAllocs()
	for b.Loop() {
		if c, err := Build(in); err != nil || len(c.Candidates) != 60 {
			b.Fatal(len(c.Candidates), err)
		}
	}
}

// BenchmarkBuild_Dropping builds the same under a key with a limit, with tools, conditions that a third of the endpoints
// fail and a sort by measured speed.
func BenchmarkBuild_Dropping(b *testing.B) {
	in := bigWorld(b)
	left := hearth.Nano(1e12)
	in.Key, in.Left = &hearth.Key{Models: in.Request.Models}, &left
	in.Request.Tools = true
	in.Request.Prefs = hearth.Preferences{Sort: hearth.SortThroughput, Ignore: []string{"p0", "p1", "p2", "p3", "p4", "p5"}}
	in.Views.Speeds = make([]hearth.EndpointSpeed, len(in.Views.Catalog.Endpoints))
	for i := range in.Views.Speeds {
		in.Views.Speeds[i] = hearth.EndpointSpeed{At: now, Samples: 1, Throughput: hearth.Percentiles{P50: float64(i*37%60 + 1)}}
	}
	b.ReportAllocs()
	for b.Loop() {
		if c, err := Build(in); err != nil || len(c.Candidates) != 42 {
			b.Fatal(len(c.Candidates), err)
		}
	}
}

// BenchmarkRerank ranks the rest of a tier of nineteen after its first has failed.
func BenchmarkRerank(b *testing.B) {
	in := bigWorld(b)
	c, err := Build(in)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Rerank(in, c.Candidates[1], c.Candidates[2:])
	}
}
