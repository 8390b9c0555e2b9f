// Package suggest finds the known names nearest to a mistyped one, for error messages.
package suggest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxName bounds the work for a hostile name: longer ones get no suggestion.
const maxName = 128

// Nearest returns up to n of the known names that could have been meant, nearest first: those that contain the
// name, are contained in it (three letters or more), or differ from it in at most a third of its letters.
func Nearest(name string, known []string, n int) []string {
	if name == "" || len(name) > maxName {
		return nil
	}
	type guess struct {
		name           string
		rank, distance int
	}
	low := strings.ToLower(name)
	limit := max(2, len(name)/3)
	var guesses []guess
	for _, k := range known {
		lk := strings.ToLower(k)
		d := levenshtein.ComputeDistance(low, lk)
		rank := d
		if len(low) >= 3 && len(lk) >= 3 && (strings.Contains(lk, low) || strings.Contains(low, lk)) {
			rank = min(d, 1)
		}
		if rank <= limit {
			guesses = append(guesses, guess{k, rank, d})
		}
	}
	slices.SortStableFunc(guesses, func(a, b guess) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.distance, b.distance)) })
	var out []string
	for _, g := range guesses[:min(n, len(guesses))] {
		out = append(out, g.name)
	}
	return out
}
