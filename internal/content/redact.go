package content

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds on the patterns of an operator.
const (
	MaxPatterns     = 32
	MaxPatternBytes = 512
)

// Redactor replaces secrets and personal data in texts. It is safe for concurrent use.
type Redactor struct {
	finders []finder
}

// finder finds one kind of text that is not kept.
type finder struct {
	name string
	// hint is a text without which there is nothing to be found, "" = none.
	hint string
	find func(text string) [][]int // where each begins and ends
}

// span is a part of a text that is replaced.
type span struct {
	from, to int
	name     string
}

// NewRedactor makes a Redactor of the operator's own patterns (RE2, https://github.com/google/re2/wiki/Syntax) and, with defaults, the
// usual ones. keyPrefix is that of API keys made here, "" = none.
func NewRedactor(patterns []string, defaults bool, keyPrefix string) (*Redactor, error) {
	r := new(Redactor)
	if len(patterns) > MaxPatterns {
		return nil, fmt.Errorf("more than %d patterns", MaxPatterns)
	}
	if defaults {
		r.finders = append(r.finders, usual...)
		if keyPrefix != "" {
			r.finders = append(r.finders, finder{"api-key", keyPrefix, beginning(mark{keyPrefix, 8}, "")})
		}
	}
	for _, p := range patterns {
		if len(p) > MaxPatternBytes {
			return nil, fmt.Errorf("a pattern has more than %d bytes", MaxPatternBytes)
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("compile pattern: %w", err)
		}
		r.finders = append(r.finders, finder{"", "", all(re)})
	}
	return r, nil
}

func all(re *regexp.Regexp) func(string) [][]int {
	return func(text string) [][]int { return re.FindAllStringIndex(text, -1) }
}

// Text replaces what is found in a text.
func (r *Redactor) Text(text string) string { return r.prefix(text, len(text)) }

// prefix is Text of the first keep bytes: what is found across their end is replaced whole.
func (r *Redactor) prefix(text string, keep int) string {
	spans := r.spans(text)
	if len(spans) == 0 {
		return text[:keep]
	}
	var b strings.Builder
	b.Grow(keep)
	at := 0
	for _, s := range spans {
		if s.from >= keep {
			break
		}
		b.WriteString(text[at:s.from])
		b.WriteString("[redacted")
		if s.name != "" {
			b.WriteString(":" + s.name)
		}
		b.WriteByte(']')
		at = s.to
	}
	if at < keep {
		b.WriteString(text[at:keep])
	}
	return b.String()
}

// spans are the parts to be replaced, in order. All finders see the whole text, whatever the others find; what overlaps is
// one part, with the name of the one that begins first.
func (r *Redactor) spans(text string) []span {
	var list []span
	for i := range r.finders {
		f := &r.finders[i]
		if f.hint != "" && !strings.Contains(text, f.hint) {
			continue
		}
		for _, m := range f.find(text) {
			if m[1] > m[0] {
				list = append(list, span{m[0], m[1], f.name})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	merged := list[:0]
	for _, s := range list {
		if n := len(merged); n > 0 && s.from < merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}
