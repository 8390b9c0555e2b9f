package routing

// means are what requests of a model are like, fading with time but never below some samples.
type means struct {
	At     float64 `json:"at"`
	N      float64 `json:"n,omitzero"`
	In     float64 `json:"in,omitzero"`     // prompt tokens as upstreams count them
	Guess  float64 `json:"guess,omitzero"`  // the same prompts as they were estimated
	Prefix float64 `json:"prefix,omitzero"` // of In, what a warm cache could hold
	Ons    float64 `json:"ons,omitzero"`    // requests that came to where their session's cache was: those of Prefix
	Went   float64 `json:"went,omitzero"`   // requests that went on with a conversation, wherever they came to
	Opened float64 `json:"opened,omitzero"` // requests that may have opened one: their session was not known
	Outs   float64 `json:"outs,omitzero"`   // answers whose length is known
	Out    float64 `json:"out,omitzero"`    // their tokens
}

const (
	startIn   = 1000.0 // tokens
	startOut  = 500.0  // tokens
	meanPrior = 2.0    // requests that these weigh as much as
	meanKeep  = 20.0   // requests that time does not take
)

func (m *means) fade(now float64) {
	f := fading(&m.At, now, halfLong)
	g := left(f, m.N, meanKeep)
	m.N, m.In, m.Guess, m.Prefix = m.N*g, m.In*g, m.Guess*g, m.Prefix*g
	m.Ons, m.Went, m.Opened = m.Ons*g, m.Went*g, m.Opened*g
	g = left(f, m.Outs, meanKeep)
	m.Outs, m.Out = m.Outs*g, m.Out*g
}

// add notes an answered request; what is 0 is not known.
func (m *means) add(now, in, guess, prefix, out float64) {
	m.fade(now)
	if in > 0 && guess > 0 {
		m.N++
		m.In += in
		m.Guess += guess
		if prefix > 0 {
			m.Prefix += min(prefix, in)
			m.Ons++
		}
	}
	if out > 0 {
		m.Outs++
		m.Out += out
	}
}

// condense writes the model's means into a view and settles the budget for exploration. mean is the model's mean request.
func (m *model) condense(at float64, v *view, k *market, o *Options) (mean query) {
	part := o.part()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fade(at)
	firsts, explored := m.firsts.Load(), m.explored.Load()
	m.budget += part*float64(firsts-m.counted) - float64(explored-m.paid)/1000
	m.budget = min(max(m.budget, -budgetMost), budgetMost)
	m.counted, m.paid = firsts, explored
	if v.probe = min(exploreHaste*part, 1); m.budget >= 1 {
		v.explore = min(v.probe*m.budget, 1)
	}
	v.kappa = m.premium.move(at, k.kappa, k.bound)
	m.views++
	v.number = m.views
	v.in = (m.In + meanPrior*startIn) / (m.N + meanPrior)
	v.perToken = perToken(v.in)
	v.out = (m.Out + meanPrior*startOut) / (m.Outs + meanPrior)
	v.later, v.prefix = m.later(), m.returning()
	v.real = (m.In + meanPrior*startIn) / (m.Guess + meanPrior*startIn)
	mean = query{in: v.in, out: v.out, kappa: v.kappa}
	mean.prefix, mean.trust, mean.special = m.Prefix/max(m.N, 1), -1, true
	return mean
}
