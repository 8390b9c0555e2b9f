package hearth_test

import (
	"slices"
	"testing"

	"myip.co.kr/hearth"
)

// followed is a sealed catalog: two offers of one account, and a slot.
func followed(t *testing.T, change func(*hearth.Catalog)) *hearth.Catalog {
	t.Helper()
	m := &hearth.Model{ID: "a/b"}
	local := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW"}
	acme := &hearth.Provider{
		Slug: "acme", Kind: hearth.External, Currency: "KRW", BaseURL: "https://acme.example/v1", APIKey: "k",
		Headers: map[string]hearth.Secret{"X-Org": "1"},
	}
	s := &hearth.Slot{Name: "s", Node: &hearth.Node{Name: "gpu"}, Model: m, Driver: "exec", Command: []string{"run"}}
	c := &hearth.Catalog{
		Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{local, acme}, Nodes: []*hearth.Node{s.Node}, Slots: []*hearth.Slot{s},
		Endpoints: []*hearth.Endpoint{
			{Model: m, Provider: local, Tag: "local-gpu/gpu", Slot: s},
			{Model: m, Provider: acme, Tag: "acme", UpstreamModel: "b"},
			{Model: m, Provider: acme, Tag: "acme/fp8", UpstreamModel: "b-fp8"},
		},
	}
	if change != nil {
		change(c)
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCatalog_From(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*hearth.Catalog)
		want   []int
	}{
		{"nothing", nil, []int{0, 1, 2}},
		{"another order", func(c *hearth.Catalog) { slices.Reverse(c.Endpoints) }, []int{2, 1, 0}},
		{"one is gone, one is new", func(c *hearth.Catalog) { c.Endpoints[1].Tag = "acme/int4" }, []int{0, -1, 2}},
		{"prices, limits and names", func(c *hearth.Catalog) {
			p := c.Providers[1]
			p.Name, p.Limits.Idle, c.Endpoints[1].Priority, c.Slots[0].Concurrency = "Acme", 1, 3, 7
		}, []int{0, 1, 2}},
		{"another address", func(c *hearth.Catalog) { c.Providers[1].BaseURL = "https://acme.example/v2" }, []int{0, -1, -1}},
		{"another key", func(c *hearth.Catalog) { c.Providers[1].APIKey = "k2" }, []int{0, -1, -1}},
		{"another header", func(c *hearth.Catalog) { c.Providers[1].Headers["X-Org"] = "2" }, []int{0, -1, -1}},
		{"another model upstream", func(c *hearth.Catalog) { c.Endpoints[2].UpstreamModel = "c" }, []int{0, 1, -1}},
		{"another engine", func(c *hearth.Catalog) { c.Slots[0].Command = []string{"run", "-v"} }, []int{-1, 1, 2}},
		{"another slot of the node", func(c *hearth.Catalog) { c.Slots[0].Name = "t" }, []int{-1, 1, 2}},
		{"another machine", func(c *hearth.Catalog) { c.Nodes[0].Remote = &hearth.Remote{URL: "https://gpu-2"} }, []int{-1, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := followed(t, c.change).From(followed(t, nil)); !slices.Equal(got, c.want) {
				t.Errorf("from %v, want %v", got, c.want)
			}
		})
	}
}
