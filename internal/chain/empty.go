package chain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

// failure is what the filter met on the way: what the error of an empty chain tells.
type failure struct {
	lacks        lack
	output       int // largest output cap of the endpoints whose cap is too small
	need, window int // size of the prompt, and the largest window that is too small for it
	exact        bool
	back         time.Time // when the first endpoint that is out may be tried again
	cooled       bool      // one is out for another reason than a rate limit
	stale        string    // a currency whose exchange rate is too old, "" = none
	cheapest     float64   // least worst case that cannot be paid; 0 = none
}

func (f *failure) tooLong(need, window int, exact bool) {
	if window > f.window {
		f.need, f.window, f.exact = need, window, exact
	}
}

func (f *failure) cooling(h *hearth.EndpointHealth) {
	if f.back.IsZero() || h.Until.Before(f.back) {
		f.back = h.Until
	}
	f.cooled = f.cooled || h.Skip != hearth.SkipRateLimited
}

func (f *failure) unaffordable(worst float64) {
	if f.cheapest == 0 || worst < f.cheapest {
		f.cheapest = worst
	}
}

// empty makes the error of a chain without candidates. Its message names the drops.
func (b *builder) empty() *hearth.Error {
	stage := hearth.StageUnknown // the last one that dropped a candidate emptied the chain
	for _, d := range b.chain.Drops {
		if d.Stage.Order() > stage.Order() {
			stage = d.Stage
		}
	}
	var e *hearth.Error
	switch stage {
	case hearth.StageKey:
		e = hearth.Errorf(hearth.ErrNotAllowed, "the key may use no endpoint for this request")
	case hearth.StageCapability:
		e = b.incapableError()
	case hearth.StageHealth:
		e = b.coolingError()
	case hearth.StageCredits:
		e = b.creditsError()
	default:
		e = hearth.Errorf(hearth.ErrNoEndpoints, "no endpoint may serve this request")
	}
	e.Message += ": " + b.dropList()
	for _, n := range b.unmeant {
		e.Message += "; " + n
	}
	if stage == hearth.StageUnknown {
		e.Message += b.nearest()
	}
	e.Drops = b.chain.Drops
	e.Requested = b.Request.Models
	return e
}

// staleRetry is what a caller is told to wait when nothing but exchange rates that are too old stands in the way: about as
// long as until they are fetched again.
const staleRetry = time.Minute

func (b *builder) coolingError() *hearth.Error {
	if b.failed.back.IsZero() {
		e := hearth.Errorf(hearth.ErrCoolingDown, "every endpoint that could serve this request is priced in %s, and its exchange rate to %s is older than allowed; "+
			"the operator finds in the log why it was not fetched, and can set one under exchange_rates or stale: allow under exchange_sources",
			b.failed.stale, b.Views.Catalog.Currency)
		e.RetryAfter = staleRetry
		return e
	}
	why := "rate limited by its provider"
	if b.failed.cooled {
		why = "cooling down after failures"
	}
	back := max(b.failed.back.Sub(b.Now), time.Second)
	e := hearth.Errorf(hearth.ErrCoolingDown, "every endpoint that could serve this request is %s; retry in %s", why, wholeSeconds(back))
	e.RetryAfter = back
	return e
}

// creditsError is about the limit that bounds the cheapest candidate.
func (b *builder) creditsError() *hearth.Error {
	shown := b.shown()
	cost := b.amount(b.failed.cheapest)
	if b.Left == nil || b.LeftExternal != nil && b.failed.cheapest <= left(*b.Left) {
		return hearth.Errorf(hearth.ErrInsufficientCredits, "%s %s may still be spent at external providers and the request could cost up to %s there; lower max_tokens, raise the external limit, or use a model that own slots serve",
			shown.Append(nil, max(*b.LeftExternal, 0)), shown.Currency, cost)
	}
	return hearth.Errorf(hearth.ErrInsufficientCredits, "the key has %s %s left and the request could cost up to %s; lower max_tokens or raise the key's limit",
		shown.Append(nil, max(*b.Left, 0)), shown.Currency, cost)
}

// incapableError is about the size of the prompt if a shorter one could be served, else about what is lacking.
func (b *builder) incapableError() *hearth.Error {
	f := &b.failed
	if f.window > 0 {
		is := "is estimated at"
		if f.exact {
			is = "has"
		}
		e := hearth.Errorf(hearth.ErrContextLength, "the prompt %s %d tokens and the largest context window that may serve it holds %d; shorten the prompt", is, f.need, f.window)
		e.Param = "messages"
		return e
	}
	var what []string
	param := ""
	for _, l := range [...]struct {
		lack
		param, what string
	}{
		{lackTools, "tools", "tools"},
		{lackFormat, "response_format", "response_format"},
		{lackMedia, "messages", strings.Join(b.Request.Media, " and ") + " input"},
		{lackFetch, "messages", "media behind web addresses (send it as data URLs)"},
		{lackOutput, "max_tokens", fmt.Sprintf("max_tokens over %d", f.output)},
	} {
		if f.lacks&l.lack != 0 {
			what = append(what, l.what)
			if param == "" {
				param = l.param
			}
		}
	}
	e := hearth.Errorf(hearth.ErrUnsupported, "no endpoint that may serve this request takes %s", strings.Join(what, ", "))
	e.Param = param
	return e
}

// dropListMax bounds the message; error.metadata.dropped holds all of them.
const dropListMax = 8

func (b *builder) dropList() string {
	if len(b.chain.Drops) == 0 {
		return "the model has no endpoints"
	}
	var parts []string
	for i, d := range b.chain.Drops {
		if i == dropListMax {
			parts = append(parts, fmt.Sprintf("and %d more", len(b.chain.Drops)-i))
			break
		}
		what := clean(d.Model)
		if d.Endpoint != "" {
			what = d.Endpoint
		}
		parts = append(parts, what+" ("+d.Reason+")")
	}
	return strings.Join(parts, ", ")
}

// nearest names what the first of the unknown models could have meant.
func (b *builder) nearest() string {
	var meant []string
	for _, d := range b.chain.Drops[:min(len(b.chain.Drops), 4)] {
		for _, n := range suggest.Nearest(d.Model, b.modelNames(), 1) {
			if !slices.Contains(meant, n) {
				meant = append(meant, n)
			}
		}
	}
	if len(meant) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(meant, " or ") + "?"
}

func (b *builder) modelNames() []string {
	known := make([]string, 0, len(b.Views.Catalog.Models)+len(b.Views.Catalog.Aliases))
	for _, m := range b.Views.Catalog.Models {
		known = append(known, m.ID)
	}
	aliases := len(known)
	for a := range b.Views.Catalog.Aliases {
		known = append(known, a)
	}
	slices.Sort(known[aliases:])
	return known
}

func (b *builder) unknownModel(name string) *hearth.Error {
	msg := fmt.Sprintf("there is no model %q", clean(name))
	if near := suggest.Nearest(name, b.modelNames(), 3); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	} else {
		msg += "; GET /api/v1/models lists the models"
	}
	e := hearth.Errorf(hearth.ErrModelNotFound, "%s", msg)
	e.Param = "model"
	e.Requested = b.Request.Models
	return e
}
