package suggest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	known := []string{"google/gemma-4-26b-a4b", "lgai/exaone-4.0-32b", "acme/other", "n", "local-gpu", "local-gpu/gpu-1"}
	for name, tc := range map[string]struct {
		name string
		want []string
	}{
		"a slip of the finger":             {"google/gema-4-26b-a4b", known[:1]},
		"the slug without author":          {"exaone-4.0-32b", known[1:2]},
		"another case":                     {"ACME/Other", known[2:3]},
		"a letter is no part of a word":    {"presence", nil},
		"the nearer of two that are alike": {"local-gpu/gpu-9", []string{"local-gpu/gpu-1", "local-gpu"}},
		"nothing near":                     {"zzzzzz", nil},
		"empty":                            {"", nil},
		"a hostile name is not worked on":  {strings.Repeat("x", 1<<20), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Nearest(tc.name, known, 2)); d != "" {
				t.Error(d)
			}
		})
	}
}
