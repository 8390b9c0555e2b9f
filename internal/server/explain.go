package server

import (
	"net/http"

	"myip.co.kr/hearth"
)

// Explanation is the answer of POST /api/v1/chain.
type Explanation struct {
	Data Chain `json:"data"`
}

// Chain is the chain that a request would get now, every drop and its reason.
type Chain struct {
	Candidates []Candidate `json:"candidates"` // in the order in which they will be tried
	Dropped    []Dropped   `json:"dropped"`
	Notes      []string    `json:"notes"`           // what was accepted and ignored
	Estimate   int         `json:"estimate_tokens"` // generous size of the prompt, images not included
}

// Candidate is one endpoint in a chain.
type Candidate struct {
	Model        string    `json:"model"`
	ProviderSlug string    `json:"provider_slug"`
	Provider     string    `json:"provider"` // display name
	Endpoint     string    `json:"endpoint"`
	Priority     int       `json:"priority"`
	Local        bool      `json:"local"`
	Slot         *SlotView `json:"slot,omitempty"`
	Cost         Price     `json:"cost"`
	Reason       string    `json:"reason"` // why it stands where it stands
}

// Price is the price list of a candidate, per 1M tokens in the billing currency.
type Price struct {
	Prompt     string `json:"prompt"`
	Completion string `json:"completion"`
	Currency   string `json:"currency"`
}

// explain answers with the chain of a request and calls nobody.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	key, err := s.authorise(w, r)
	if err != nil {
		return err
	}
	raw, free, err := s.Relay.ReadBody(w, r)
	if err != nil {
		return err
	}
	defer free()
	x, err := s.Explain(raw, key)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, x)
}

// Explain is the answer of POST /api/v1/chain for a request body under a key; nil = one that may do everything.
func (s *Server) Explain(raw []byte, key *hearth.Key) (Explanation, error) {
	x, err := s.Relay.Explain(raw, key)
	if err != nil {
		return Explanation{}, err
	}
	j := Chain{
		Candidates: []Candidate{}, Dropped: []Dropped{},
		Notes: append([]string{}, x.Chain.Notes...), Estimate: x.In.Request.Estimate,
	}
	for _, d := range x.Chain.Drops {
		j.Dropped = append(j.Dropped, dropped(d))
	}
	for _, c := range x.Chain.Candidates {
		e := c.Endpoint
		k := Candidate{
			Model: e.Model.ID, ProviderSlug: e.Provider.Slug, Provider: e.Provider.Name, Endpoint: e.ID, Priority: e.Priority,
			Local: e.Local(), Reason: c.Reason,
			Cost: Price{e.Price.Prompt.String(), e.Price.Completion.String(), s.Catalog.Currency},
		}
		if e.Slot != nil && e.Slot.Index < len(x.In.Views.Slots) {
			k.Slot = slotView(e.Slot, x.In.Views.Slots[e.Slot.Index])
		}
		j.Candidates = append(j.Candidates, k)
	}
	return Explanation{j}, nil
}
