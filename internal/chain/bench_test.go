package chain

import (
	"fmt"
	"testing"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// BenchmarkBuild builds the chain of three models with twenty endpoints each, one of them local.
func BenchmarkBuild(b *testing.B) {
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
	b.ReportAllocs()
	for b.Loop() {
		if c, err := Build(Input{Request: req, Views: v, Now: now}); err != nil || len(c.Candidates) != 60 {
			b.Fatal(len(c.Candidates), err)
		}
	}
}
