package market

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^TestSlotDocs$ . -update

var (
	update = flag.Bool("update", false, "write the figures and pictures of docs/slots.md again")
	full   = flag.Bool("full", false, "hold what takes long too: the figures of docs/slots.md, and the gates with many runs")
)

const docs = "../../docs/"

// TestSlotDocs keeps the table and the pictures of docs/slots.md in step with the simulator. Without -full only the
// scenarios are looked at.
func TestSlotDocs(t *testing.T) {
	page, err := os.ReadFile(docs + "slots.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), "| Scenario |")
	old, after, found := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatal("docs/slots.md has no table of scenarios")
	}
	var turn bytes.Buffer
	if err := TurnPicture(&turn); err != nil {
		t.Fatal(err)
	}
	if !*update {
		var names []string
		for i, line := range strings.Split(old, "\n") {
			if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && i > 1 {
				names = append(names, name)
			}
		}
		var want []string
		for _, s := range SlotScenarios() {
			want = append(want, s.Name)
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("the scenarios of docs/slots.md (make docs writes them): -want +got\n%s", d)
		}
		if !*full {
			return
		}
		sameFile(t, "slots-turn.svg", turn.Bytes())
	}
	var table, chart bytes.Buffer
	results := playList(t, 1, 10)
	if err := SlotMarkdown(&table, results); err != nil {
		t.Fatal(err)
	}
	if err := SlotChart(&chart, results); err != nil {
		t.Fatal(err)
	}
	text := before + strings.TrimSuffix(table.String(), "\n") + "\n\n" + after
	if !*update {
		sameFile(t, "slots-chart.svg", chart.Bytes())
		sameFile(t, "slots.md", []byte(text))
		return
	}
	for name, b := range map[string][]byte{"slots.md": []byte(text), "slots-turn.svg": turn.Bytes(), "slots-chart.svg": chart.Bytes()} {
		if err := os.WriteFile(docs+name, b, 0o644); err != nil {
			t.Error(err)
		}
	}
}

func sameFile(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(docs + name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/%s is out of date (make docs writes it): -want +got\n%s", name, cmp.Diff(string(want), string(got)))
	}
}

// playList plays the whole list.
func playList(t *testing.T, seed uint64, runs int) (results []SlotResult) {
	t.Helper()
	for _, s := range SlotScenarios() {
		r, err := SimulateSlots(t.Context(), s, seed, runs, func() {})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	return results
}
