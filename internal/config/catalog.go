package config

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

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

// Rates are exchange rates that do not stand in the file.
type Rates struct {
	Values map[string]decimal.Decimal // billing currency per one unit, by currency: they take the place of the file's
	Stale  map[string]bool            // currencies whose rate is too old to be used
}

// Catalog builds the sealed catalog of a Config that Load or Parse returned, at the exchange rates of the file. The local
// provider comes first; it is there only if there is a slot.
func (c *Config) Catalog() (*hearth.Catalog, error) { return c.CatalogAt(Rates{}) }

// CatalogAt is Catalog at rates that were fetched.
func (c *Config) CatalogAt(fetched Rates) (*hearth.Catalog, error) {
	cat := &hearth.Catalog{
		Currency: c.Currency, Shown: c.API.Currency, DefaultModel: c.DefaultModel,
		Aliases: maps.Clone(c.Aliases), Rates: map[string]decimal.Decimal{}, Stale: fetched.Stale,
	}
	maps.Copy(cat.Rates, c.ExchangeRates)
	maps.Copy(cat.Rates, fetched.Values)
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
		m := &hearth.Model{
			ID: id, Name: id, Input: []string{"text"}, TierMode: hearth.TierMode(c.Routing.TierMode), SpillAfter: c.Routing.SpillAfter,
		}
		if d := details[id]; d != nil {
			m.Name = orElse(d.Name, id)
			m.TierMode, m.SpillAfter = hearth.TierMode(orElse(d.TierMode, c.Routing.TierMode)), cmp.Or(d.SpillAfter, c.Routing.SpillAfter)
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
		node := &hearth.Node{
			Name: n.Name, Exclusive: n.Exclusive, Turn: n.Turn, MinResident: n.MinResident,
			Remote: n.remote(), FreeMemory: n.FreeMemory, Devices: n.catalogDevices(), Available: c.calendar(n.Available),
		}
		cat.Nodes = append(cat.Nodes, node)
		for j := range n.Slots {
			s := &n.Slots[j]
			slot := s.slot(node, models[s.Model])
			slot.KeepWarm = c.keepWarm(s)
			cat.Slots = append(cat.Slots, slot)
			cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{
				Model: slot.Model, Provider: local, Tag: localTag(n), Slot: slot,
				UpstreamModel: orElse(s.UpstreamModel, s.Model), Priority: s.Priority, List: s.Price.price(), Steps: s.Price.steps(),
				Context: s.Context, MaxOutput: s.MaxOutput, ImageTokens: s.ImageTokens,
				Quantization: strings.ToLower(s.Quantization), Disabled: s.Disabled,
				Params: paramsOf(s.Parameters), Input: s.Input, ToolQuality: s.ToolQuality.InexactFloat64(),
				NoCollection: true, ZDR: true, // nobody but the operator sees what stays in the house
			})
		}
	}
	if len(cat.Slots) > 0 {
		cat.Providers = append(cat.Providers, local)
	}
}

func (s *Slot) slot(node *hearth.Node, model *hearth.Model) *hearth.Slot {
	slot := &hearth.Slot{
		Name: s.Name, Node: node, Model: model, Driver: s.Driver, Engine: orElse(s.Engine, s.Preset), StrictKeys: s.StrictKeys,
		Command: s.Command, Env: s.environment(node), Dir: s.Dir, Port: s.Port,
		Actions: hearth.Actions{Start: s.Start.act(), Stop: s.Stop.act(), Status: s.Status.act()}, Preset: s.Preset,
		Container: s.Container, Docker: strings.TrimRight(s.Docker, "/"), UpstreamModel: s.UpstreamModel, Context: s.Context,
		OnExit: s.OnExit, MinFree: int64(s.MinFree),
		URL: strings.TrimRight(s.URL, "/"), APIKey: s.APIKey, Probe: s.Probe,
		Concurrency: s.concurrency(), Queue: s.Queue, Wait: s.Wait, QueueWait: s.QueueWait,
		ExpectedLoad: s.ExpectedLoad, StartTimeout: s.StartTimeout, StopGrace: s.StopGrace,
		DrainMax: s.DrainMax, IdleSleep: s.IdleSleep,
		Devices: s.Devices, Memory: int64(s.Memory), Companion: s.companion(),
	}
	if s.Driver == "docker" && s.Docker == "" {
		slot.Docker = "unix:///var/run/docker.sock"
	}
	if node.Remote != nil {
		slot.Driver, slot.Probe, slot.OnExit = "", "", "" // the other machine's matter
	}
	return slot
}

func (c *Config) addProvider(cat *hearth.Catalog, models map[string]*hearth.Model, p *Provider) {
	margin := c.Margin.Decimal
	if p.Margin != nil {
		margin = p.Margin.Decimal
	}
	provider := &hearth.Provider{
		Slug: p.Slug, Name: orElse(p.Name, p.Slug), Kind: hearth.External,
		BaseURL: strings.TrimRight(p.BaseURL, "/"), APIKey: p.APIKey, Headers: p.Headers,
		Currency: p.Currency, Margin: margin, Limits: p.Limits.limits(), NoStreamOptions: p.NoStreamOptions, Settle: c.settle(p),
		MaxTokensKey: p.MaxTokensKey, Dialect: p.Dialect, Probe: hearth.ProbePolicy(orElse(p.Probe, c.Routing.Probe)),
		PrivacyURL: p.PrivacyURL, TermsURL: p.TermsURL, StatusURL: p.StatusURL,
	}
	cat.Providers = append(cat.Providers, provider)
	for i := range p.Models {
		o := &p.Models[i]
		noCollection, zdr := policy(p, o)
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{
			Model: models[o.Model], Provider: provider, Tag: offerTag(p, o),
			UpstreamModel: orElse(o.UpstreamModel, o.Model), Priority: o.Priority, List: o.Price.price(), Steps: o.Price.steps(),
			Reported: o.Price != nil && o.Price.Reported, OwnMargin: o.Margin.share(),
			Context: o.Context, MaxOutput: o.MaxOutput, ImageTokens: o.ImageTokens,
			Quantization: strings.ToLower(o.Quantization), Disabled: o.Disabled,
			Params: p.params(o), Input: o.Input, ToolQuality: o.ToolQuality.InexactFloat64(),
			NoCollection: noCollection, ZDR: zdr, Flagged: o.Flagged,
		})
	}
}

// settle is how long a stream of the provider is read on when its caller has left.
func (c *Config) settle(p *Provider) time.Duration {
	if orElse(p.OnAbort, c.OnAbort) != "settle" {
		return 0
	}
	return cmp.Or(p.OnAbortLimit, c.OnAbortLimit)
}

// paramsOf is the set of declared parameters; names that are none were refused when the file was read.
func paramsOf(names []string) hearth.Params {
	var set hearth.Params
	for _, n := range names {
		set |= hearth.ParamOf(n)
	}
	return set
}

// params are those an offer declares. Where the output cap is rewritten to the one key that the provider knows, both are
// taken.
func (p *Provider) params(o *Offer) hearth.Params {
	set, caps := paramsOf(o.Parameters), hearth.MustParams("max_tokens", "max_completion_tokens")
	if p.MaxTokensKey != "" && set&caps != 0 {
		set |= caps
	}
	return set
}

// policy is what an offer declares of prompts, itself or through its provider: who retains nothing collects nothing.
func policy(p *Provider, o *Offer) (noCollection, zdr bool) {
	switch {
	case o.ZDR != nil:
		zdr = *o.ZDR
	case p.ZDR != nil:
		zdr = *p.ZDR
	}
	return zdr || orElse(o.DataCollection, p.DataCollection) == "deny", zdr
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
