package ledger

import (
	"math"
	"sync"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// purses know what every key has spent, and what is held back for its requests in flight. Spending counts from the moment
// of Record; what is held back lives in memory only, so a process that dies gives it back.
type purses struct {
	mu sync.RWMutex
	by map[purseID]*purse
}

// purseID: sums in another currency, from before the billing currency was changed, count to no limit.
type purseID struct{ key, currency string }

type purse struct {
	mu          sync.Mutex
	spent, held hearth.Nano
}

func newPurses(totals []store.Total) *purses {
	p := &purses{by: make(map[purseID]*purse, len(totals))}
	for _, t := range totals {
		p.by[purseID{t.KeyID, t.Currency}] = &purse{spent: t.Cost}
	}
	return p
}

func (p *purses) of(id purseID) *purse {
	p.mu.RLock()
	u := p.by[id]
	p.mu.RUnlock()
	if u != nil {
		return u
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if u = p.by[id]; u == nil {
		u = new(purse)
		p.by[id] = u
	}
	return u
}

// spend counts a recorded generation.
func (p *purses) spend(g *hearth.Generation) {
	if g.Bill.Cost <= 0 {
		return
	}
	u := p.of(purseID{g.KeyID, g.Bill.Currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spent = capped(u.spent, g.Bill.Cost)
}

// capped is a sum of amounts of which none is negative; it stops at the largest amount.
func capped(a, b hearth.Nano) hearth.Nano {
	if sum, err := a.Add(b); err == nil {
		return sum
	}
	return math.MaxInt64
}

// Left is what a key with a spend limit may still spend: its limit less what it spent and what is held back, never less
// than 0. limited is false for a key without one.
func (l *Ledger) Left(key *hearth.Key, currency string) (left hearth.Nano, limited bool) {
	if key.Limit <= 0 {
		return 0, false
	}
	u := l.purses.of(purseID{key.ID, currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left(key.Limit), true
}

func (u *purse) left(limit hearth.Nano) hearth.Nano { return max(limit-capped(u.spent, u.held), 0) }

// Hold is money held back for one attempt. The zero value holds nothing.
type Hold struct {
	purse  *purse
	amount hearth.Nano
}

// Hold holds back the worst case of an attempt before it is made, so that requests in flight together cannot overspend
// the key's limit. It is false if the key cannot pay for it; a key without a limit can pay for everything. Release it
// after Record.
func (l *Ledger) Hold(key *hearth.Key, currency string, worst hearth.Nano) (Hold, bool) {
	if key.Limit <= 0 {
		return Hold{}, true
	}
	worst = max(worst, 0)
	u := l.purses.of(purseID{key.ID, currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	if worst > u.left(key.Limit) {
		return Hold{}, false
	}
	u.held += worst
	return Hold{u, worst}, true
}

// Amount is what is held back.
func (h Hold) Amount() hearth.Nano { return h.amount }

// Release gives back what was held. Releasing twice does nothing.
func (h *Hold) Release() {
	if h.purse == nil {
		return
	}
	h.purse.mu.Lock()
	h.purse.held -= h.amount
	h.purse.mu.Unlock()
	*h = Hold{}
}
