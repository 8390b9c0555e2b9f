package account

import (
	"net/netip"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

const (
	// guessesPerMinute is how many keys that are not known may come from one address in a minute.
	guessesPerMinute = 20
	guessWindow      = time.Minute
	// maxGuessers bounds the addresses that are told apart; those beyond it count as one.
	maxGuessers = 4096
)

// guesses counts the keys that were not known, by the address they came from. Known keys are never counted: whoever
// shares an address with somebody who guesses, as all callers behind a proxy do, is served.
type guesses struct {
	mu    sync.Mutex
	began time.Time // of this minute's counts
	by    map[netip.Prefix]int
}

// take counts one guess. Without one left it returns how long there is none.
func (g *guesses) take(from netip.Prefix, now time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == nil || now.Sub(g.began) >= guessWindow {
		g.began, g.by = now, make(map[netip.Prefix]int)
	}
	from = g.counted(from)
	if g.by[from] >= guessesPerMinute {
		return g.began.Add(guessWindow).Sub(now), false
	}
	g.by[from]++
	return 0, true
}

// giveBack undoes take: the key was known after all.
func (g *guesses) giveBack(from netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if from = g.counted(from); g.by[from] > 0 {
		g.by[from]--
	}
}

// counted is under which prefix an address counts. g.mu is held.
func (g *guesses) counted(from netip.Prefix) netip.Prefix {
	if _, ok := g.by[from]; !ok && len(g.by) >= maxGuessers {
		return netip.Prefix{}
	}
	return from
}

// network is what one caller is taken to have: an IPv4 address, or the /64 that an IPv6 line gets. What is not an address,
// as the peer of a Unix socket, counts as one.
func network(remote string) netip.Prefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // bits fit the address
	return p
}

// tooManyGuesses is the answer to a key that is not known when too many others were not either.
func tooManyGuesses(wait time.Duration) error {
	e := hearth.Errorf(hearth.ErrRateLimited, "This API key is not known here, and too many such keys came from this address. "+
		"Check it for missing characters; a key that is known is accepted at once.")
	e.RetryAfter = wait
	return e
}
