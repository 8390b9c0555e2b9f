package server

import (
	"net/http"

	"myip.co.kr/hearth"
)

// explainJSON is the chain that a request would get, every drop and its reason.
type explainJSON struct {
	Candidates []candidateJSON `json:"candidates"`
	Dropped    []hearth.Drop   `json:"dropped"`
	Notes      []string        `json:"notes"`
	Estimate   int             `json:"estimate_tokens"`
}

type candidateJSON struct {
	Model        string     `json:"model"`
	ProviderSlug string     `json:"provider_slug"`
	Provider     string     `json:"provider"`
	Endpoint     string     `json:"endpoint"`
	Priority     int        `json:"priority"`
	Local        bool       `json:"local"`
	Slot         *slotJSON  `json:"slot,omitempty"`
	Cost         *priceJSON `json:"cost"`
	Reason       string     `json:"reason"`
}

// priceJSON is the price list of a candidate, per 1M tokens in the billing currency.
type priceJSON struct {
	Prompt     string `json:"prompt"`
	Completion string `json:"completion"`
	Currency   string `json:"currency"`
}

// explain answers with the chain of a request and calls nobody.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	req, ch, slots, err := s.Relay.Explain(w, r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Data explainJSON `json:"data"`
	}{explained(req, ch, slots, s.Catalog.Currency)})
}

func explained(req *hearth.Request, ch hearth.Chain, slots []hearth.SlotView, currency string) explainJSON {
	j := explainJSON{
		Candidates: []candidateJSON{}, Dropped: append([]hearth.Drop{}, ch.Drops...), Notes: append([]string{}, ch.Notes...),
		Estimate: req.Estimate,
	}
	for _, c := range ch.Candidates {
		e := c.Endpoint
		k := candidateJSON{
			Model: e.Model.ID, ProviderSlug: e.Provider.Slug, Provider: e.Provider.Name, Endpoint: e.ID, Priority: e.Priority,
			Local: e.Local(), Reason: c.Reason,
			Cost: &priceJSON{e.Price.Prompt.String(), e.Price.Completion.String(), currency},
		}
		if e.Slot != nil && e.Slot.Index < len(slots) {
			v := slots[e.Slot.Index]
			k.Slot = &slotJSON{State: v.State.String(), Node: e.Slot.Node.Name, Inflight: v.Inflight, Waiting: v.Waiting, LoadRest: v.LoadRest.Seconds()}
		}
		j.Candidates = append(j.Candidates, k)
	}
	return j
}
