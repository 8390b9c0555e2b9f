package app_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	figuresBegin = "<!-- figures: written by go test ./internal/app -run TestMetrics_Docs -update -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

var labelName = regexp.MustCompile(`([a-z_]+)="`)

// figures are the rows of a table about a metrics page, one for each figure of Hearth's own.
func figures(page []byte) string {
	type figure struct {
		kind, help string
		labels     map[string]bool
	}
	all := map[string]*figure{}
	at := func(name string) *figure {
		if all[name] == nil {
			all[name] = &figure{labels: map[string]bool{}}
		}
		return all[name]
	}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		if word == "#" {
			kind, rest, _ := strings.Cut(rest, " ")
			name, text, _ := strings.Cut(rest, " ")
			if kind == "HELP" {
				at(name).help = text
			} else {
				at(name).kind = text
			}
			continue
		}
		name, labels, _ := strings.Cut(line, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && all[base] != nil {
				name = base
			}
		}
		for _, l := range labelName.FindAllStringSubmatch(labels, -1) {
			if l[1] != "le" {
				at(name).labels[l[1]] = true
			}
		}
	}
	var b strings.Builder
	b.WriteString("| figure | kind | labels | says |\n| --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; strings.HasPrefix(name, "hearth_") && f.kind != "" {
			labels := strings.Join(slices.Sorted(maps.Keys(f.labels)), "`, `")
			if labels != "" {
				labels = "`" + labels + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, f.kind, labels, strings.ReplaceAll(f.help, "|", "or"))
		}
	}
	return b.String()
}

// TestMetrics_Docs: docs/metrics.md tells of every figure that the page has, and of no other.
func TestMetrics_Docs(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	w.reload("routing: {by: price}", "routing: {max_premium: 10%}")
	for model, status := range map[string]int{gemma: 200, qwen: 200, "no-such": http.StatusNotFound} {
		if r := w.chat(ask(model, `,"stream":true`)); r.status != status {
			t.Fatalf("%s: %d %s", model, r.status, r.body)
		}
	}
	w.counted(t)
	page := w.until(t, "hearth_routing_premium_ratio{", "hearth_routing_cost{")
	got := figures(page)
	for _, line := range []string{"| `hearth_build_info` | gauge | `go_version`, `version` |", "| `hearth_routing_cost` | gauge | `endpoint`, `model`, `provider`, `term` |",
		"| `hearth_time_to_first_token_seconds` | histogram | `model`, `provider` |", "| `hearth_slot_learned_seconds` | gauge |", "| `hearth_records_unapplied` | gauge |  |"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
	const file = "../../docs/metrics.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), figuresBegin)
	had, tail, ended := strings.Cut(rest, figuresEnd)
	if !ok || !ended {
		t.Fatal("the page has no place for figures")
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+figuresBegin+"\n"+got+"\n"+figuresEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if strings.TrimSpace(had) != strings.TrimSpace(got) {
		t.Errorf("docs/metrics.md is not what the page is: go test ./internal/app -run TestMetrics_Docs -update")
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("\\| `(hearth_[a-z_0-9]+)` \\|").FindAllStringSubmatch(got, -1) {
		known[m[1]] = true
	}
	for _, word := range regexp.MustCompile(`hearth_[a-z_0-9]*[a-z0-9]`).FindAllString(head+tail, -1) {
		if word = cmp.Or(strings.TrimSuffix(word, "_bucket"), word); !known[word] && word != "hearth_slot" {
			t.Errorf("the page speaks of %s, which there is not", word)
		}
	}
}

// until is the metrics page, once it has some figures.
func (w *world) until(t *testing.T, names ...string) (page []byte) {
	t.Helper()
	eventually(t, "figures "+strings.Join(names, ", "), func() bool {
		page = w.call(http.MethodGet, "/metrics", "", "Authorization: Bearer "+w.admin).body
		return !slices.ContainsFunc(names, func(name string) bool { return !bytes.Contains(page, []byte("\n"+name)) })
	})
	return page
}
