package market

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// gateSummary is what became of one gate over many scenarios.
type gateSummary struct {
	name               string
	held, missed, over int     // scenarios that it holds for; that miss it; by more than a twentieth of what is wanted
	by, most           float64 // how much is missing on average over those that miss it, and at most, as a part of what is wanted
}

// summarize counts for each gate how many of the scenarios pass it.
func summarize(results []SlotResult) (list []*gateSummary) {
	byName := map[string]*gateSummary{}
	for i := range results {
		for _, g := range results[i].Gates() {
			s := byName[g.Name]
			if s == nil {
				s = &gateSummary{name: g.Name}
				byName[g.Name] = s
				list = append(list, s)
			}
			if s.held++; g.OK() {
				continue
			}
			by := math.Abs(g.Got-g.Want) / max(math.Abs(g.Want), 1e-3)
			s.missed++
			s.by += by
			s.most = max(s.most, by)
			if by > 0.05 {
				s.over++
			}
		}
	}
	return list
}

// SlotSummary prints for each gate in how many of the scenarios it is missed and by how much, and the means over the scenarios of
// what hearth and FIFO serve.
func SlotSummary(to io.Writer, results []SlotResult) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SCENARIOS\tMISSED\tBY > 5 %\tMEAN\tMOST\t  GATE")
	for _, s := range summarize(results) {
		fmt.Fprintf(w, "%d\t%d\t%d\t%.3f\t%.3f\t  %s\n", s.held, s.missed, s.over, s.by/float64(max(1, s.missed)), s.most, s.name)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var hearth, fifo, worst, local, loads share
	for i := range results {
		p := results[i].Policies
		local.of, local.all = local.of+*p[PolicyHearth].LocalShare, local.all+1
		loads.of, loads.all = loads.of+p[PolicyHearth].LoadsPer100, loads.all+1
		if results[i].Scenario.Fallback {
			continue
		}
		hearth.of, hearth.all = hearth.of+*p[PolicyHearth].Served, hearth.all+1
		fifo.of, fifo.all = fifo.of+*p[PolicyFIFO].Served, fifo.all+1
		worst.of, worst.all = worst.of+*p[PolicyHearth].MinModel, worst.all+1
	}
	_, err := fmt.Fprintf(to, "On average the GPU served %.3f of all, with %.2f loads per 100; without a fallback %.3f, of the worst model %.3f, FIFO %.3f.\n",
		local.part(), loads.part(), hearth.part(), worst.part(), fifo.part())
	return err
}
