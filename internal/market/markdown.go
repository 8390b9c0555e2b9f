package market

import (
	"bufio"
	"fmt"
	"io"
)

// Markdown writes what became of a plan as tables: the comparisons, then the figures of every policy.
func Markdown(to io.Writer, plan *Plan, c *Comparison) error {
	w := bufio.NewWriter(to)
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
	fmt.Fprint(w, "| Scenario | Policy | TTFT mean, p50, p95 (s) | tok/s | 429s | Failed | Lost | $ per 1,000 | Cached |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		for _, p := range plan.Policies {
			f := s.Policies[p]
			fmt.Fprintf(w, "| %s | %s | %.2f, %.2f, %.2f | %.1f | %.4f | %.4f | %.4f | %.3f | %.2f |\n", s.Name, p, f.TTFT, f.TTFTP50, f.TTFTP95, f.E2E, f.Rate429, f.Failed, f.Lost, f.Cost, f.Cached)
		}
	}
	return w.Flush()
}

func row(w io.Writer, name string, v Change) {
	fmt.Fprintf(w, "| %s | %+.0f %% | %+.0f %% | %+.0f %% | %+.1f %% | %+.0f %% |\n", name, 100*v.TTFT, 100*v.E2E, 100*v.Rate429, 100*v.Cost, 100*v.UserCost)
}
