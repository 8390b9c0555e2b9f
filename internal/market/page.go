package market

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// colours of endpoints and policies, told apart by people who see few colours as well; they repeat.
var colours = []string{"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#332288", "#88ccee", "#117733", "#999933", "#882255"}

func colour(i int) string { return colours[i%len(colours)] }

const (
	plotWide = 420.0
	plotHigh = 180.0
	plotLeft = 46.0
	plotTop  = 24.0
)

// Page writes what became of a plan as a page: one file that loads nothing from anywhere. Shares and waits are those of
// the first seed.
func Page(to io.Writer, plan *Plan, c *Comparison) error {
	w := bufio.NewWriter(to)
	fmt.Fprint(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Market of providers: simulation</title>
<style>body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:960px;padding:0 1em;color:#222;background:#fff}table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto;margin:.3em 0}h2{margin-top:2em}</style></head><body>
<h1>Market of providers: simulation</h1>
`)
	for _, other := range plan.Policies {
		if _, ok := c.Vs[other]; !ok {
			continue
		}
		fmt.Fprintf(w, "<h2>%s against %s</h2>\n<table><tr><th>Scenario</th><th>TTFT</th><th>tok/s end to end</th><th>429s</th><th>Cost</th><th>User cost</th></tr>\n", escaped(plan.Versus[other]), escaped(other))
		for i := range c.Scenarios {
			cells(w, c.Scenarios[i].Name, c.Scenarios[i].Vs[other])
		}
		cells(w, "all, geometric mean", c.Vs[other])
		fmt.Fprint(w, "</table>\n")
	}
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		fmt.Fprintf(w, "<h2>%s</h2>\n", escaped(s.Name))
		s.stack(w, plan.Policies)
		s.curves(w, plan.Policies)
		for _, p := range plan.Policies {
			f := s.Policies[p]
			f.areas(w, p, s.endpoints)
		}
	}
	fmt.Fprint(w, "</body></html>\n")
	return w.Flush()
}

func cells(w io.Writer, name string, v Change) {
	fmt.Fprintf(w, "<tr><td>%s</td><td>%+.0f %%</td><td>%+.0f %%</td><td>%+.0f %%</td><td>%+.1f %%</td><td>%+.0f %%</td></tr>\n", escaped(name), 100*v.TTFT, 100*v.E2E, 100*v.Rate429, 100*v.Cost, 100*v.UserCost)
}

// picture begins a chart of a width and height.
func picture(w io.Writer, width, height float64, title string) {
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" font-size=\"11\" role=\"img\"><title>%s</title>\n<text x=\"0\" y=\"14\" font-weight=\"bold\">%s</text>\n", width, height, width, height, escaped(title), escaped(title))
}

// stack draws what a request costs its user under each policy, by its parts.
func (s *Played) stack(w io.Writer, policies []string) {
	const name, bar, line = 150.0, 520.0, 22.0
	most := 0.0
	for _, p := range policies {
		most = max(most, s.Policies[p].UserCost)
	}
	picture(w, name+bar+160, plotTop+line*float64(len(policies)+1), "User cost of a request, in prices of a typical one")
	kinds := [...]string{"price", "first token", "rest", "lost", "429s", "broken tools"}
	for i, p := range policies {
		f := s.Policies[p]
		x, y := name, plotTop+line*float64(i)
		fmt.Fprintf(w, "<text x=\"0\" y=\"%.1f\">%s</text>\n", y+14, escaped(p))
		for k, v := range [...]float64{f.Parts.Price, f.Parts.First, f.Parts.Rest, f.Parts.Lost, f.Parts.Limits, f.Parts.Tools} {
			wide := v / math.Max(most, 1e-12) * bar
			fmt.Fprintf(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\" fill=\"%s\"><title>%s %.3f</title></rect>\n", x, y+2, wide, colour(k), kinds[k], v)
			x += wide
		}
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\">%.2f</text>\n", x+6, y+14, f.UserCost)
	}
	legend(w, name, plotTop+line*float64(len(policies))+14, kinds[:])
	fmt.Fprint(w, "</svg>\n")
}

func legend(w io.Writer, x, y float64, names []string) {
	for i, n := range names {
		fmt.Fprintf(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y-9, colour(i), x+13, y, escaped(n))
		x += 30 + 6.5*float64(len(n))
	}
}

// curves draws which part of the requests had their first token by when, on a scale of powers of ten.
func (s *Played) curves(w io.Writer, policies []string) {
	const least, most = 0.05, 60.0
	place := func(v float64) float64 {
		return plotLeft + plotWide*math.Log(clamp(v, least, most)/least)/math.Log(most/least)
	}
	picture(w, plotLeft+plotWide+40, plotTop+plotHigh+50, "Part of the requests that have their first token, by seconds")
	for _, v := range []float64{0.1, 0.3, 1, 3, 10, 30} {
		fmt.Fprintf(w, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", place(v), place(v), plotTop, plotTop+plotHigh, place(v), plotTop+plotHigh+14, v)
	}
	for i, p := range policies {
		var path strings.Builder
		wait := s.Policies[p].wait
		for k, v := range wait {
			fmt.Fprintf(&path, "%.1f,%.1f ", place(v), plotTop+plotHigh*(1-float64(k)/curvePoints))
		}
		fmt.Fprintf(w, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"%s\"/>\n", colour(i), path.String())
	}
	for _, p := range []float64{0, 0.5, 1} {
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f %%</text>\n", plotLeft-4, plotTop+plotHigh*(1-p)+4, 100*p)
	}
	legend(w, plotLeft, plotTop+plotHigh+36, policies)
	fmt.Fprint(w, "</svg>\n")
}

// areas draws the shares of the endpoints over the time. What is left white went to those with less than one in fifty.
func (f *Figures) areas(w io.Writer, policy string, endpoints []string) {
	picture(w, plotLeft+plotWide+40, plotTop+plotHigh+40, policy+": shares of the endpoints over the time")
	floor := make([]float64, len(f.over))
	var names []string
	for e, s := range f.Shares {
		if s < 0.02 {
			continue
		}
		var line strings.Builder
		back := make([]string, 0, len(f.over))
		for part, counts := range f.over {
			all := 0.0
			for _, n := range counts {
				all += n
			}
			x := plotLeft + plotWide*float64(part)/float64(len(f.over)-1)
			back = append(back, fmt.Sprintf("%.1f,%.1f", x, plotTop+plotHigh*(1-floor[part])))
			floor[part] += counts[e] / math.Max(all, 1)
			fmt.Fprintf(&line, "%.1f,%.1f ", x, plotTop+plotHigh*(1-floor[part]))
		}
		slices.Reverse(back)
		fmt.Fprintf(w, "<polygon fill=\"%s\" points=\"%s%s\"><title>%s</title></polygon>\n", colour(len(names)), line.String(), strings.Join(back, " "), escaped(endpoints[e]))
		names = append(names, cut(endpoints[e]))
	}
	legend(w, plotLeft, plotTop+plotHigh+16, names[:min(len(names), 8)])
	fmt.Fprint(w, "</svg>\n")
}
