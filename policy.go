package hearth

import "github.com/shopspring/decimal"

// TierMode says how the own slots of a model stand to its external endpoints. Under the caller's own order or sort it
// counts for nothing.
type TierMode string

const (
	TierStrict TierMode = "strict" // by priority alone
	// TierSpill: a slot whose first token is expected more than SpillAfter later than that of the best endpoint of the next
	// tier stands behind that tier.
	TierSpill TierMode = "spill"
	// TierCost: slots and external endpoints stand by what they charge and what the wait for them costs.
	TierCost TierMode = "cost"
)

// ProbePolicy says which endpoints that have failed are asked by the gateway itself whether they answer again.
type ProbePolicy string

const (
	ProbeOff    ProbePolicy = "off"  // none; also what "" means
	ProbeFree   ProbePolicy = "free" // those that cost nothing
	ProbeAlways ProbePolicy = "always"
)

// Probed says whether the gateway itself may send requests to the endpoint at its own cost.
func (e *Endpoint) Probed() bool {
	if e.Local() || e.Disabled || e.Stale {
		return false
	}
	return e.Provider.Probe == ProbeAlways || e.Provider.Probe == ProbeFree && e.Free()
}

// Free says whether nothing that an answer of the endpoint may be charged by has a price. What the upstream itself names
// is not known before.
func (e *Endpoint) Free() bool {
	if e.Reported || !e.List.free() {
		return false
	}
	for i := range e.Steps {
		if !e.Steps[i].List.free() {
			return false
		}
	}
	return true
}

func (p *Price) free() bool {
	for _, d := range [...]*decimal.Decimal{&p.Prompt, &p.Completion, &p.CacheRead, &p.CacheWrite, &p.Reasoning, &p.Image, &p.Request} {
		if !d.IsZero() {
			return false
		}
	}
	return true
}
