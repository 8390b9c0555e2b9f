package market

import (
	"bufio"
	"fmt"
	"io"
)

// Markdown writes what became of a plan as tables: the comparisons, then the figures of every policy.
func Markdown(to io.Writer, plan *Plan, c *Comparison) error {
	w := bufio.NewWriter(to)
	comparisons(w, plan, c)
	figureTable(w, plan, c)
	return w.Flush()
}

// figureTable writes a table of all figures.
func figureTable(w io.Writer, plan *Plan, c *Comparison) {
	fmt.Fprint(w, "| Scenario | Policy | TTFT mean, p50, p95 (s) | tok/s | 429s | Failed | Lost | $ per 1,000 | Cached |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		for _, p := range plan.Policies {
			f := s.Policies[p]
			fmt.Fprintf(w, "| %s | %s | %.2f, %.2f, %.2f | %.1f | %.4f | %.4f | %.4f | %.3f | %.2f |\n", s.Name, p, f.TTFT, f.TTFTP50, f.TTFTP95, f.E2E, f.Rate429, f.Failed, f.Lost, f.Cost, f.Cached)
		}
	}
}

// comparisons writes a table for each policy that another one is compared with.
func comparisons(w io.Writer, plan *Plan, c *Comparison) {
	for _, other := range plan.Policies {
		if _, ok := c.Vs[other]; !ok {
			continue
		}
		fmt.Fprintf(w, "%s against %s:\n\n| Scenario | TTFT | tok/s end to end | 429s | Cost | User cost |\n| --- | --- | --- | --- | --- | --- |\n", plan.Versus[other], other)
		for i := range c.Scenarios {
			s := &c.Scenarios[i]
			name := s.Name
			if s.Saturated {
				name += " (saturated)"
			}
			row(w, name, s.Vs[other])
		}
		row(w, "**all**", c.Vs[other])
		fmt.Fprintln(w)
	}
}

func row(w io.Writer, name string, v Change) {
	fmt.Fprintf(w, "| %s | %+.0f %% | %+.0f %% | %+.0f %% | %+.1f %% | %+.0f %% |\n", name, 100*v.TTFT, 100*v.E2E, 100*v.Rate429, 100*v.Cost, 100*v.UserCost)
}

// MissedTable writes how many scenarios miss each gate, and by how many points. It is empty for a single scenario.
func MissedTable(to io.Writer, c *Comparison) error {
	if len(c.Missed) == 0 {
		return nil
	}
	w := bufio.NewWriter(to)
	fmt.Fprint(w, "| Figure | Scenarios | Missed by | Points, mean | Points, most |\n| --- | --- | --- | --- | --- |\n")
	for _, m := range c.Missed {
		fmt.Fprintf(w, "| %s | %d | %d | %.1f | %.1f |\n", m.Gate, m.Scenarios, m.Missed, 100*m.Mean, 100*m.Most)
	}
	return w.Flush()
}
