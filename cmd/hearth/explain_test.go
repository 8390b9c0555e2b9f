package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"myip.co.kr/hearth"
)

var update = flag.Bool("update", false, "rewrite golden files")

// estimates, and exact amounts that hang on them, are masked in golden files: the estimator has tests of its own.
var estimates = regexp.MustCompile(`(estimated? (?:at|is)|lowered to|prompt estimate:|"estimate_tokens":|"prompt_tokens":|"expected":|"(?:max|completion)_tokens":) ?[0-9.]+`)

// costs are what routing by cost is made of, masked likewise: the router has tests of its own. What they say is the order.
var costs = regexp.MustCompile(`("(?:share|price|wait|decode|failed_tries|quality|total|ttft_seconds|rest_seconds|cached_tokens|tries|error_rate|rate_429|bad_tool_rate)":) [0-9.e-]+|[0-9.]+ %  +`)

// TestExplain_Golden holds every testdata/explain/*.txtar to the letter: the request, what its table says ("want") and,
// where that file is there, the JSON ("want.json"). The configuration is the archive's own hearth.yaml, or seed.yaml for
// the cases of the seed pages, or market.yaml.
func TestExplain_Golden(t *testing.T) {
	files, err := filepath.Glob("testdata/explain/*.txtar")
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(strings.ReplaceAll(name, "-", " "), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg := "testdata/explain/market.yaml"
			if strings.HasPrefix(name, "seed-") {
				cfg = "testdata/explain/seed.yaml"
			}
			if own := part(archive, "hearth.yaml"); own != nil {
				cfg = filepath.Join(t.TempDir(), "hearth.yaml")
				if err := os.WriteFile(cfg, own.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			request := part(archive, "request.json")
			if request == nil {
				t.Fatal("no request.json")
			}
			golden(t, archive, "want", explainText(t, cfg, request.Data, false))
			if part(archive, "want.json") != nil {
				golden(t, archive, "want.json", explainText(t, cfg, request.Data, true))
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func part(a *txtar.Archive, name string) *txtar.File {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &a.Files[i]
}

// golden compares a part with what there is, or rewrites it.
func golden(t *testing.T, a *txtar.Archive, name, got string) {
	t.Helper()
	f := part(a, name)
	if f == nil {
		t.Fatalf("no part %s", name)
	}
	if *update {
		f.Data = []byte(got)
	}
	if d := cmp.Diff(string(f.Data), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// explainText is what hearth explain prints for a request, its error included.
func explainText(t *testing.T, cfg string, request []byte, asJSON bool) string {
	t.Helper()
	var out bytes.Buffer
	c := explainCmd{File: "-", JSON: asJSON}
	c.Config = cfg
	if err := c.Run(t.Context(), streams{in: bytes.NewReader(request), out: &out}); err != nil {
		var e *hearth.Error
		if errors.As(err, &e) {
			return fmt.Sprintf("error: %d %s: %s\n", e.HTTPStatus(), e.Type, e.Message)
		}
		t.Fatal(err)
	}
	text := out.Bytes()
	if asJSON {
		v := jsontext.Value(bytes.TrimSpace(text))
		if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		text = append(v, '\n')
	}
	return estimates.ReplaceAllString(costs.ReplaceAllStringFunc(string(text), func(s string) string {
		if key, _, ok := strings.Cut(s, ":"); ok {
			return key + ": N"
		}
		return "N %  "
	}), "$1 N")
}
