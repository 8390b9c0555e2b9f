package market

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth/internal/routing"
)

//go:generate go test -run ^TestMarketDocs$ -timeout 60m . -update

const (
	resultsPage = "routing-results.md"
	tablesFrom  = "<!-- tables: written by make docs -->\n"
	tablesTo    = "<!-- end of the tables -->\n"
)

// What the page tells of scenarios drawn at random: with a seed that no constant was chosen with, and so many that the
// means hardly depend on which ones were drawn.
const (
	pageSeed      = 9300
	pageScenarios = 120
)

// TestMarketDocs keeps the tables of docs/routing-results.md in step with the simulator and with the code that it drives.
// Without -full only a mark of both is looked at: the constants, the scenarios, and the figures of four short runs.
func TestMarketDocs(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("figures of other processors differ in their last digits, and worlds with them")
	}
	page, err := os.ReadFile(docs + resultsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tablesFrom)
	old, after, end := strings.Cut(rest, tablesTo)
	if !ok || !end {
		t.Fatal("docs/routing-results.md has no tables")
	}
	mark := "<!-- measured at: " + fingerprint(t) + " -->\n"
	if !*update {
		if !strings.HasPrefix(old, mark) {
			t.Errorf("docs/routing-results.md was measured with other constants, scenarios or code: %q, now %q.\nMeasure anew, which takes minutes: go test ./internal/market -run '^TestMarketDocs$' -timeout 60m -update", strings.SplitN(old, "\n", 2)[0], mark)
		}
		if !*full {
			return
		}
	}
	tables := mark + measured(t)
	if *update {
		if err := os.WriteFile(docs+resultsPage, []byte(before+tablesFrom+tables+tablesTo+after), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	if d := cmp.Diff(tables, old); d != "" {
		t.Errorf("docs/routing-results.md is out of date (make docs writes it): -want +got\n%s", d)
	}
}

// fingerprint is a mark of all that the tables depend on.
func fingerprint(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n%s\n", Scenarios(Reporting), strings.Join(constants(t, "../routing"), "\n"))
	for _, s := range Scenarios(Reporting) {
		if s.Name != "calm-agents" && s.Name != "dominant-bad" {
			continue
		}
		s.Seconds = 500
		for _, policy := range []string{RoutingCost, InverseSquare, PriceCooldown, Thrifty} {
			f, err := Run(t.Context(), &s, policy, 1, routing.Options{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(f, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// constants are those of a package, as they are written, in the order of their names.
func constants(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				list = append(list, string(text[set.Position(v.Pos()).Offset:set.Position(v.End()).Offset]))
			}
		}
	}
	slices.Sort(list)
	return list
}

// measured are the tables.
func measured(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	plan := &Plan{Policies: []string{RoutingCost, InverseSquare, PriceCooldown, Thrifty}, Versus: Usual()}
	play := func(list []Scenario, seeds ...uint64) *Comparison {
		t.Helper()
		plan.Scenarios, plan.Seeds = list, seeds
		c, err := plan.Play(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	fmt.Fprint(&b, "## The reporting half\n\nSeeds 1, 2 and 3: ")
	one := play(Scenarios(Reporting), 1, 2, 3)
	unpassed(&b, one)
	comparisons(&b, plan, one)
	fmt.Fprint(&b, "## The same scenarios, other worlds\n\nSeeds 31, 32 and 33: other endpoints, prices, failures and requests under the same names. ")
	two := play(Scenarios(Reporting), 31, 32, 33)
	unpassed(&b, two)
	comparisons(&b, plan, two)
	list := Drawn(pageSeed, pageScenarios)
	drawn := play(list, pageSeed)
	full := 0
	for i := range drawn.Scenarios {
		if drawn.Scenarios[i].Saturated {
			full++
		}
	}
	fmt.Fprintf(&b, "## Scenarios drawn at random\n\n`hearth simulate --suite random --scenarios %d --seed %d`: 4 to 33 providers, 0.05 to 30 requests a second, chats and agents, prices,\nspeeds, caches, bursts and failures drawn anew for each, one seed each; %d of them saturated. Means:\n\n", pageScenarios, pageSeed, full)
	fmt.Fprint(&b, "| | TTFT | tok/s end to end | 429s | Cost | User cost |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, other := range []string{InverseSquare, PriceCooldown} {
		row(&b, plan.Versus[other]+" against "+other, drawn.Vs[other])
	}
	fmt.Fprint(&b, "\nHow many miss what each scenario is held to, and by how many points:\n\n")
	if err := MissedTable(&b, drawn); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(&b, "\n## Every figure of the reporting half\n\nSeeds 1, 2 and 3.\n\n")
	plan.Scenarios, plan.Seeds = Scenarios(Reporting), []uint64{1, 2, 3}
	figureTable(&b, plan, one)
	b.WriteString("\n")
	return b.String()
}

// unpassed says which gates are not passed.
func unpassed(w io.Writer, c *Comparison) {
	var list []string
	all := c.Gates()
	for _, g := range all {
		if !g.OK() {
			list = append(list, "- "+g.String()+"\n")
		}
	}
	if len(list) == 0 {
		fmt.Fprintf(w, "all %d gates are passed.\n\n", len(all))
		return
	}
	fmt.Fprintf(w, "%d of %d gates are not passed:\n\n%s\n", len(list), len(all), strings.Join(list, ""))
}
