// Command e2e measures Hearth from outside, interleaved with a tuned httputil.ReverseProxy, the smallest forwarder
// and, where it is installed, nginx: all on loopback, in front of one mock upstream, under one load generator.
// It prints the ratios that must hold. It starts every process itself and ends only those.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	hearth    string
	bench     string
	out, json string
	d, warm   time.Duration
	limit     time.Duration
	rounds    int
	many      int
	strict    bool
	tables    io.Writer // where the tables go
	progress  io.Writer // one line per measurement
}

// check refuses what would measure nothing: streams that began in the warm-up are not counted, so some must
// begin after it.
func (o options) check() error {
	if o.d <= 0 || o.warm < 0 || o.rounds < 1 || o.many < 0 {
		return errors.New("-d and -rounds must be positive, -warm and -many not negative")
	}
	if o.warm > 0 && o.warm+o.d < longestStream+100*time.Millisecond {
		return fmt.Errorf("-warm and -d together must be longer than a stream, %s", longestStream)
	}
	return nil
}

func main() {
	var o options
	flag.StringVar(&o.hearth, "hearth", "build", `path of a hearth program; "build" compiles the one of this tree; "" leaves it out`)
	flag.StringVar(&o.bench, "C", ".", "directory of the bench module")
	flag.StringVar(&o.out, "o", "", "write the tables to this file too")
	flag.StringVar(&o.json, "json", "", "write every sample to this file")
	flag.DurationVar(&o.d, "d", 2*time.Second, "duration of one measurement")
	flag.DurationVar(&o.warm, "warm", 500*time.Millisecond, "warm-up before it")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "bound of the whole run")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds over all systems; medians are printed")
	flag.IntVar(&o.many, "many", 1000, "streams to open over ten seconds, 0 = none")
	flag.BoolVar(&o.strict, "strict", false, "end with status 1 when a figure does not hold")
	flag.Parse()
	o.tables, o.progress = os.Stdout, os.Stderr
	if err := bounded(o); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// bounded runs until all is measured, the limit is reached or a signal comes.
func bounded(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	return run(ctx, o)
}

func run(ctx context.Context, o options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hearth-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for the run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bench, err := filepath.Abs(o.bench)
	if err != nil {
		return err
	}
	l := &lab{dir: dir, program: map[string]string{}}
	if err := l.build(ctx, bench); err != nil {
		return err
	}
	reasons := l.find(ctx, o, filepath.Dir(bench))
	if err := l.startMock(ctx); err != nil {
		return err
	}
	defer l.mock.stop()
	r := results{}
	if err := l.rounds(ctx, o, r, reasons); err != nil {
		return err
	}
	if o.many > 0 {
		if err := l.opening(ctx, o, r, reasons); err != nil {
			return err
		}
	}
	return report(o, r, reasons)
}

// find looks for nginx and Hearth. What is missing gets a reason.
func (l *lab) find(ctx context.Context, o options, root string) map[string]string {
	reasons := map[string]string{}
	if p, err := exec.LookPath(nginx); err == nil {
		l.program[nginx] = p
	} else {
		reasons[nginx] = "it is not installed"
	}
	switch o.hearth {
	case "":
	case "build":
		if err := compile(ctx, root, filepath.Join(l.dir, own), "./cmd/hearth"); err != nil {
			reasons[own] = err.Error()
		} else {
			l.program[own] = filepath.Join(l.dir, own)
		}
	default:
		if p, err := filepath.Abs(o.hearth); err == nil {
			l.program[own] = p
		}
	}
	if o.hearth != "" && reasons[own] != "" {
		reasons[power] = reasons[own]
	}
	return reasons
}

// systems are those to be measured, in the order of the tables.
func (l *lab) systems() []string {
	out := []string{direct}
	for _, s := range []string{nginx, rproxy, fwd, own, power} {
		if l.program[strings.TrimSuffix(s, ", power")] != "" {
			out = append(out, s)
		}
	}
	return out
}

// rounds starts every system once and measures them in turn, beginning each round with another one.
func (l *lab) rounds(ctx context.Context, o options, r results, reasons map[string]string) error {
	var running []*gateway
	for _, name := range l.systems() {
		g, err := l.gateway(ctx, name)
		if err != nil {
			reasons[name] = err.Error()
			continue
		}
		defer g.proc.stop()
		running = append(running, g)
	}
	for round := range o.rounds {
		for _, c := range cells() {
			for i := range running {
				g := running[(i+round)%len(running)]
				if !c.suits(g.name) || reasons[g.name] != "" {
					continue
				}
				s, err := l.measure(ctx, g, c, o.warm, o.d)
				if ctx.Err() != nil {
					return fmt.Errorf("the run was cut short: %w", context.Cause(ctx))
				}
				if err != nil {
					reasons[g.name] = err.Error()
					continue
				}
				r.add(g.name, c.name, s)
				fmt.Fprintf(o.progress, "round %d/%d  %-10s  %-14s  n=%.0f err=%.0f\n", round+1, o.rounds, c.name, g.name, s["n"], s["err"])
			}
		}
	}
	for _, g := range running {
		if g.proc == nil {
			continue
		}
		if peak, err := g.proc.memory("VmHWM"); err == nil {
			r.add(g.name, "process", sample{"idle_mib": g.idleMiB, "peak_mib": peak})
		}
	}
	return nil
}

// opening measures many open streams, each system alone and fresh.
func (l *lab) opening(ctx context.Context, o options, r results, reasons map[string]string) error {
	for _, name := range []string{fwd, own} {
		if l.program[name] == "" || reasons[name] != "" {
			continue
		}
		if err := l.openOne(ctx, name, o, r); err != nil {
			reasons[name] = err.Error()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the run was cut short: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (l *lab) openOne(ctx context.Context, name string, o options, r results) error {
	g, err := l.gateway(ctx, name)
	if err != nil {
		return err
	}
	defer g.proc.stop()
	s, err := l.open(ctx, g, o.many)
	if err != nil {
		return err
	}
	r.add(name, opening, s)
	fmt.Fprintf(o.progress, "%-21s  %-14s  n=%.0f open=%.0f err=%.0f\n", opening, name, s["n"], s["open"], s["err"])
	return nil
}

func report(o options, r results, reasons map[string]string) error {
	var b strings.Builder
	var systems []string
	for _, s := range []string{direct, nginx, rproxy, fwd, own, power} {
		if r[s] != nil {
			systems = append(systems, s)
		}
	}
	describe(&b, o)
	fmt.Fprintln(&b)
	r.writeTargets(&b)
	fmt.Fprintln(&b)
	r.writeTable(&b, systems)
	var missing []string
	for s, why := range reasons {
		missing = append(missing, fmt.Sprintf("\nNot measured: %s: %s", s, why))
	}
	slices.Sort(missing)
	fmt.Fprintln(&b, strings.Join(missing, "\n"))
	if _, err := io.WriteString(o.tables, b.String()); err != nil {
		return err
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(b.String()), 0o644); err != nil {
			return fmt.Errorf("write the tables: %w", err)
		}
	}
	if o.json != "" {
		text, err := json.MarshalIndent(map[string]any{"samples": r, "not_measured": reasons}, "", "\t")
		if err != nil {
			return fmt.Errorf("write the samples: %w", err)
		}
		if err := os.WriteFile(o.json, text, 0o644); err != nil {
			return fmt.Errorf("write the samples: %w", err)
		}
	}
	if bad := r.failures(); o.strict && len(bad) > 0 {
		return errors.New("these figures do not hold:\n" + strings.Join(bad, "\n"))
	}
	return nil
}

// describe says on what and how it was measured.
func describe(w io.Writer, o options) {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	busy := "unknown"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		busy, _, _ = strings.Cut(string(b), " ")
	}
	fmt.Fprintf(w, "%s, %s, %d cores (%s), load average %s at the end. Client, gateway and mock share the cores. "+
		"%d rounds of %s per figure, interleaved; medians.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), model, busy, o.rounds, o.d)
}
