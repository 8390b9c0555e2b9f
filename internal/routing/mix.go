package routing

import "math"

// priceMix is where a model's requests would be under way if price alone decided: each drawn by one over the square of the
// price, among the endpoints that have failed and refused nobody for half a minute; who would be goes to the cheapest with
// room. That is how OpenRouter shared traffic before it had a Routing Cost, and what max_premium is held against.
type priceMix []mixedIn // by row

// mixedIn is one endpoint in it.
type mixedIn struct {
	at     float64 // when flight was last faded
	flight float64 // requests that would be under way
	until  float64 // up to then it would be left alone
}

const (
	mixRest     = 30.0     // seconds for which who has failed or refused somebody is left alone
	mixOverPeak = 1.5      // times what was under way lately, and
	mixMore     = 2.0      // requests: an endpoint is taken to have no more room than that
	mixSalt     = 0x6d6978 // so that the mix does not draw what the router has drawn
)

// lot is what a request would cost at an endpoint.
type lot struct {
	row    int32
	price  float64
	saved  float64 // of it, if the session's cache were there
	weight float64 // its share before it is divided by the sum
}

// send is what the mix pays for a request on average, with a warm cache as often as it had sent the session's last request
// to the same endpoint; and puts the request where it would go. drawn says where, luck whether it fails there, both from 0
// to 1. It is not ok if all would be left alone.
func (m *priceMix) send(lots []lot, v *view, now, drawn, luck float64) (price float64, ok bool) {
	if len(*m) != len(v.rows) {
		*m = make(priceMix, len(v.rows))
	}
	var weights, sum, saved float64
	for i := range lots {
		l := &lots[i]
		r, e := &v.rows[l.row], &(*m)[l.row]
		if e.rests(now) {
			continue
		}
		switch {
		case math.IsInf(r.mixCap, 1):
			e.flight = 0 // whatever it is, there is room
		case e.flight > 0:
			e.flight *= math.Exp(-max(now-e.at, 0) / max(r.slowTTFT+v.out*r.slowDecode, 1e-3))
		}
		e.at = now
		w := 1 / (l.price * l.price)
		l.weight = w
		weights, sum, saved = weights+w, sum+w*l.price, saved+w*w*l.saved
	}
	if !(weights > 0) || math.IsInf(weights*weights, 1) {
		return 0, false
	}
	m.place(lots, v, now, drawn*weights, luck)
	return (sum - saved/weights) / weights, true
}

// place counts the request where it would go. drawn is from 0 to the sum of the weights.
func (m *priceMix) place(lots []lot, v *view, now, drawn, luck float64) {
	var to, cheapest *mixedIn
	lowest, found := math.Inf(1), false
	for i := range lots {
		l := &lots[i]
		e := &(*m)[l.row]
		if e.rests(now) {
			continue
		}
		full := e.flight+1 > v.rows[l.row].mixCap
		if drawn -= l.weight; drawn < 0 && !found {
			if found = true; full || luck < v.rows[l.row].errors {
				e.until = now + mixRest
			} else {
				to = e
			}
		}
		if !full && !e.rests(now) && l.price < lowest {
			cheapest, lowest = e, l.price
		}
	}
	if to == nil {
		to = cheapest
	}
	if to != nil {
		to.flight++
	}
}

// rests says whether the endpoint is left alone. A clock that was set back does not keep it out.
func (e *mixedIn) rests(now float64) bool { return now < e.until && e.until <= now+mixRest }
