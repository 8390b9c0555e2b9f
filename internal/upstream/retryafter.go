package upstream

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what an upstream can make us believe.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads OpenAI's retry-after-ms, Retry-After (seconds or a date, RFC 9110 §10.2.3), else the rate-limit headers
// of the vendors. 0 = nothing usable.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := after(h.Get("Retry-After-Ms"), time.Millisecond, now); ok {
		return d
	}
	if d, ok := after(h.Get("Retry-After"), time.Second, now); ok {
		return d
	}
	return resetAfter(h, now)
}

// resetAfter reads the headers that say when a limit begins anew: X-RateLimit-Reset, X-RateLimit-Reset-Tokens,
// Anthropic-RateLimit-Tokens-Reset, RateLimit-Reset and their like. Each limit has a header with what remains of it. The
// one that is used up counts, else one of which that is not known, else any; of several, the longest.
func resetAfter(h http.Header, now time.Time) time.Duration {
	var used, unknown, rest time.Duration
	for k, v := range h {
		if len(v) == 0 || !strings.Contains(k, "Ratelimit") || !strings.Contains(k, "Reset") {
			continue
		}
		d, ok := after(v[0], time.Second, now)
		switch left := h.Get(strings.Replace(k, "Reset", "Remaining", 1)); {
		case !ok:
		case left == "0":
			used = max(used, d)
		case left == "":
			unknown = max(unknown, d)
		default:
			rest = max(rest, d)
		}
	}
	return cmp.Or(used, unknown, rest)
}

// after reads a wait: a number of units, a duration ("1s", "6m0s"), a date of HTTP or RFC 3339, or a moment in Unix seconds or
// milliseconds. Waits are bounded by maxRetryAfter; one that is over, negative or no number is not usable.
func after(v string, unit time.Duration, now time.Time) (d time.Duration, ok bool) {
	const unixSeconds, unixMillis = 1e9, 1e12 // less than these is no present moment: 2001
	n, err := strconv.ParseFloat(v, 64)
	switch {
	case v == "":
		return 0, false
	case err == nil && !(n > 0), n < 0:
		return 0, false
	case err == nil && n >= unixMillis && n < 100*unixMillis:
		d = time.UnixMilli(int64(n)).Sub(now)
	case err == nil && n >= unixSeconds && n < 100*unixSeconds:
		d = time.Unix(int64(n), 0).Sub(now)
	case err == nil || errors.Is(err, strconv.ErrRange):
		if !(n < float64(maxRetryAfter/unit)) {
			n = float64(maxRetryAfter / unit)
		}
		d = time.Duration(n * float64(unit))
	default:
		if d, err = time.ParseDuration(v); err != nil {
			at, err := http.ParseTime(v)
			if err != nil {
				if at, err = time.Parse(time.RFC3339, v); err != nil {
					return 0, false
				}
			}
			d = at.Sub(now)
		}
	}
	return min(max(d, 0), maxRetryAfter), d > 0
}
