package chain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

// stageOrder says how far down the building a stage is: the last one reached is the one that emptied the chain.
var stageOrder = map[hearth.Stage]int{
	hearth.StageUnknown: 1, hearth.StageConditions: 2, hearth.StageCapability: 3, hearth.StageHealth: 4,
}

// empty makes the error of a chain without candidates from its drops.
func (b *builder) empty() *hearth.Error {
	stage, window := hearth.StageUnknown, 0
	for _, d := range b.chain.Drops {
		if stageOrder[d.Stage] > stageOrder[stage] {
			stage = d.Stage
		}
	}
	var e *hearth.Error
	switch stage {
	case hearth.StageHealth:
		end := b.earliestReturn()
		why := "cooling down after failures"
		if b.onlyRateLimited() {
			why = "rate limited by its provider"
		}
		e = hearth.Errorf(hearth.ErrCoolingDown, "every endpoint that could serve this request is %s; retry in %s", why, wholeSeconds(end))
		e.RetryAfter = end
	case hearth.StageCapability:
		need := 0
		for _, d := range b.chain.Drops {
			if ep := b.endpoint(d.Endpoint); d.Stage == hearth.StageCapability && ep != nil && ep.Context > window {
				window, need = ep.Context, b.prompt(ep)
			}
		}
		e = hearth.Errorf(hearth.ErrContextLength, "the prompt is estimated at %d tokens and the largest context window that may serve it holds %d; shorten the prompt", need, window)
		e.Param = "messages"
	default:
		e = hearth.Errorf(hearth.ErrNoEndpoints, "no endpoint may serve this request: %s", b.dropList())
		for _, n := range b.chain.Notes {
			if strings.HasPrefix(n, "provider.") {
				e.Message += "; " + n
			}
		}
	}
	e.Drops = b.chain.Drops
	e.Requested = b.req.Models
	return e
}

// onlyRateLimited says whether what emptied the chain was rate limits and nothing else.
func (b *builder) onlyRateLimited() bool {
	return !slices.ContainsFunc(b.chain.Drops, func(d hearth.Drop) bool {
		return d.Stage == hearth.StageHealth && d.Skip != hearth.SkipRateLimited
	})
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
		what := d.Model
		if d.Endpoint != "" {
			what = d.Endpoint
		}
		parts = append(parts, what+" ("+d.Reason+")")
	}
	return strings.Join(parts, ", ")
}

func (b *builder) endpoint(id string) *hearth.Endpoint {
	for _, e := range b.views.Catalog.Endpoints {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// earliestReturn is how long until the first dropped endpoint may be tried again, at least a second.
func (b *builder) earliestReturn() time.Duration {
	least := time.Duration(-1)
	for _, d := range b.chain.Drops {
		ep := b.endpoint(d.Endpoint)
		if d.Stage != hearth.StageHealth || ep == nil {
			continue
		}
		if left := b.health(ep).Until.Sub(b.now); least < 0 || left < least {
			least = left
		}
	}
	return max(least, time.Second)
}

func (b *builder) unknownModel(name string) *hearth.Error {
	known := make([]string, 0, len(b.views.Catalog.Models)+len(b.views.Catalog.Aliases))
	for _, m := range b.views.Catalog.Models {
		known = append(known, m.ID)
	}
	for a := range b.views.Catalog.Aliases {
		known = append(known, a)
	}
	msg := fmt.Sprintf("there is no model %q", name)
	if near := suggest.Nearest(name, known, 3); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	} else {
		msg += "; GET /api/v1/models lists the models"
	}
	e := hearth.Errorf(hearth.ErrModelNotFound, "%s", msg)
	e.Param = "model"
	e.Requested = b.req.Models
	return e
}

func windowReason(need, window int) string {
	return fmt.Sprintf("prompt estimated at %d tokens, window %d", need, window)
}

func healthReason(h hearth.EndpointHealth, now time.Time) string {
	word := "cooling down after failures"
	if h.Skip == hearth.SkipRateLimited {
		word = "rate limited by the provider"
	}
	return word + ", back in " + wholeSeconds(h.Until.Sub(now))
}

// wholeSeconds prints a duration rounded up to seconds.
func wholeSeconds(d time.Duration) string {
	return ((d + time.Second - 1) / time.Second * time.Second).String()
}
