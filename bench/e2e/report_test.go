package main

import (
	"math"
	"strings"
	"testing"
)

func TestRatio(t *testing.T) {
	f := target{cell: "c", figure: "v"}
	added := target{cell: "c", figure: "v", added: true}
	r := results{}
	for _, round := range []struct{ direct, a, b float64 }{{10, 30, 20}, {10, 100, 50}, {10, 12, 8}, {10, 40, 20}} {
		r.add(direct, "c", sample{"v": round.direct})
		r.add("a", "c", sample{"v": round.a})
		r.add("b", "c", sample{"v": round.b})
	}
	for _, c := range []struct {
		name string
		got  float64
		want float64
	}{
		{"the median of the rounds' ratios", r.ratio("a", "b", f), 1.75},
		{"direct taken off, a round with a divisor below zero left out", r.ratio("a", "b", added), 2.25},
		{"median of a figure", r.median("a", "c", "v", false), 35},
		{"median of an added figure", r.median("b", "c", "v", true), 10},
		{"a system that was not measured", r.ratio("x", "b", f), math.NaN()},
		{"a figure that was not measured", r.median("a", "c", "w", false), math.NaN()},
		{"fewer rounds than the divisor", r.ratio("b", "short", f), math.NaN()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if math.Abs(c.got-c.want) > 1e-9 || math.IsNaN(c.got) != math.IsNaN(c.want) {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	f := target{must: 1, aim: 0.85}
	for v, want := range map[float64]string{0.8: "holds, aim reached", 0.85: "holds, aim reached", 0.9: "holds", 1: "holds", 1.01: "**fails**"} {
		if got := f.judge(v); got != want {
			t.Errorf("judge(%v) = %q, want %q", v, got, want)
		}
	}
	if got := f.judge(math.NaN()); got != "not measured" {
		t.Errorf("judge(NaN) = %q", got)
	}
	if got := (target{must: 40}).judge(12); got != "holds" {
		t.Errorf("judge without an aim = %q", got)
	}
}

func TestFailures(t *testing.T) {
	r := results{}
	r.add(own, "process", sample{"idle_mib": 41, "peak_mib": 79})
	if got := r.failures(); len(got) != 1 || !strings.HasPrefix(got[0], "RSS idle: 41.0 MiB") {
		t.Errorf("failures = %q, want the idle memory alone", got)
	}
}

func TestReadLoad(t *testing.T) {
	s, err := readLoad([]byte(`{"label":"","mode":"json","n":7,"rps":3.5,"err":1}`))
	if err != nil || s["rps"] != 3.5 || s["err"] != 1 {
		t.Errorf("readLoad = %v, %v", s, err)
	}
	for name, line := range map[string]string{
		"no answer":  `{"n":0,"err":9,"err_sample":"401 unauthorized"}`,
		"not a line": `panic`,
	} {
		if s, err := readLoad([]byte(line)); err == nil {
			t.Errorf("%s: read as %v", name, s)
		}
	}
}

func TestStatusKB(t *testing.T) {
	const status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
	if kb, err := statusKB(status, "VmRSS"); err != nil || kb != 1024 {
		t.Errorf("VmRSS = %v, %v", kb, err)
	}
	if _, err := statusKB(status, "VmSwap"); err == nil {
		t.Error("a field that is not there was found")
	}
}
