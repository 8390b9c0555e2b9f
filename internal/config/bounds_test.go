package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestBounds are files made to be expensive.
func TestBounds(t *testing.T) {
	for _, tc := range []struct{ name, text, message string }{
		{"too large", "# " + strings.Repeat("x", maxFile), "is larger than 1 MiB"},
		{"too many words", strings.Repeat("a: 1\n", 40_000), "has more than 30000 words and signs"},
		{"brackets", strings.Repeat("[", 100_000), "has more than 30000 words and signs"},
		{"fewer brackets", strings.Repeat("[", 20_000), "nests deeper than 64 levels"},
		{"braces", strings.Repeat("{a: ", 10_000), "nests deeper than 64 levels"},
		{"dashes", strings.Repeat("- ", 20_000), "nests deeper than 64 levels"},
		{"question marks", strings.Repeat("? ", 20_000), "nests deeper than 64 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("x", []byte(tc.text), nil, nil)
			wantProblem(t, err, "", tc.message)
		})
	}
}

// TestBoundsOfAliases grows a small file to 10¹⁰ values, if it were expanded.
func TestBoundsOfAliases(t *testing.T) {
	const grows = "grows too large through its aliases"
	t.Run("merges of merges", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("nodes:\n- &n0 {name: a, slots: []}\n")
		for i := range 10 {
			fmt.Fprintf(&b, "- &n%d {<<: [%s]}\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*n%d, ", i), 10), ", "))
		}
		_, err := Parse("x", []byte(b.String()), nil, nil)
		if err == nil || !strings.Contains(err.Error(), grows) {
			t.Errorf("got %.300v", err)
		}
	})
	t.Run("lists of long lists", func(t *testing.T) {
		models := strings.TrimSuffix(strings.Repeat("{model: a/b}, ", 1000), ", ")
		p := strings.Repeat("- {slug: a, base_url: 'https://a.example', models: *m}\n", 1000)
		_, err := Parse("x", []byte("providers:\n- {slug: a, base_url: 'https://a.example', models: &m ["+models+"]}\n"+p), nil, nil)
		if err == nil || !strings.Contains(err.Error(), grows) {
			t.Errorf("got %.300v", err)
		}
	})
}
