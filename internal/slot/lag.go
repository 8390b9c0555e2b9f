package slot

import "time"

// A slot whose requests are lost more often than those of the others lags behind. That is made good again: its turns come
// sooner and last longer, those of the others less long.
const (
	// rounds is over about how many rounds of turns it is remembered what became of the requests.
	rounds = 10
	// unproven is how many requests a slot is taken to have had that fared like those of all, so that a few prove little.
	unproven = 20
	// longer is by how many rounds the turn of a slot is longer of which all requests are lost and of the others none: a
	// slot that lags by an eighth may stay for a round.
	longer = 8
	// shorter is the same for those that are ahead.
	shorter = 4
	// sooner is by how many of the times for which its requests may wait its turn comes sooner.
	sooner = 12
	// fairly is how much worse or better than others a slot may fare without anything being done about it.
	fairly = 0.01
)

// fared notes whether a request was served. A hasty one does not count: no order of turns can serve all of those, and whoever
// sends some would bring their model turns at the cost of the others.
func (st *state) fared(r *request, served bool) {
	if r.hasty {
		return
	}
	p := r.place
	span := st.recalled(p)
	p.left.add(st.now, span)
	if !served {
		p.forgone.add(st.now, span)
	}
}

// recalled is over how long it is remembered how requests for p fared.
func (st *state) recalled(p *place) time.Duration {
	d := p.Wait + p.load()
	for _, o := range st.slots {
		if st.vie(p, o) {
			d += o.load()
		}
	}
	return rounds * d
}

// lag is by what part more of p's requests were lost lately than of those of all that take turns with it.
func (st *state) lag(p *place) float64 {
	span := st.recalled(p)
	left, forgone := p.left.over(st.now, span), p.forgone.over(st.now, span)
	all, lost := left, forgone
	for _, o := range st.slots {
		if st.vie(p, o) {
			all += o.left.over(st.now, span)
			lost += o.forgone.over(st.now, span)
		}
	}
	if lost == 0 {
		return 0
	}
	return (forgone+unproven*lost/all)/(left+unproven) - lost/all
}

// round is how long the loads of one round take in which p and all that others ask for have their turns, and how many turns
// that are.
func (st *state) round(p *place) (loads time.Duration, turns int) {
	loads, turns = p.load(), 1
	for _, o := range st.slots {
		if o.demanded() && st.vie(p, o) {
			loads += o.load()
			turns++
		}
	}
	return loads, turns
}

// catchUp is how much longer p's turn lasts because it lags behind, at most a round; below zero, how much less long because
// it is ahead.
func (st *state) catchUp(p *place) time.Duration {
	by := st.lag(p)
	switch {
	case by > fairly:
		by = longer * (by - fairly)
	case by < -fairly:
		by = shorter * (by + fairly)
	default:
		return 0
	}
	loads, _ := st.round(p)
	return time.Duration(max(-1, min(1, by)) * float64(p.Wait+loads))
}
