package config

import (
	"fmt"
	"maps"
	"strings"

	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
)

// localTag is the routable name of a node's endpoints.
func localTag(n *Node) string { return hearth.LocalSlug + "/" + n.Name }

// offerTag is the routable name of an offer.
func offerTag(p *Provider, o *Offer) string {
	if o.Variant == "" {
		return p.Slug
	}
	return p.Slug + "/" + o.Variant
}

// modelIDs lists every model: first those under models, then those of slots and providers, in file order.
func (c *Config) modelIDs() []string {
	var ids []string
	seen := map[string]bool{"": true}
	note := func(id string) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for i := range c.Models {
		note(c.Models[i].ID)
	}
	for i := range c.Nodes {
		for j := range c.Nodes[i].Slots {
			note(c.Nodes[i].Slots[j].Model)
		}
	}
	for i := range c.Providers {
		for j := range c.Providers[i].Models {
			note(c.Providers[i].Models[j].Model)
		}
	}
	return ids
}

// Catalog builds the sealed catalog of a Config that Load or Parse returned. The local provider comes first; it is
// there only if there is a slot.
func (c *Config) Catalog() (*hearth.Catalog, error) {
	cat := &hearth.Catalog{
		Currency: c.Currency, DefaultModel: c.DefaultModel,
		Aliases: maps.Clone(c.Aliases), Rates: maps.Clone(c.ExchangeRates),
	}
	models := c.catalogModels(cat)
	c.addNodes(cat, models)
	for i := range c.Providers {
		c.addProvider(cat, models, &c.Providers[i])
	}
	if err := cat.Seal(); err != nil {
		return nil, fmt.Errorf("build the catalog: %w", err)
	}
	return cat, nil
}

func (c *Config) catalogModels(cat *hearth.Catalog) map[string]*hearth.Model {
	details := map[string]*Model{}
	for i := range c.Models {
		details[c.Models[i].ID] = &c.Models[i]
	}
	byID := map[string]*hearth.Model{}
	for _, id := range c.modelIDs() {
		m := &hearth.Model{ID: id, Name: id, Input: []string{"text"}}
		if d := details[id]; d != nil {
			m.Name = orElse(d.Name, id)
			m.Description, m.Created, m.Input = d.Description, int64(d.Created), d.Input
		}
		byID[id] = m
		cat.Models = append(cat.Models, m)
	}
	return byID
}

func (c *Config) addNodes(cat *hearth.Catalog, models map[string]*hearth.Model) {
	local := &hearth.Provider{
		Slug: hearth.LocalSlug, Name: c.Local.Name, Kind: hearth.Local,
		Currency: c.Currency, Margin: decimal.Decimal{}, Limits: c.Local.Limits.limits(),
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		node := &hearth.Node{Name: n.Name, Exclusive: n.Exclusive, Turn: n.Turn, MinResident: n.MinResident}
		cat.Nodes = append(cat.Nodes, node)
		for j := range n.Slots {
			s := &n.Slots[j]
			slot := s.slot(node, models[s.Model])
			cat.Slots = append(cat.Slots, slot)
			cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{
				Model: slot.Model, Provider: local, Tag: localTag(n), Slot: slot,
				UpstreamModel: orElse(s.UpstreamModel, s.Model), Priority: s.Priority, List: s.Price.price(),
				Context: s.Context, MaxOutput: s.MaxOutput, ImageTokens: s.ImageTokens,
				Quantization: s.Quantization, Disabled: s.Disabled,
			})
		}
	}
	if len(cat.Slots) > 0 {
		cat.Providers = append(cat.Providers, local)
	}
}

func (s *Slot) slot(node *hearth.Node, model *hearth.Model) *hearth.Slot {
	return &hearth.Slot{
		Name: s.Name, Node: node, Model: model, Driver: s.Driver,
		Command: s.Command, Env: s.Env, Dir: s.Dir, Port: s.Port,
		URL: strings.TrimRight(s.URL, "/"), APIKey: s.APIKey, Probe: s.Probe,
		Concurrency: s.Concurrency, Queue: s.Queue, Wait: s.Wait, QueueWait: s.QueueWait,
		ExpectedLoad: s.ExpectedLoad, StartTimeout: s.StartTimeout, StopGrace: s.StopGrace,
		DrainMax: s.DrainMax, IdleSleep: s.IdleSleep,
	}
}

func (c *Config) addProvider(cat *hearth.Catalog, models map[string]*hearth.Model, p *Provider) {
	margin := c.Margin.Decimal
	if p.Margin != nil {
		margin = p.Margin.Decimal
	}
	provider := &hearth.Provider{
		Slug: p.Slug, Name: orElse(p.Name, p.Slug), Kind: hearth.External,
		BaseURL: strings.TrimRight(p.BaseURL, "/"), APIKey: p.APIKey, Headers: p.Headers,
		Currency: p.Currency, Margin: margin, Limits: p.Limits.limits(), NoStreamOptions: p.NoStreamOptions,
		PrivacyURL: p.PrivacyURL, TermsURL: p.TermsURL, StatusURL: p.StatusURL,
	}
	cat.Providers = append(cat.Providers, provider)
	for i := range p.Models {
		o := &p.Models[i]
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{
			Model: models[o.Model], Provider: provider, Tag: offerTag(p, o),
			UpstreamModel: orElse(o.UpstreamModel, o.Model), Priority: o.Priority, List: o.Price.price(),
			Context: o.Context, MaxOutput: o.MaxOutput, ImageTokens: o.ImageTokens,
			Quantization: o.Quantization, Disabled: o.Disabled,
		})
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
