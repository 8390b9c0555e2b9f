package chain

import (
	"fmt"
	"slices"

	"myip.co.kr/hearth"
)

// lack is what keeps an endpoint from serving a request, other than the size of the prompt.
type lack uint8

const (
	lackTools lack = 1 << iota
	lackFormat
	lackMedia
	lackFetch
	lackOutput
)

// incapable says what the endpoint cannot do that the request needs. Tools, a response format and media drop it only if it
// declares that it lacks them. The window comes last: an endpoint that is out for it alone might be asked to count.
func (b *builder) incapable(c *hearth.Candidate) *out {
	e, req := c.Endpoint, b.Request
	if b.needs {
		if what, why := b.unsupported(e); what != 0 {
			b.failed.lacks |= what
			return &out{stage: hearth.StageCapability, reason: why}
		}
	}
	if e.Slot == nil && e.MaxOutput > 0 && req.MaxTokens > e.MaxOutput {
		b.failed.lacks |= lackOutput
		b.failed.output = max(b.failed.output, e.MaxOutput)
		return &out{stage: hearth.StageCapability, reason: fmt.Sprintf("gives at most %d tokens, max_tokens is %d", e.MaxOutput, req.MaxTokens)}
	}
	window := b.window(e)
	if window == 0 {
		return nil
	}
	tokens, exact := b.prompt(e)
	if tokens > window {
		b.failed.tooLong(tokens, window, exact)
		return &out{hearth.StageCapability, windowReason(tokens, window, exact), hearth.SkipContext}
	}
	if e.Slot == nil {
		return nil
	}
	if !exact && tokens > window/4*3 {
		if bound := b.bound(e); bound > window && engine(e).Truncates {
			b.failed.tooLong(bound, window, false)
			return &out{hearth.StageCapability, fmt.Sprintf("the prompt may have %d tokens, window %d, and its engine cuts a longer one without a word", bound, window), hearth.SkipContext}
		}
	}
	if rest := window - tokens; req.MaxTokens > rest && engine(e).RefusesCap {
		c.MaxTokens, b.lowered = max(rest, 1), true
	}
	return nil
}

// slot is the view of a local endpoint's slot, nil if nothing is known of it.
func (b *builder) slot(e *hearth.Endpoint) *hearth.SlotView {
	if e.Slot == nil || e.Slot.Index >= len(b.Views.Slots) {
		return nil
	}
	return &b.Views.Slots[e.Slot.Index]
}

func (b *builder) window(e *hearth.Endpoint) int { return Window(e, b.slot(e)) }

// Window is how many tokens a request may have at an endpoint, prompt and answer together: as configured, or less if the
// engine of its slot says so; 0 = not known. v is the slot's view, nil = there is none.
func Window(e *hearth.Endpoint, v *hearth.SlotView) int {
	if v != nil && v.Facts.Window > 0 && !v.Unknown && (e.Context == 0 || v.Facts.Window < e.Context) {
		return v.Facts.Window
	}
	return e.Context
}

// unsupported says what of the things the request needs the endpoint declares to lack.
func (b *builder) unsupported(e *hearth.Endpoint) (lack, string) {
	req := b.Request
	switch {
	case req.Tools && e.Lacks(hearth.ParamTools):
		return lackTools, "does not take tools"
	case req.Params&hearth.ParamResponseFormat != 0 && e.Lacks(hearth.ParamResponseFormat):
		return lackFormat, "does not take response_format"
	case req.MediaURLs > 0 && e.Slot != nil && !b.FetchMedia:
		return lackFetch, "media must be sent as data to own engines, the request has web addresses"
	}
	if e.Input != nil {
		for _, kind := range req.Media {
			if !slices.Contains(e.Input, kind) {
				return lackMedia, "does not take " + kind + " input"
			}
		}
	}
	return 0, ""
}

// declares says whether the endpoint declares that it takes what the request needs, instead of leaving it open.
func (b *builder) declares(e *hearth.Endpoint) bool {
	params := !b.Request.Tools && b.Request.Params&hearth.ParamResponseFormat == 0 || e.Params != 0
	return params && (len(b.Request.Media) == 0 || e.Input != nil)
}

// prompt is the size of the prompt as the endpoint counts it: images weigh differently at each. exact says that its own
// engine counted.
func (b *builder) prompt(e *hearth.Endpoint) (tokens int, exact bool) {
	if len(b.Exact) > 0 {
		if n, ok := b.Exact[e.Index]; ok {
			return n, true
		}
	}
	return b.Request.Estimate + b.Request.Images*e.ImageTokens, false
}

// bound is a size of the prompt that no tokenizer exceeds: one token for each byte of text.
func (b *builder) bound(e *hearth.Endpoint) int {
	return max(b.Request.Estimate, b.Request.Bytes) + b.Request.Images*e.ImageTokens
}

// engine is what is known of the engine behind a local endpoint.
func engine(e *hearth.Endpoint) hearth.Engine {
	known, _ := hearth.EngineOf(e.Slot.Engine)
	return known
}

func windowReason(tokens, window int, exact bool) string {
	if exact {
		return fmt.Sprintf("prompt of %d tokens, window %d", tokens, window)
	}
	return fmt.Sprintf("prompt estimated at %d tokens, window %d", tokens, window)
}
