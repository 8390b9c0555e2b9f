package ledger

import (
	"time"

	"myip.co.kr/hearth"
)

// Budget is what may be spent in a period. An amount of 0 is no limit.
type Budget struct {
	Amount hearth.Nano
	Reset  hearth.Period
}

// left is what remains of a limit, never less than 0.
func left(limit, spent, held hearth.Nano) hearth.Nano { return max(limit-capped(spent, held), 0) }

// Wallet is whose money a request spends, and when.
type Wallet struct {
	Key      *hearth.Key
	Currency string    // the billing currency
	At       time.Time // when the request arrived; its zone rules where days begin
	External Budget    // bounds what all keys together spend at external providers
}

// Bounds says whether a limit rules what an attempt may cost, at an own slot or at an external provider.
func (w *Wallet) Bounds(external bool) bool {
	return w.Key.Limit > 0 || external && (w.Key.ExternalLimit > 0 || w.External.Amount > 0)
}

// Left is what may still be spent: limits less what was spent in their period and what is held back, never less than 0.
// nil = there is no limit.
type Left struct {
	All      *hearth.Nano // anywhere
	External *hearth.Nano // at external providers; All bounds it too
}

// Left is what the wallet holds.
func (l *Ledger) Left(w *Wallet) (v Left) {
	if !w.Bounds(true) {
		return v
	}
	all, external, ok := l.key(w)
	if w.Key.Limit > 0 {
		v.All = &all
	}
	if w.External.Amount > 0 {
		if rest := l.house(w); !ok || rest < external {
			external, ok = rest, true
		}
	}
	if ok {
		v.External = &external
	}
	return v
}

// key is what the key's own limits leave. ok: it has one for external providers.
func (l *Ledger) key(w *Wallet) (all, external hearth.Nano, ok bool) {
	u := l.purses.of(purseID{w.Key.ID, w.Currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.in(window(w.Key.LimitReset, w.At))
	return left(w.Key.Limit, s.spent, s.held), left(w.Key.ExternalLimit, s.outSpent, s.outHeld), w.Key.ExternalLimit > 0
}

// house is what the limit of all keys together leaves.
func (l *Ledger) house(w *Wallet) hearth.Nano {
	u := l.purses.of(purseID{house, w.Currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.in(window(w.External.Reset, w.At))
	return left(w.External.Amount, s.outSpent, s.outHeld)
}

// Hold is money held back for one attempt. The zero value holds nothing.
type Hold struct {
	key, house *purse // nil = nothing is held there
	day        int
	amount     hearth.Nano
	all, out   bool // which of the key's limits it counts to
}

// Hold holds back the worst case of an attempt before it is made, so that requests in flight together cannot overspend
// a limit. It is false if one does not cover it; without a limit everything is covered. Release it after Record.
func (l *Ledger) Hold(w *Wallet, worst hearth.Nano, external bool) (Hold, bool) {
	if !w.Bounds(external) {
		return Hold{}, true
	}
	h := Hold{day: dayOf(w.At), amount: max(worst, 0), all: w.Key.Limit > 0, out: external && w.Key.ExternalLimit > 0}
	if h.all || h.out {
		u := l.purses.of(purseID{w.Key.ID, w.Currency})
		if !u.hold(&h, w) {
			return Hold{}, false
		}
		h.key = u
	}
	if external && w.External.Amount > 0 {
		u := l.purses.of(purseID{house, w.Currency})
		if !u.holdOut(h.day, h.amount, w.External, w.At) {
			h.Release()
			return Hold{}, false
		}
		h.house = u
	}
	return h, true
}

// hold holds back the amount in a key's purse, if its limits cover it.
func (u *purse) hold(h *Hold, w *Wallet) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.in(window(w.Key.LimitReset, w.At))
	if h.all && h.amount > left(w.Key.Limit, s.spent, s.held) || h.out && h.amount > left(w.Key.ExternalLimit, s.outSpent, s.outHeld) {
		return false
	}
	return u.take(h.day, h.amount, h.all, h.out)
}

// holdOut is hold for the purse that all keys share.
func (u *purse) holdOut(day int, amount hearth.Nano, b Budget, at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.in(window(b.Reset, at))
	return amount <= left(b.Amount, s.outSpent, s.outHeld) && u.take(day, amount, false, true)
}

// take adds to what is held on a day. It is false if what is held on all days together could then not be counted: money
// held must be given back exactly. u.mu is held.
func (u *purse) take(day int, amount hearth.Nano, all, out bool) bool {
	held, outHeld := u.all.held, u.all.outHeld
	var err1, err2 error
	if all {
		held, err1 = held.Add(amount)
	}
	if out {
		outHeld, err2 = outHeld.Add(amount)
	}
	if err1 != nil || err2 != nil {
		return false
	}
	u.all.held, u.all.outHeld = held, outHeld
	s := u.on(day)
	if all {
		s.held += amount
	}
	if out {
		s.outHeld += amount
	}
	return true
}

// give takes back what take added.
func (u *purse) give(day int, amount hearth.Nano, all, out bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.on(day)
	if all {
		s.held -= amount
		u.all.held -= amount
	}
	if out {
		s.outHeld -= amount
		u.all.outHeld -= amount
	}
}

// Amount is what is held back.
func (h *Hold) Amount() hearth.Nano { return h.amount }

// Covers says whether the hold is enough for an attempt of the same request that may cost so much: it counts to every
// limit that bounds it.
func (h *Hold) Covers(w *Wallet, worst hearth.Nano, external bool) bool {
	switch {
	case !w.Bounds(external):
		return true
	case worst > h.amount, w.Key.Limit > 0 && !h.all:
		return false
	}
	return !external || (w.Key.ExternalLimit <= 0 || h.out) && (w.External.Amount <= 0 || h.house != nil)
}

// Home gives back what counts to limits for external providers: the next attempt is at an own slot.
func (h *Hold) Home() {
	if h.house != nil {
		h.house.give(h.day, h.amount, false, true)
		h.house = nil
	}
	if h.out {
		h.key.give(h.day, h.amount, false, true)
		h.out = false
	}
	if !h.all {
		*h = Hold{}
	}
}

// Release gives back what was held. Releasing twice does nothing.
func (h *Hold) Release() {
	if h.key != nil {
		h.key.give(h.day, h.amount, h.all, h.out)
	}
	if h.house != nil {
		h.house.give(h.day, h.amount, false, true)
	}
	*h = Hold{}
}
