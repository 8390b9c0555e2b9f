package ledger

import (
	"slices"
	"strings"

	"myip.co.kr/hearth"
)

const (
	maxRecord = 256 << 10 // bytes of JSON; only a hostile caller or upstream makes more
	// What a longer record is cut to.
	maxElements = 64  // of a list
	maxText     = 256 // bytes of a text that a caller or an upstream chose
)

// noteShortened is added to the notes of a record that was cut.
const noteShortened = "this record was too long: lists and texts in it were cut"

// shorten returns g with its lists and texts cut, whatever they hold, and without the terms that tiers were ordered by;
// tokens, cost and the answering endpoint stay.
func shorten(g *hearth.Generation) *hearth.Generation {
	s := *g
	s.Requested = clipAll(g.Requested)
	s.Notes = append(clipAll(g.Notes), noteShortened)
	s.Attempts = slices.Clone(g.Attempts[:min(len(g.Attempts), maxElements)])
	for i := range s.Attempts {
		a := &s.Attempts[i]
		for _, text := range []*string{&a.Model, &a.Provider, &a.Slug, &a.Endpoint, &a.Message, &a.UpstreamID} {
			*text = clip(*text)
		}
	}
	s.Drops = slices.Clone(g.Drops[:min(len(g.Drops), maxElements)])
	for i := range s.Drops {
		d := &s.Drops[i]
		for _, text := range []*string{&d.Model, &d.Provider, &d.Endpoint, &d.Reason} {
			*text = clip(*text)
		}
	}
	s.Routing = slices.Clone(g.Routing[:min(len(g.Routing), maxElements)])
	for i := range s.Routing {
		r := &s.Routing[i]
		r.Candidates = nil
		for _, text := range []*string{&r.Model, &r.Endpoint, &r.Reason} {
			*text = clip(*text)
		}
	}
	for _, text := range []*string{&s.UpstreamID, &s.FinishReason, &s.NativeFinish, &s.Origin, &s.Referer, &s.Title, &s.User, &s.UserAgent} {
		*text = clip(*text)
	}
	return &s
}

func clipAll(list []string) []string {
	cut := make([]string, 0, min(len(list), maxElements)+1)
	for _, text := range list[:min(len(list), maxElements)] {
		cut = append(cut, clip(text))
	}
	return cut
}

// clip cuts a text, between characters.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}
