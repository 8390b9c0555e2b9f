package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/upstream"
)

// fail ends a request of which every candidate failed. Nothing is charged. untried candidates were left when the walk was
// ended by max_attempts.
func (r *Relay) fail(x *exchange, untried int) error {
	e := chainError(x.gen.Attempts, &x.tally)
	if untried > 0 {
		s := fmt.Sprintf("max_attempts is %d, so %d further candidates were not tried", r.opt.MaxAttempts, untried)
		x.gen.Notes = append(x.gen.Notes, s)
		e.Message += "; " + s
	}
	e.Attempts, e.Requested = x.gen.Attempts, x.gen.Requested
	return r.refuse(x, e)
}

// chainError names what a chain that failed as a whole means to the caller.
func chainError(attempts []hearth.Attempt, t *tally) *hearth.Error {
	told := slices.DeleteFunc(slices.Clone(attempts), func(a hearth.Attempt) bool { return a.Skip == hearth.SkipCooldown })
	if len(told) == 0 {
		e := hearth.Errorf(hearth.ErrCoolingDown, "every endpoint that could serve this request went into cooldown, or is being tried anew by another request after failures")
		e.RetryAfter = leastRetry(attempts)
		return e
	}
	last := &told[len(told)-1]
	every := func(ok func(*hearth.Attempt) bool) bool {
		return !slices.ContainsFunc(told, func(a hearth.Attempt) bool { return !ok(&a) })
	}
	var e *hearth.Error
	switch {
	case last.Skip.Slot():
		e = hearth.Errorf(hearth.ErrModelLoading, "%s is not ready: %s", last.Model, last.Message)
		e.SlotStatus, e.RetryAfter = last.Skip, spread(last.RetryAfter)
	case t.overloaded > 0:
		e = hearth.Errorf(hearth.ErrOverloaded, "the gateway has no memory left for this request now; retry in a second")
		e.RetryAfter = time.Second
	case every(func(a *hearth.Attempt) bool {
		return a.Blame == hearth.BlameRateLimit || a.Skip == hearth.SkipRateLimited
	}):
		e = hearth.Errorf(hearth.ErrRateLimited, "every provider of this model is rate limited")
		e.RetryAfter = leastRetry(told)
	case every(func(a *hearth.Attempt) bool { return a.Skip == hearth.SkipOverBudget }):
		e = hearth.Errorf(hearth.ErrInsufficientCredits, "no candidate is covered by what the limit of this key leaves; lower max_tokens, or ask the operator for more")
	case t.context == len(told):
		e = hearth.Errorf(hearth.ErrContextLength, "the request is too long for every candidate: %s", last.Message)
	case every(func(a *hearth.Attempt) bool { return a.Blame == hearth.BlameNobody && a.Skip == "" }):
		e = rejected(last)
		e.Param = t.param
	case every(func(a *hearth.Attempt) bool { return a.TimedOut }):
		e = hearth.Errorf(hearth.ErrTimeout, "every provider of this request timed out")
	default:
		e = hearth.Errorf(hearth.ErrProvider, "no provider answered; the last one, %s: %s", last.Provider, last.Message)
	}
	e.Provider, e.Raw, e.ProviderCode = last.Provider, t.raw, t.code
	return e
}

// rejected is what a request comes to that every candidate refused: the last one's words and its status, but the 5xx in
// which engines report a fault of the request is the caller's 400.
func rejected(last *hearth.Attempt) *hearth.Error {
	if last.Status == 0 { // nobody was asked: what the request names cannot be had
		return hearth.Errorf(hearth.ErrInvalidRequest, "%s", last.Message)
	}
	e := hearth.Errorf(hearth.ErrInvalidRequest, "every provider rejected the request: %s", last.Message)
	if last.Status >= 400 && last.Status < 500 {
		e.Status = last.Status
	}
	if last.Status == http.StatusRequestEntityTooLarge {
		e.Type = hearth.ErrPayloadTooLarge
	}
	return e
}

// spread lengthens a wait by 0 to 20 %, so that callers who were refused together do not come back in one second. A wait
// of up to a minute stays one: there are clients that ignore longer ones.
func spread(d time.Duration) time.Duration {
	d = max(d, time.Second)
	s := d + time.Duration(rand.Int64N(int64(d/5)))
	if d <= time.Minute {
		s = min(s, time.Minute)
	}
	return s
}

// leastRetry is the smallest Retry-After of the attempts, at least a second.
func leastRetry(attempts []hearth.Attempt) time.Duration {
	least := time.Duration(0)
	for _, a := range attempts {
		if a.RetryAfter > 0 && (least == 0 || a.RetryAfter < least) {
			least = a.RetryAfter
		}
	}
	return max(least, time.Second)
}

// brokenError is what the caller gets when an answer had begun and then failed.
func brokenError(x *exchange, o *outcome) *hearth.Error {
	e := hearth.Errorf(hearth.ErrProvider, "%s failed after its answer had begun: %s", o.Provider, o.failure.Message)
	switch {
	case o.failure.Overloaded:
		e.Type, e.RetryAfter = hearth.ErrOverloaded, time.Second
	case errors.Is(o.failure.Err, upstream.ErrShutdown):
		e = shuttingDown()
	case o.failure.TimedOut && x.took():
		e.Type = hearth.ErrTimeout
	}
	e.Provider, e.Raw, e.ProviderCode = o.Provider, o.failure.Raw, o.failure.Code
	e.Attempts, e.Requested = x.gen.Attempts, x.gen.Requested
	return e
}
