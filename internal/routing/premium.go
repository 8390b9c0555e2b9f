package routing

import (
	"math"
	"time"
)

// premium keeps what a model's requests cost within a bound over a mix of its endpoints by price alone, each with a share
// of one over the square of its price. The value of time gives way: it falls while the bound is exceeded and rises again,
// up to what is configured. Requests with a value of time of their own, such as their key's, are neither bounded nor counted.
type premium struct {
	Paid    share   `json:"paid"`             // what requests were expected to cost in the mix, and where they went
	Kappa   float64 `json:"kappa,omitzero"`   // the value of time in force, 0 = as configured
	Most    float64 `json:"most,omitzero"`    // what was configured when it last moved
	Stepped float64 `json:"stepped,omitzero"` // when it last moved
}

const (
	// The gain is so low that what is measured, some three minutes late, does not make it swing: at twice the bound it falls
	// by half in six minutes, at three times the bound in three.
	premiumHalf  = 120.0 // seconds
	premiumEvery = 5.0   // seconds between two moves
	premiumGain  = 0.01
	premiumLeast = 0.1 // value of time, unless less is configured
)

// move is the value of time from now on. most is the configured one, bound the part of the mix's price that may be paid
// on top; 0 = any.
func (p *premium) move(now, most, bound float64) float64 {
	if bound <= 0 || most <= premiumLeast {
		p.Kappa = 0
		return most
	}
	if p.Kappa == 0 {
		p.Kappa, p.Stepped = most, now
	}
	if p.Kappa == p.Most { // nothing held it down
		p.Kappa = most
	}
	p.Most = most
	if steps := math.Floor((now - p.Stepped) / premiumEvery); steps >= 1 || steps < 0 {
		p.Stepped = now
		if p.Paid.fade(now, premiumHalf); p.Paid.Of > 0 {
			over := p.Paid.Part/p.Paid.Of - 1
			p.Kappa *= math.Exp(premiumGain * min(max(steps, 1), 12) * min(max((bound-over)/bound, -2), 1))
		}
	}
	p.Kappa = min(max(p.Kappa, premiumLeast), most)
	return p.Kappa
}

// pays notes where a request of the model went, and what the mix would have paid for it. d says where
// that would have sent it.
func (t *Try) pays(q *query, v *view, to *row, d draws) {
	var usual [tierUsual]lot
	lots := usual[:0]
	for i := range v.rows {
		r := &v.rows[i]
		if r.priority != to.priority || r != to && r.end.shut.Load() != 0 {
			continue
		}
		l := lot{row: int32(i), price: r.price(q, q.in*r.cold)}
		if l.price <= 0 {
			return // with something for nothing there is no mix
		}
		if q.warm != nil {
			l.saved = l.price - r.price(q, q.warmAt(r))
		}
		lots = append(lots, l)
	}
	paid, m := to.price(q, q.cached(to)), t.k.model
	m.mu.Lock()
	if price, ok := t.k.mix.send(lots, v, t.sent, d.next(), d.next()); ok {
		m.premium.Paid.add(t.sent, premiumHalf, price, paid)
	}
	m.mu.Unlock()
}

// warmAt is what the endpoint's cache would hold if the session were warm there.
func (q *query) warmAt(r *row) float64 {
	warm := *q
	if q.warm != nil {
		warm.warm = r.end
	}
	return warm.cached(r)
}

// Premium is by how much the requests of a model cost more, lately, than in a mix by price alone, as a part of that, and
// the value of time in force. ok is false if the model is unknown or nothing was sent.
func (r *Router) Premium(model string, now time.Time) (part, kappa float64, ok bool) {
	for _, k := range r.markets {
		if m := k.model; m.id == model {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.premium.Paid.Of <= 0 {
				return 0, k.view.Load().kappa, false
			}
			return m.premium.Paid.Part/m.premium.Paid.Of - 1, k.view.Load().kappa, true
		}
	}
	return 0, 0, false
}
