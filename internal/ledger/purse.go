package ledger

import (
	"context"
	"fmt"
	"math"
	"sort"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// purses know what every key has spent on each day, and what is held back for its requests in flight. Spending counts from
// the moment of Record; what is held back lives in memory only, so a process that dies gives it back.
//
// A request belongs to the day on which it arrived, by its own record: what was spent in a period is the sum of the records
// dated in it. So no clock decides what is forgotten. One that is set back finds the sums of the day it is set back to.
type purses struct {
	mu sync.RWMutex
	by map[purseID]*purse
}

// purseID: sums in another currency, from before the billing currency was changed, count to no limit.
type purseID struct{ key, currency string }

// house is the place of a key in the id of the purse that all keys share. It counts what is spent at external providers.
const house = "\x00house"

// sum is money spent and money held back. Out is the part of external providers.
type sum struct{ spent, held, outSpent, outHeld hearth.Nano }

func (s *sum) add(o sum) {
	s.spent, s.held = capped(s.spent, o.spent), capped(s.held, o.held)
	s.outSpent, s.outHeld = capped(s.outSpent, o.outSpent), capped(s.outHeld, o.outHeld)
}

type daySum struct {
	day int
	sum
}

type purse struct {
	mu   sync.Mutex
	days []daySum // ascending; only those on which something was spent or held, about 40 bytes each
	all  sum
}

func newPurses() *purses { return &purses{by: make(map[purseID]*purse)} }

// read takes over what the store has.
func (p *purses) read(ctx context.Context, s *store.Store) error {
	return s.EachDay(ctx, firstDate, lastDate, func(d store.DaySpend) error {
		at, err := time.Parse(time.DateOnly, d.Day)
		if err != nil {
			return fmt.Errorf("day of a sum: %w", err)
		}
		p.count(d.KeyID, d.Currency, dayOf(at), d.Cost, d.External)
		return nil
	})
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
	p.count(g.KeyID, g.Bill.Currency, dayOf(g.CreatedAt), g.Bill.Cost, store.External(g.Slug))
}

func (p *purses) count(key, currency string, day int, cost hearth.Nano, external bool) {
	if cost <= 0 {
		return
	}
	s := sum{spent: cost}
	if external {
		s.outSpent = cost
		p.of(purseID{house, currency}).spend(day, s)
	}
	p.of(purseID{key, currency}).spend(day, s)
}

func (u *purse) spend(day int, s sum) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.on(day).add(s)
	u.all.add(s)
}

// on finds the sums of a day, and makes them if need be. u.mu is held; the pointer holds until it is let go.
func (u *purse) on(day int) *sum {
	n := len(u.days)
	i := n
	if n > 0 && u.days[n-1].day >= day {
		i = sort.Search(n, func(i int) bool { return u.days[i].day >= day })
	}
	if i == n || u.days[i].day != day {
		u.days = append(u.days, daySum{})
		copy(u.days[i+1:], u.days[i:])
		u.days[i] = daySum{day: day}
	}
	return &u.days[i].sum
}

// in is the sum of a window. u.mu is held.
func (u *purse) in(from, to int) (s sum) {
	if from == math.MinInt {
		return u.all
	}
	for i := len(u.days) - 1; i >= 0 && u.days[i].day >= from; i-- {
		if u.days[i].day < to {
			s.add(u.days[i].sum)
		}
	}
	return s
}

// capped is a sum of amounts of which none is negative; it stops at the largest amount.
func capped(a, b hearth.Nano) hearth.Nano {
	if sum, err := a.Add(b); err == nil {
		return sum
	}
	return math.MaxInt64
}

// Spent is what a key has spent, in one currency.
type Spent struct {
	Ever, Day, Week, Month hearth.Nano // the last three in the periods in which the instant asked about lies
	External               hearth.Nano // of Ever, at external providers
}

// Spent is what a key has spent by now. The periods are those of at, whose zone rules them.
func (l *Ledger) Spent(keyID, currency string, at time.Time) Spent {
	u := l.purses.of(purseID{keyID, currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	in := func(p hearth.Period) hearth.Nano { return u.in(window(p, at)).spent }
	return Spent{Ever: u.all.spent, Day: in(hearth.Daily), Week: in(hearth.Weekly), Month: in(hearth.Monthly), External: u.all.outSpent}
}

// SpentIn is what a key has spent in the period in which an instant lies, in all and at external providers.
func (l *Ledger) SpentIn(keyID, currency string, p hearth.Period, at time.Time) (all, external hearth.Nano) {
	u := l.purses.of(purseID{keyID, currency})
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.in(window(p, at))
	return s.spent, s.outSpent
}
