package hearth

import (
	"maps"
	"reflect"
)

// From says for each endpoint, by its Index, which endpoint of an earlier catalog it is: whose health and measurements
// count for it. -1 = none: it is new, or what is behind it is another model, account or engine by now.
func (c *Catalog) From(earlier *Catalog) []int {
	byID := make(map[string]*Endpoint, len(earlier.Endpoints))
	for _, e := range earlier.Endpoints {
		byID[e.ID] = e
	}
	from := make([]int, len(c.Endpoints))
	for i, e := range c.Endpoints {
		from[i] = -1
		if was := byID[e.ID]; was != nil && e.sameBehind(was) {
			from[i] = was.Index
		}
	}
	return from
}

// sameBehind says whether two endpoints with one ID ask the same model of the same account or engine.
func (e *Endpoint) sameBehind(o *Endpoint) bool {
	if e.UpstreamModel != o.UpstreamModel || e.Local() != o.Local() {
		return false
	}
	if e.Local() {
		a, b := e.Slot.Node, o.Slot.Node
		return e.Slot.Name == o.Slot.Name && a.Name == b.Name && reflect.DeepEqual(a.Remote, b.Remote) && e.Slot.SameStart(o.Slot)
	}
	return e.Provider.SameAccount(o.Provider)
}

// SameAccount says whether two providers are one account at one address.
func (p *Provider) SameAccount(o *Provider) bool {
	return p.Slug == o.Slug && p.BaseURL == o.BaseURL && p.APIKey == o.APIKey && maps.Equal(p.Headers, o.Headers)
}

// SameModel says whether two configurations of a slot promise the same answers.
func (s *Slot) SameModel(o *Slot) bool {
	return s.UpstreamModel == o.UpstreamModel && (s.Model == o.Model || s.Model != nil && o.Model != nil && s.Model.ID == o.Model.ID)
}

// SameStart says whether two configurations of a slot start the same engine.
func (s *Slot) SameStart(o *Slot) bool {
	line := func(s *Slot) Slot {
		return Slot{
			Driver: s.Driver, Engine: s.Engine, Command: s.Command, Env: s.Env, Dir: s.Dir, Port: s.Port, Actions: s.Actions,
			Preset: s.Preset, Container: s.Container, Docker: s.Docker, URL: s.URL, APIKey: s.APIKey, Probe: s.Probe,
		}
	}
	return s.SameModel(o) && reflect.DeepEqual(line(s), line(o))
}
