package chain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

const (
	maxNotes = 16 // of one chain
	maxName  = 64 // characters of a caller's word in a text of ours
)

// note keeps a remark for the caller, once. It may go into a header: a caller's words in it are cleaned.
func (b *builder) note(text string) {
	switch n := len(b.chain.Notes); {
	case n > maxNotes || slices.Contains(b.chain.Notes, text):
	case n == maxNotes:
		b.chain.Notes = append(b.chain.Notes, "there is more to say than fits here")
	default:
		b.chain.Notes = append(b.chain.Notes, text)
	}
}

// clean makes a caller's word fit for a text of ours: short, and without control characters.
func clean(word string) string {
	n := 0
	for i, r := range word {
		if n++; n > maxName {
			word = word[:i] + "…"
			break
		}
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return clean(strings.Map(printable, word))
		}
	}
	return word
}

func printable(r rune) rune {
	if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
		return '?'
	}
	return r
}

// noteNames says which names in the caller's conditions mean nobody. They are no error, for a list may name providers
// that serve other models or come later; but a slip of the finger in ignore must not go unnoticed.
func (b *builder) noteNames() {
	p := &b.Request.Prefs
	for _, list := range [...]struct {
		field string
		names []string
	}{{"only", p.Only}, {"ignore", p.Ignore}, {"order", p.Order}} {
		for _, name := range list.names {
			if len(b.unmeant) == maxNotes {
				return
			}
			if b.means(name) {
				continue
			}
			note := fmt.Sprintf("provider.%s: there is no provider %q", list.field, clean(name))
			if near := suggest.Nearest(name, b.providerNames(), 1); len(near) > 0 {
				note += ", did you mean " + near[0] + "?"
			}
			b.unmeant = append(b.unmeant, note)
			b.note(note)
		}
	}
}

// means says whether the name means a provider or an endpoint of the catalog.
func (b *builder) means(name string) bool {
	cat := b.Views.Catalog
	return slices.ContainsFunc(cat.Providers, func(p *hearth.Provider) bool {
		return strings.EqualFold(name, p.Slug) || strings.EqualFold(name, p.Name)
	}) || slices.ContainsFunc(cat.Endpoints, func(e *hearth.Endpoint) bool { return strings.EqualFold(name, e.Tag) })
}

func (b *builder) providerNames() []string {
	var names []string
	for _, p := range b.Views.Catalog.Providers {
		names = append(names, p.Slug, p.Name)
	}
	for _, e := range b.Views.Catalog.Endpoints {
		names = append(names, e.Tag)
	}
	return names
}

// noteUnmeasured says that a sort found nothing to go by.
func (b *builder) noteUnmeasured(m *hearth.Model, by hearth.Sort) {
	of := "for " + m.ID + " "
	if b.Request.Prefs.AcrossModels && b.Request.Prefs.Sort != "" {
		of = ""
	}
	if by == hearth.SortTools {
		b.note("sort exacto: nothing is known " + of + "of the quality of tool calls, the order is by price")
		return
	}
	b.note("sort " + string(by) + ": nothing was measured " + of + "lately, the order is by price")
}

// noteAtTheEnd says what only the finished chain shows.
func (b *builder) noteAtTheEnd() {
	p := &b.Request.Prefs
	if b.bars && !b.measured {
		name := "provider.preferred_max_latency"
		if p.MinThroughput != (hearth.Percentiles{}) {
			name = "provider.preferred_min_throughput"
		}
		b.note(name + " has no effect: nothing was measured lately")
	}
	if !b.lowered {
		return
	}
	for _, c := range b.chain.Candidates {
		if c.MaxTokens > 0 {
			b.note(fmt.Sprintf("max_tokens lowered to %d for %s: its engine refuses more than what is left of its window of %d",
				c.MaxTokens, c.Endpoint.ID, b.window(c.Endpoint)))
		}
	}
}
