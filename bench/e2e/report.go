package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// results holds what was measured: system → cell → one sample per round.
type results map[string]map[string][]sample

func (r results) add(system, cell string, s sample) {
	if r[system] == nil {
		r[system] = map[string][]sample{}
	}
	r[system][cell] = append(r[system][cell], s)
}

// value is a figure of one round; with added, less the same figure of a direct run in that round.
func (r results) value(system, cell, figure string, round int, added bool) (float64, bool) {
	runs := r[system][cell]
	if round >= len(runs) {
		return 0, false
	}
	v, ok := runs[round][figure]
	if !ok || !added {
		return v, ok
	}
	base, ok := r.value(direct, cell, figure, round, false)
	return v - base, ok
}

// median of a figure over the rounds; NaN if it was never measured.
func (r results) median(system, cell, figure string, added bool) float64 {
	var all []float64
	for i := range r[system][cell] {
		if v, ok := r.value(system, cell, figure, i, added); ok {
			all = append(all, v)
		}
	}
	return median(all)
}

// ratio compares two systems round by round and takes the median, so that a slow minute of the machine falls on
// both. A round in which the divisor is not positive is noise and is left out.
func (r results) ratio(a, b string, f target) float64 {
	var all []float64
	for i := range r[a][f.cell] {
		x, ok := r.value(a, f.cell, f.figure, i, f.added)
		y, ok2 := r.value(b, f.cell, f.figure, i, f.added)
		if ok && ok2 && y > 0 {
			all = append(all, x/y)
		}
	}
	return median(all)
}

// sum of a figure over all rounds and cells of a system.
func (r results) sum(system, figure string) (total float64) {
	for _, runs := range r[system] {
		for _, s := range runs {
			total += s[figure]
		}
	}
	return total
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// target is one line of what must hold. Without against it is an absolute limit.
type target struct {
	name         string
	system       string // who must hold it
	cell, figure string
	added        bool
	against      string
	must, aim    float64 // aim 0 = none
	unit         string
}

func targets() []target {
	const rss = "process"
	return []target{
		{"CPU per request, small JSON, c1", own, jsonOne, "cpu_us", false, rproxy, 1, 0.85, "×"},
		{"CPU per request, small JSON, c16", own, jsonMany, "cpu_us", false, rproxy, 1, 0.85, "×"},
		{"the same with `durability: power`, c16", power, jsonMany, "cpu_us", false, rproxy, 1.4, 1.15, "×"},
		{"added latency p50, c1", own, jsonOne, "p50_us", true, rproxy, 1, 0.9, "×"},
		{"added per chunk p50, 8 streams", own, streams8, "chunk_p50_us", true, fwd, 1.2, 1.05, "×"},
		{"CPU per chunk, 64 streams", own, streams64, "cpu_chunk_us", false, fwd, 1.2, 1.05, "×"},
		{"many streams opened over 10 s, first text p99", own, opening, "content_p99_us", false, fwd, 1.5, 1.2, "×"},
		{"200 KB prompts, CPU per request", own, bigPrompt, "cpu_us", false, rproxy, 0.7, 0.6, "×"},
		{"RSS idle", own, rss, "idle_mib", false, "", 40, 0, " MiB"},
		{"RSS peak of this run", own, rss, "peak_mib", false, "", 80, 0, " MiB"},
		{"memory per open stream", own, opening, "stream_kib", false, "", 70, 45, " KiB"},
	}
}

// judge compares a value with what must hold.
func (f target) judge(v float64) string {
	switch {
	case math.IsNaN(v):
		return "not measured"
	case v > f.must:
		return "**fails**"
	case f.aim > 0 && v > f.aim:
		return "holds"
	case f.aim > 0:
		return "holds, aim reached"
	}
	return "holds"
}

func (r results) targetValue(f target, system string) float64 {
	if f.against == "" {
		return r.median(system, f.cell, f.figure, f.added)
	}
	return r.ratio(system, f.against, f)
}

// failures lists the targets that were measured and do not hold.
func (r results) failures() (out []string) {
	for _, f := range targets() {
		if v := r.targetValue(f, f.system); v > f.must {
			out = append(out, fmt.Sprintf("%s: %s, must be ≤ %s", f.name, number(v, f.unit), number(f.must, f.unit)))
		}
	}
	return out
}

func number(v float64, unit string) string {
	if math.IsNaN(v) {
		return "–"
	}
	digits := 0
	if a := math.Abs(v); a < 10 {
		digits = 2
	} else if a < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f%s", digits, v, unit)
}

// writeTargets prints the ratios with what must hold and how Hearth stands, and the forwarder beside it.
func (r results) writeTargets(w io.Writer) {
	fmt.Fprintln(w, "| figure | against | must | aim | forwarder | Hearth | |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- |")
	for _, f := range targets() {
		against, aim := f.against, "–"
		if against == "" {
			against = "–"
		}
		if f.aim > 0 {
			aim = "≤ " + number(f.aim, f.unit)
		}
		v := r.targetValue(f, f.system)
		fmt.Fprintf(w, "| %s | %s | ≤ %s | %s | %s | %s | %s |\n", f.name, against, number(f.must, f.unit), aim,
			number(r.targetValue(f, fwd), f.unit), number(v, f.unit), f.judge(v))
	}
}

// column is one column of the table of absolute figures; cells of several figures are joined by " / ".
type column struct {
	name  string
	parts []target // cell, figure, added and, in must, the factor it is printed with
}

func columns() []column {
	part := func(cell, figure string, added bool, factor float64) target {
		return target{cell: cell, figure: figure, added: added, must: factor}
	}
	return []column{
		{"rps c1 / c16", []target{part(jsonOne, "rps", false, 1), part(jsonMany, "rps", false, 1)}},
		{"added p50 / p99, c1 (µs)", []target{part(jsonOne, "p50_us", true, 1), part(jsonOne, "p99_us", true, 1)}},
		{"added p50 / p99, c16 (µs)", []target{part(jsonMany, "p50_us", true, 1), part(jsonMany, "p99_us", true, 1)}},
		{"CPU per request c1 / c16 (µs)", []target{part(jsonOne, "cpu_us", false, 1), part(jsonMany, "cpu_us", false, 1)}},
		{"8 streams: first text p50 (ms)", []target{part(streams8, "content_p50_us", false, 1e-3)}},
		{"8 streams: added per chunk p50 (µs)", []target{part(streams8, "chunk_p50_us", true, 1)}},
		{"64 streams: first text p50 / p99 (ms)", []target{part(streams64, "content_p50_us", false, 1e-3), part(streams64, "content_p99_us", false, 1e-3)}},
		{"64 streams: CPU per chunk (µs)", []target{part(streams64, "cpu_chunk_us", false, 1)}},
		{"200 KB: rps", []target{part(bigPrompt, "rps", false, 1)}},
		{"200 KB: CPU per request (µs)", []target{part(bigPrompt, "cpu_us", false, 1)}},
		{"many streams: open at once", []target{part(opening, "open", false, 1)}},
		{"many streams: first text p50 / p99 (ms)", []target{part(opening, "content_p50_us", false, 1e-3), part(opening, "content_p99_us", false, 1e-3)}},
		{"memory per open stream (KiB)", []target{part(opening, "stream_kib", false, 1)}},
		{"RSS idle / peak (MiB)", []target{part("process", "idle_mib", false, 1), part("process", "peak_mib", false, 1)}},
	}
}

// writeTable prints the medians, one figure a line and one system a column, and the errors below.
func (r results) writeTable(w io.Writer, systems []string) {
	fmt.Fprintf(w, "| figure | %s |\n", strings.Join(systems, " | "))
	fmt.Fprintln(w, "| --- |"+strings.Repeat(" --- |", len(systems)))
	for _, c := range columns() {
		fmt.Fprintf(w, "| %s |", c.name)
		for _, s := range systems {
			var parts []string
			for _, p := range c.parts {
				if p.added && s == direct {
					parts = append(parts, "–")
					continue
				}
				parts = append(parts, number(r.median(s, p.cell, p.figure, p.added)*p.must, ""))
			}
			cell := strings.Join(parts, " / ")
			if strings.Trim(cell, "–/ ") == "" {
				cell = "–"
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
	for _, e := range []struct{ name, figure string }{{"failed requests", "err"}, {"cut or short streams", "short_streams"}} {
		fmt.Fprintf(w, "| %s |", e.name)
		for _, s := range systems {
			fmt.Fprintf(w, " %.0f |", r.sum(s, e.figure))
		}
		fmt.Fprintln(w)
	}
}
