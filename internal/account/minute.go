package account

import (
	"math"
	"strconv"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

// Minutes keeps what keys have used of their limits per minute. The zero value is ready. Its methods may be called from many
// goroutines; keys without such a limit cost nothing.
//
// A limit is a bucket (a token bucket, https://en.wikipedia.org/wiki/Token_bucket): what is used fills it, and it empties
// evenly, a whole one in a minute. So a key may use its limit at once, and then again as much as the time that passed gives
// back. In any time no more is used than one limit and what has run out in that time, but for answers that turn out longer
// than what was held for them: they are worked off before anything else is let in.
type Minutes struct {
	mu    sync.Mutex
	by    map[string]*minute // by key id
	sweep int                // how many there must be before idle ones are looked for again
}

// minute is what one key has used.
type minute struct {
	requests, tokens bucket
	live             int // requests whose tokens are not known yet
}

const (
	// whole is one request or token, in the parts that buckets count: a limit of 1 lets one part run out in a microsecond.
	// So everything is exact, and the largest level, of longest minutes at maxTokens, is 3.6·10¹⁸.
	whole = int64(time.Minute / time.Microsecond)
	// longest is how many minutes a key is refused at most for what it used more than it had.
	longest = 60
	// minSweep is the least number of keys at which idle ones are looked for.
	minSweep = 64
)

// bucket is how much of a limit is used, in parts.
type bucket struct {
	limit int64
	level int64
	at    time.Time // as of then
}

// turn brings a bucket up to an instant and to the limit that holds then. What was used of another limit stays used, up to
// all of the new one.
func (b *bucket) turn(limit int64, now time.Time) {
	if b.limit > 0 {
		if gone := now.Sub(b.at) / time.Microsecond; gone > 0 { // else of a request that looked at its clock before another
			b.at = b.at.Add(gone * time.Microsecond)
			if int64(gone) > b.level/b.limit {
				b.level = 0
			} else {
				b.level -= int64(gone) * b.limit
			}
		}
	} else {
		b.at = now
	}
	if b.limit != limit {
		b.limit, b.level = limit, min(b.level, limit*whole)
	}
}

// wait is how long it takes until n more fit in, if nothing else is put in.
func (b *bucket) wait(n int64) time.Duration {
	if b.limit == 0 {
		return 0
	}
	return b.runsOut(b.level - (b.limit-n)*whole)
}

// runsOut is how long it takes until so many parts have run out.
func (b *bucket) runsOut(parts int64) time.Duration {
	if parts <= 0 {
		return 0
	}
	return time.Duration((parts-1)/b.limit+1) * time.Microsecond
}

// add puts n into the bucket, or takes it out.
func (b *bucket) add(n int64) {
	if b.limit > 0 {
		most := longest * b.limit
		b.level = min(max(b.level+min(max(n, -most), most)*whole, 0), most*whole)
	}
}

func (b *bucket) allowance() Allowance {
	if b.limit == 0 {
		return Allowance{}
	}
	return Allowance{Limit: b.limit, Left: max(b.limit*whole-b.level, 0) / whole, Reset: b.runsOut(b.level)}
}

// Allowance is what is left of a limit per minute.
type Allowance struct {
	Limit int64         // 0 = there is none
	Left  int64         // how much may be used at once
	Reset time.Duration // until all of it may, if nothing is used meanwhile
}

// Allowances are what the limits of a key leave.
type Allowances struct{ Requests, Tokens Allowance }

// Use is one admitted request. The zero value is one of a key without limits. It must not be copied once it is in use.
type Use struct {
	of   *Minutes
	m    *minute
	held int64
}

// Admit lets a request of a key in if its limits per minute have room for it and for the tokens that it may use as far as one
// knows: they are held until Settle says how many they were. It also tells what is left after that. The error is a
// *hearth.Error: rate_limited, with the time after which the request would be let in, or payload_too_large if it never can be.
// Nothing is used by a request that is not let in.
func (l *Minutes) Admit(k *hearth.Key, tokens int64, now time.Time) (Use, Allowances, error) {
	if k.RequestsPerMinute <= 0 && k.TokensPerMinute <= 0 {
		return Use{}, Allowances{}, nil
	}
	return l.admit(k, max(tokens, 0), now)
}

func (l *Minutes) admit(k *hearth.Key, tokens int64, now time.Time) (Use, Allowances, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.of(k.ID, now)
	m.requests.turn(max(k.RequestsPerMinute, 0), now)
	m.tokens.turn(max(k.TokensPerMinute, 0), now)
	left := func() Allowances { return Allowances{m.requests.allowance(), m.tokens.allowance()} }
	if limit := m.tokens.limit; limit > 0 && tokens > limit {
		return Use{}, left(), tooMany(tokens, limit)
	}
	if wait := m.requests.wait(1); wait > 0 {
		return Use{}, left(), tooOften("requests", m.requests.limit, max(wait, m.tokens.wait(tokens)))
	}
	if wait := m.tokens.wait(tokens); wait > 0 {
		return Use{}, left(), tooOften("tokens", m.tokens.limit, wait)
	}
	m.requests.add(1)
	m.tokens.add(tokens)
	m.live++
	if m.tokens.limit == 0 {
		tokens = 0 // a limit that comes meanwhile is not to give back what it never held
	}
	return Use{l, m, tokens}, left(), nil
}

// of is what the key with an id has used. l.mu is held.
func (l *Minutes) of(id string, now time.Time) *minute {
	if m := l.by[id]; m != nil {
		return m
	}
	if l.by == nil {
		l.by, l.sweep = make(map[string]*minute), minSweep
	}
	if len(l.by) >= l.sweep {
		for id, m := range l.by {
			m.requests.turn(m.requests.limit, now)
			m.tokens.turn(m.tokens.limit, now)
			if m.live == 0 && m.requests.level == 0 && m.tokens.level == 0 {
				delete(l.by, id)
			}
		}
		l.sweep = max(2*len(l.by), minSweep)
	}
	m := new(minute)
	l.by[id] = m
	return m
}

// Settled says that nothing is left to be settled.
func (u *Use) Settled() bool { return u.m == nil }

// Settle puts the tokens that a request has used in the place of those that were held for it. What is settled once stays so:
// further calls do nothing.
func (u *Use) Settle(tokens int64, now time.Time) {
	if u.m == nil {
		return
	}
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.m.tokens.turn(u.m.tokens.limit, now)
	u.m.tokens.add(max(tokens, 0) - u.held)
	u.m.live--
	*u = Use{}
}

// tooOften is the answer to a request for which there is room later.
func tooOften(what string, limit int64, wait time.Duration) error {
	e := hearth.Errorf(hearth.ErrRateLimited, "this API key may use %d %s a minute, and they are used: this request is let in %s from now", limit, what, seconds(wait))
	e.RetryAfter = wait
	return e
}

// seconds is a duration in words, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) + " s"
}

// tooMany is the answer to a request for which there never is room. It is no rate_limited: whoever waits for that waits in vain.
func tooMany(tokens, limit int64) error {
	return hearth.Errorf(hearth.ErrPayloadTooLarge, "this request may use about %d tokens, its prompt and the most it lets the answer have together, and this API key "+
		"may use %d in a whole minute: no waiting helps. Shorten the prompt, lower max_tokens, or ask the operator for more (hearth keys set KEY --tpm N)", tokens, limit)
}

// Pending is how many admitted requests are not settled yet.
func (l *Minutes) Pending() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.by {
		n += m.live
	}
	return n
}
