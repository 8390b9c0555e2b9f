package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"myip.co.kr/hearth/internal/market"
)

// carriedWords say why requests count as they were.
var carriedWords = []struct{ why, words string }{
	{"not_ordered", "ordered by the caller, or by price"}, {"local", "answered by an own slot"}, {"no_choice", "with one endpoint to choose from"},
	{"moved", "sent elsewhere than drawn"}, {"failed", "without a complete answer"},
}

// mostModels is how many models a table shows by themselves.
const mostModels = 20

// printReplay shows a replay as tables.
func printReplay(out io.Writer, r *market.Replayed) error {
	fmt.Fprintf(out, "%s to %s: %s, %d of them drawn by routing cost and replayed. Amounts are in %s.\n",
		r.From.Format("2006-01-02 15:04"), r.To.Format("2006-01-02 15:04 MST"), count(r.Requests, "request"), r.Replayed, r.Currency)
	var carried []string
	for _, c := range carriedWords {
		if n := r.Carried[c.why]; n > 0 {
			carried = append(carried, fmt.Sprintf("%d %s", n, c.words))
		}
	}
	if len(carried) > 0 {
		fmt.Fprintf(out, "As they were in every line: %s.\n", strings.Join(carried, ", "))
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "COST\tFROM–TO\t\tTTFT\tFROM–TO\tp50\tp95\t\tTOK/S\tFROM–TO\t\tFAILED\tUSER\t\tMOVED\tOVERLAP\tN\t  POLICY")
	if len(r.Models) != 1 {
		replayPart(w, "all models", r, &r.All)
	}
	for i := range r.Models[:min(len(r.Models), mostModels)] {
		if m := &r.Models[i]; m.Replayed > 0 {
			replayPart(w, m.Model, r, m)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := replayShares(out, r); err != nil {
		return err
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(out, "Note: %s.\n", text)
	}
	return nil
}

// replayPart prints the lines of a part of the records.
func replayPart(w io.Writer, name string, r *market.Replayed, p *market.ReplayPart) {
	h := &p.Happened
	fmt.Fprintf(w, "%s, %d of %d\n", name, p.Replayed, p.Requests)
	fmt.Fprintf(w, "%.4g\t\t\t%.2f\t\t%.2f\t%.2f\t\t%.1f\t\t\t%.4f\t%.4g\t\t\t\t\t  as it was\n", h.Cost, h.TTFT, h.TTFTP50, h.TTFTP95, h.E2E, h.Failed, 1000*h.User)
	for _, policy := range r.Policies {
		e := p.Policies[policy]
		fmt.Fprintf(w, "%.4g\t%s\t%+.1f%%\t%.2f\t%s\t%.2f\t%.2f\t%+.0f%%\t%.1f\t%s\t%+.0f%%\t%.4f\t%.4g\t%+.0f%%\t%.0f%%\t%.0f%%\t%.0f\t  %s\n",
			e.Cost.Value, replayRange(e.Cost, "%.4g"), 100*e.Cost.Change, e.TTFT.Value, replayRange(e.TTFT, "%.2f"), e.TTFTP50, e.TTFTP95, 100*e.TTFT.Change,
			e.E2E.Value, replayRange(e.E2E, "%.1f"), 100*e.E2E.Change, e.Failed.Value, 1000*e.User.Value, 100*e.User.Change, 100*e.Moved, 100*e.Overlap, e.Sample, policy)
	}
}

// replayRange is between what an estimate is to be expected.
func replayRange(e market.Estimate, form string) string {
	if e.High == nil {
		return "?"
	}
	return fmt.Sprintf(form+"–"+form, *e.Low, *e.High)
}

// mostShares is how many endpoints a table shows.
const mostShares = 12

// replayShares prints where the requests went, and where they would have gone.
func replayShares(out io.Writer, r *market.Replayed) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nTRIED\twas\t")
	for _, p := range r.Policies {
		fmt.Fprintf(w, "%s\t", p)
	}
	fmt.Fprintln(w, "  SHARES")
	under := map[string]map[string]float64{}
	for _, p := range r.Policies {
		for _, s := range r.All.Policies[p].Endpoints {
			if under[s.Endpoint] == nil {
				under[s.Endpoint] = map[string]float64{}
			}
			under[s.Endpoint][p] = s.Share
		}
	}
	shown := 0
	for _, s := range r.All.Spots() {
		if shown++; shown > mostShares {
			fmt.Fprintf(w, "\t\t%s  and %d more\n", strings.Repeat("\t", len(r.Policies)), len(under)-mostShares)
			break
		}
		fmt.Fprintf(w, "%d\t%.0f%%\t", s.Tried, 100*s.Was)
		for _, p := range r.Policies {
			fmt.Fprintf(w, "%.0f%%\t", 100*under[s.Endpoint][p])
		}
		fmt.Fprintf(w, "  %s\n", s.Endpoint)
	}
	return w.Flush()
}
