package account

import (
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

const (
	maxNames        = 200 // models or providers of one key
	maxListed       = 200 // bytes of one of them
	maxEarlyHeaders = time.Hour

	// maxRequests and maxTokens bound the limits of a minute so that what is counted fits, see minute.
	maxRequests, maxTokens = 1_000_000, 1_000_000_000
)

// checkPolicy checks what a key is to be allowed and returns it with each name once. Whether there are such models and
// providers is the configuration's matter.
func checkPolicy(k hearth.Key) (hearth.Key, error) {
	var err error
	if k.Models, err = checkNames("models", k.Models); err != nil {
		return k, err
	}
	if k.Providers, err = checkNames("providers", k.Providers); err != nil {
		return k, err
	}
	if e := k.EarlyHeaders; e != 0 && e != hearth.NoEarlyHeaders && (e < time.Second || e > maxEarlyHeaders) {
		return k, hearth.Invalid("early_headers", "the early headers of a key must be 1s to 1h, never, or as the configuration sets them")
	}
	k.EarlyHeaders = k.EarlyHeaders.Truncate(time.Millisecond)
	if k.Limit < 0 {
		return k, hearth.Invalid("limit", "the spend limit of a key must not be negative; 0 is none")
	}
	if k.ExternalLimit < 0 {
		return k, hearth.Invalid("external_limit", "what a key may spend at external providers must not be negative; 0 is no limit")
	}
	if n := k.RequestsPerMinute; n < 0 || n > maxRequests {
		return k, hearth.Invalid("requests_per_minute", "the requests per minute of a key must be up to %d; 0 is no limit", maxRequests)
	}
	if n := k.TokensPerMinute; n < 0 || n > maxTokens {
		return k, hearth.Invalid("tokens_per_minute", "the tokens per minute of a key must be up to %d; 0 is no limit", maxTokens)
	}
	if k.Kappa < 0 || k.Kappa > hearth.KappaMost {
		return k, hearth.Invalid("kappa", "the value of time of a key must be up to %s; 0 is the model's own", hearth.KappaMost)
	}
	switch k.LimitReset {
	case hearth.Forever, hearth.Daily, hearth.Weekly, hearth.Monthly:
	default:
		return k, hearth.Invalid("limit_reset", "the limits of a key begin anew daily, weekly, monthly or never")
	}
	if k.Class != hearth.Interactive && k.Class != hearth.Batch {
		return k, hearth.Invalid("class", "the class of a key must be interactive or batch")
	}
	if c := k.Currency; c != "" && (len(c) != 3 || strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		return k, hearth.Invalid("currency", "the currency of a key must be a three-letter ISO code, such as USD")
	}
	if err := checkText("owner", k.Owner); err != nil {
		return k, err
	}
	if k.LocalOnly && len(k.Providers) > 0 && !slices.ContainsFunc(k.Providers, local) {
		return k, hearth.Invalid("providers", "a local-only key that may use external providers only could use nothing: allow %s too, or let it leave the house", hearth.LocalSlug)
	}
	return k, nil
}

// local says whether a slug or tag names own slots.
func local(name string) bool {
	return name == hearth.LocalSlug || strings.HasPrefix(name, hearth.LocalSlug+"/")
}

// checkNames checks the form of names and drops those that stand there twice; none is nil.
func checkNames(field string, names []string) ([]string, error) {
	if len(names) > maxNames {
		return nil, hearth.Invalid(field, "a key may list up to %d %s, these are %d", maxNames, field, len(names))
	}
	var once []string
	for _, n := range names {
		switch {
		case n == "":
			return nil, hearth.Invalid(field, "one of the %s of the key has no name", field)
		case len(n) > maxListed || !headerSafe(n) || strings.Contains(n, ","):
			return nil, hearth.Invalid(field, "one of the %s of the key cannot be a name: it must have up to %d printable ASCII characters without spaces and commas", field, maxListed)
		case !slices.Contains(once, n):
			once = append(once, n)
		}
	}
	return once, nil
}
