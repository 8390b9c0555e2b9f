package account

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// here is where the callers of most tests are.
const here = "192.0.2.1:4711"

func TestAuthorise_Guessing(t *testing.T) {
	a := newAccounts(t)
	plain, known := create(t, a, "laptop", false)
	guess := func(i int, from string) *hearth.Error {
		t.Helper()
		_, err := a.Authorise(bearer("sk-myip-guess-"+strconv.Itoa(i)), from)
		return refusal(err)
	}
	for i := range guessesPerMinute {
		if e := guess(i, here); e == nil || e.Type != hearth.ErrUnauthorized {
			t.Fatalf("guess %d: %v", i, e)
		}
	}
	looks := func() string {
		a.refreshing.Lock()
		defer a.refreshing.Unlock()
		return fmt.Sprint(a.second, a.looks)
	}
	before := looks()
	e := guess(100, "192.0.2.1:9999")
	if after := looks(); after != before {
		t.Errorf("the database was asked for it: %s, then %s", before, after)
	}
	if e == nil || e.Type != hearth.ErrRateLimited || e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Errorf("one guess more: %+v", e)
	}
	if e := guess(101, "192.0.2.2:4711"); e == nil || e.Type != hearth.ErrUnauthorized {
		t.Errorf("another address: %v", e)
	}
	if k, err := a.Authorise(bearer(plain), here); err != nil || k.ID != known.ID {
		t.Errorf("the right key from the address that guesses: %v", err)
	}
	a.guesses.began = a.guesses.began.Add(-time.Minute)
	if e := guess(102, here); e == nil || e.Type != hearth.ErrUnauthorized {
		t.Errorf("a minute later: %v", e)
	}
}

// A key that another process has just made is no guess.
func TestAuthorise_NewKeysAreNoGuesses(t *testing.T) {
	a := newAccounts(t)
	for i := range guessesPerMinute + 1 {
		plain, _ := create(t, a, "program "+strconv.Itoa(i), false)
		a.view.Store(&view{version: -1})
		a.refreshing.Lock()
		a.looks = 0
		a.refreshing.Unlock()
		if _, err := a.Authorise(bearer(plain), here); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
}

// The table stays small whoever guesses, and those who are in it keep their counts.
func TestGuesses_Bounded(t *testing.T) {
	var g guesses
	now := time.Now()
	first := network(here)
	g.take(first, now)
	allowed := 0
	for i := range uint32(3 * maxGuessers) {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], 10<<24|i)
		if _, ok := g.take(netip.PrefixFrom(netip.AddrFrom4(ip), 32), now); ok {
			allowed++
		}
	}
	if len(g.by) > maxGuessers+1 {
		t.Errorf("%d addresses are kept", len(g.by))
	}
	if want := maxGuessers - 1 + guessesPerMinute; allowed != want {
		t.Errorf("%d guesses allowed, want %d: one of each that is told apart, and those of one more", allowed, want)
	}
	for i := range guessesPerMinute {
		if _, ok := g.take(first, now); ok != (i < guessesPerMinute-1) {
			t.Errorf("guess %d of the first: allowed %v", i+2, ok)
		}
	}
}

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:80":                        "192.0.2.7/32",
		"[::ffff:192.0.2.7]:80":               "192.0.2.7/32",
		"[2001:db8:1:2:3:4:5:6]:80":           "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff:ffff:ffff:1]:443": "2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:80":                "2001:db8:1:3::/64",
		"[fe80::1%eth0]:80":                   "fe80::/64",
		"@":                                   "invalid Prefix",
		"":                                    "invalid Prefix",
	} {
		if got := network(remote).String(); got != want {
			t.Errorf("%q is %s, want %s", remote, got, want)
		}
	}
}
