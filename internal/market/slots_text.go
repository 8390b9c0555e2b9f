package market

import (
	"fmt"
	"io"
	"strings"
)

// SlotMarkdown writes the figures as a table, a line for each scenario, with the gates that are not passed.
func SlotMarkdown(w io.Writer, results []SlotResult) error {
	_, err := fmt.Fprint(w, "| Scenario | Served (FIFO, no ageing) | Worst model | Jain | Loads (FIFO, bound) | Wait p50 / p95 | Local (never, always) | Loading | Not kept |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range results {
		r := &results[i]
		h, fifo, young := r.Policies[PolicyHearth], r.Policies[PolicyFIFO], r.Policies[PolicyNoAgeing]
		local := fmt.Sprintf("%.2f", *h.LocalShare)
		if r.Scenario.Fallback {
			local += fmt.Sprintf(" (%.2f, %.2f)", *r.Policies[PolicyNever].LocalShare, *r.Policies[PolicyAlways].LocalShare)
		}
		bound := fmt.Sprintf("%.1f", r.Policies[PolicyClairvoyant].LoadsPer100)
		if free, ok := r.Policies[PolicyFree]; ok {
			bound += fmt.Sprintf("; free %.1f", free.LoadsPer100)
		}
		_, err = fmt.Fprintf(w, "| %s | %.3f (%.3f, %.3f) | %.3f | %.3f | %.1f ± %.1f (%.1f, %s) | %.0f / %.0f s | %s | %.2f | %s |\n", r.Name, *h.Served, *fifo.Served, *young.Served,
			*h.MinModel, *h.Jain, h.LoadsPer100, r.Widths[PolicyHearth].LoadsPer100, fifo.LoadsPer100, bound, *h.WaitP50, *h.WaitP95, local, *h.LoadingShare, missed(r))
	}
	return err
}

// missed are the gates that are not passed.
func missed(r *SlotResult) string {
	var list []string
	for _, g := range r.Gates() {
		if !g.OK() {
			list = append(list, g.String())
		}
	}
	return strings.Join(list, "; ")
}
