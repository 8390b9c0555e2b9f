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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"myip.co.kr/hearth"
)

var update = flag.Bool("update", false, "rewrite golden files")

// estimates, and exact amounts that hang on them, are masked in golden files: the estimator has tests of its own.
var estimates = regexp.MustCompile(`(estimated? (?:at|is)|lowered to|prompt estimate:|"estimate_tokens":|"prompt_tokens":|"expected":|"(?:max|completion)_tokens":) ?[0-9.]+`)

// costs are what routing by cost is made of, masked likewise: the router has tests of its own. What they say is the order.
var costs = regexp.MustCompile(`("(?:share|price|wait|decode|failed_tries|quality|later_turns|total|ttft_seconds|rest_seconds|cached_tokens|tries|error_rate|rate_429|bad_tool_rate)":) [0-9.e-]+|[0-9.]+ %  +`)

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

// TestExplanation_Terms: what an order follows from is shown as soon as there is a measurement behind it.
func TestExplanation_Terms(t *testing.T) {
	const at = `{"model":"a/b","endpoint":"%s:a/b","priority":50,"reason":"share","share":%s,"cost":{"prompt":"1","completion":"2","currency":"KRW","expected":0.5},"routing":{"price":0.25,"wait":0.125,"decode":0.0625,` +
		`"failed_tries":0.01,"quality":0,"later_turns":%s,"total":0.4475,"ttft_seconds":1.5,"rest_seconds":3,"in_flight":2,"cap":8,"error_rate":0.02,"rate_429":0.001,"state":"closed","flagged":false,"new":%s}}`
	own := `{"model":"a/b","endpoint":"local-gpu/g:a/b","reason":"priority","share":null,"cost":{"prompt":"1","completion":"2","currency":"KRW","expected":0.5}}`
	for _, c := range []struct{ name, first, later, second, want string }{
		{"one of two is measured", "false", "0", "true", `
routing cost of an answer:
ENDPOINT   SHARE  PRICE  WAIT   DECODE  FAILED  QUALITY  TOTAL KRW  FIRST TOKEN  REST  IN FLIGHT  ERRORS  429    STATE
acme:a/b   75 %   0.25   0.125  0.0625  0.01    0        0.448      1.5 s        3 s   2 of 8     2 %     0.1 %  closed
cheap:a/b  25 %   0.25   0.125  0.0625  0.01    0        0.448      1.5 s        3 s   2 of 8     2 %     0.1 %  closed, not measured

`},
		{"it opens a conversation", "false", "-0.0125", "false", `
routing cost of an answer:
ENDPOINT   SHARE  PRICE  WAIT   DECODE  FAILED  QUALITY  LATER    TOTAL KRW  FIRST TOKEN  REST  IN FLIGHT  ERRORS  429    STATE
acme:a/b   75 %   0.25   0.125  0.0625  0.01    0        -0.0125  0.448      1.5 s        3 s   2 of 8     2 %     0.1 %  closed
cheap:a/b  25 %   0.25   0.125  0.0625  0.01    0        0        0.448      1.5 s        3 s   2 of 8     2 %     0.1 %  closed

`},
		{"nothing is measured", "true", "-0.0125", "true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := `{"data":{"candidates":[` + own + "," + fmt.Sprintf(at, "acme", "0.75", c.later, c.first) + "," + fmt.Sprintf(at, "cheap", "0.25", "0", c.second) + `]}}`
			var x explanation
			if err := json.Unmarshal([]byte(b), &x); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := measuredTerms(&out, x.Data.Candidates); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, out.String()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
