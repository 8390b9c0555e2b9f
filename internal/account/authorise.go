package account

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// Authorise finds the key a request was sent with, in "Authorization: Bearer KEY" or "x-api-key: KEY" (what
// Anthropic's clients send; looked at only without an Authorization header). Query and cookies do not count.
//
// The key is hashed whatever it is and the hash looked up, so the time taken says nothing about how much of a
// guess was right. remote is the caller's address as net/http has it: when many unknown keys came from there, further ones
// are not looked for. The error is a *hearth.Error of type unauthorized or, then, rate_limited; it never repeats what was
// sent. The key returned is shared: it must not be changed.
func (a *Accounts) Authorise(h http.Header, remote string) (*hearth.Key, error) {
	plain, err := presented(h)
	if err != nil {
		return nil, err
	}
	var buf [maxPlain]byte
	n := copy(buf[:], plain)
	hash := hearth.KeyHash(sha256.Sum256(buf[:n]))
	k := a.view.Load().keys[hash]
	if k == nil {
		if k, err = a.unseen(hash, remote); err != nil {
			return nil, err
		}
	}
	switch {
	case k.Deleted:
		return nil, hearth.Errorf(hearth.ErrUnauthorized, "This API key was deleted. Ask the operator for another one.")
	case k.Disabled:
		return nil, hearth.Errorf(hearth.ErrUnauthorized, "This API key is disabled. Ask the operator for another one.")
	case expired(&k.Key, time.Now()):
		return nil, hearth.Errorf(hearth.ErrUnauthorized, "This API key expired at %s. Ask the operator for another one.", k.ExpiresAt.Format(time.RFC3339))
	}
	if !k.used.Load() {
		k.used.Store(true)
	}
	return &k.Key, nil
}

// unseen looks for a key that may have been made a moment ago.
func (a *Accounts) unseen(hash hearth.KeyHash, remote string) (*known, error) {
	from := network(remote)
	if wait, ok := a.guesses.take(from, time.Now()); !ok {
		return nil, tooManyGuesses(wait)
	}
	k := a.lookFor(hash)
	if k == nil {
		return nil, hearth.Errorf(hearth.ErrUnauthorized,
			"This API key is not known here. Check it for missing characters, or ask the operator for one (hearth keys create NAME).")
	}
	a.guesses.giveBack(from)
	return k, nil
}

// presented takes the key out of the headers.
func presented(h http.Header) (string, error) {
	values := h["Authorization"]
	if len(values) == 0 {
		values = h["X-Api-Key"]
		switch {
		case len(values) == 0:
			return "", hearth.Errorf(hearth.ErrUnauthorized,
				`No API key was sent. Send it in the header "Authorization: Bearer %s…".`, DefaultPrefix)
		case len(values) > 1:
			return "", hearth.Errorf(hearth.ErrUnauthorized, "The header x-api-key stands there more than once. Send one key.")
		}
		return acceptable("x-api-key", strings.TrimSpace(values[0]))
	}
	if len(values) > 1 {
		return "", hearth.Errorf(hearth.ErrUnauthorized, "The header Authorization stands there more than once. Send one key.")
	}
	scheme, plain, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", hearth.Errorf(hearth.ErrUnauthorized,
			`The header Authorization must be the word Bearer, a space and the API key: "Authorization: Bearer %s…".`, DefaultPrefix)
	}
	return acceptable("Authorization", strings.TrimSpace(plain))
}

// acceptable refuses what no key can be, before it is hashed.
func acceptable(header, plain string) (string, error) {
	if plain == "" {
		return "", hearth.Errorf(hearth.ErrUnauthorized,
			"The header %s holds no API key. Is the variable it is taken from set?", header)
	}
	if len(plain) > maxPlain || !headerSafe(plain) {
		return "", hearth.Errorf(hearth.ErrUnauthorized,
			"What the header %s holds cannot be an API key: a key has up to %d printable characters and no spaces.", header, maxPlain)
	}
	return plain, nil
}
