package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"myip.co.kr/hearth/internal/market"
)

type simulateCmd struct {
	Market simulateMarketCmd `cmd:"" default:"withargs" help:"Play a market of providers that serve the same model, and compare ways to choose among them. It is what hearth simulate does without a further word."`
	Slots  simulateSlotsCmd  `cmd:"" help:"Play the sharing of one GPU by several models, and compare with other ways to share it."`
}

type simulateSlotsCmd struct {
	Scenario []string `placeholder:"NAME" help:"Play only the scenarios of the list whose name this is; * stands for anything. May be repeated."`
	Random   *int     `placeholder:"N" help:"Play N scenarios drawn at random from all that the list is a sample of, instead of the list, and sum up what became of the gates."`
	List     bool     `help:"Print the names of the list's scenarios and do nothing else."`
	Policy   []string `enum:"hearth,fifo,no-ageing,clairvoyant,clairvoyant-free,hearth-never-votes,hearth-always-votes" placeholder:"POLICY" help:"Show only this policy. May be repeated."`
	Seed     uint64   `default:"1" placeholder:"N" help:"Seed of the first run; the others follow (default: ${default})."`
	Runs     int      `default:"10" placeholder:"N" help:"Runs of each scenario, whose figures are averaged (default: ${default})."`
	Requests *int     `placeholder:"N" help:"Requests of one run, about (default: 4000)."`
	JSON     bool     `name:"json" xor:"form" help:"Print JSON."`
	Markdown bool     `xor:"form" help:"Print a table in Markdown."`
	Chart    string   `placeholder:"FILE" help:"Draw the figures into FILE, as SVG."`
	Gates    bool     `help:"Hold the figures against what hearth promises, and fail if one does not reach it."`

	slotMix `embed:"" group:"A mix of your own, instead of the list"`
}

// maxRandom bounds the scenarios that are drawn at random.
const maxRandom = 10_000

// maxRuns bounds the runs of a scenario.
const maxRuns = 1000

// Help is the long help of the command.
func (simulateSlotsCmd) Help() string {
	return `A GPU holds one of several models at a time. Requests for all of them come at random, and are decided on by the scheduler of the
gateway itself, in virtual time: what would take a day takes a second. The same requests are given to other policies:

  fifo         oldest first: nobody overtakes anybody, whichever model is loaded
  no-ageing    who asks for the loaded model is served as long as anybody does
  clairvoyant  no scheduler: the least loads with which anybody could serve in time what hearth served, knowing all in advance,
               and changing turns as hearth promises to; clairvoyant-free: keeping no promise but the budgets

and, where somebody else serves what the GPU does not, to hearth with votes that never, or always, start a swap.

Without flags of a mix of your own, a list of scenarios is played. With one of them, a single one is:

  hearth simulate slots --models 70/30 --load-time 20s/45s --rate 0.3 --service 8s --budget 60s
  hearth simulate slots --models 3 --load 60 --burst 8 --fallback --json

LOADS are starts of engines for 100 requests that the GPU served; SERVED is the part of the requests that got into an engine, or
with a fallback were handed on, within their budget, WORST that of the model that fared worst; waits are in seconds; JAIN is 1
if all keys and models are served alike; LOCAL is the part that the GPU served, LOADING that of the time in which it loaded.
The first tenth of a run is not measured. --random plays scenarios that nobody has chosen, always the same for a seed, and says of
each gate how many miss it, by what part of what is wanted, on average and at most. --gates ends with status 1 if a promise is not kept.`
}

// Run plays the scenarios and shows what became of them.
func (c *simulateSlotsCmd) Run(ctx context.Context, std streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	list, err := c.scenarios()
	if err != nil {
		return err
	}
	if c.List {
		for i := range list {
			fmt.Fprintln(std.out, list[i].Name)
		}
		return nil
	}
	results, err := c.play(ctx, list, std.err)
	if err != nil {
		return err
	}
	if c.Chart != "" {
		if err := intoFile(c.Chart, func(w io.Writer) error { return market.SlotChart(w, results) }); err != nil {
			return fmt.Errorf("--chart: %w", err)
		}
	}
	if err := c.print(std.out, results); err != nil {
		return err
	}
	if c.Random != nil && !c.JSON {
		if err := market.SlotSummary(std.out, results); err != nil {
			return err
		}
	}
	if c.Gates {
		return failing(results)
	}
	return nil
}

func (c *simulateSlotsCmd) play(ctx context.Context, list []market.SlotScenario, bar io.Writer) ([]market.SlotResult, error) {
	p := progressIn(bar, io.Discard, "simulating", len(list)*c.Runs, "runs")
	defer p.end()
	results := make([]market.SlotResult, len(list))
	errs := make([]error, len(list))
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
				results[i], errs[i] = market.SimulateSlots(ctx, list[i], c.Seed, c.Runs, func() { p.tick(1) })
			}
		})
	}
	all.Wait()
	return results, errors.Join(errs...)
}

// scenarios are what is to be played: the mix of the flags, else those of the list.
func (c *simulateSlotsCmd) scenarios() ([]market.SlotScenario, error) {
	if c.Runs < 1 || c.Runs > maxRuns {
		return nil, fmt.Errorf("--runs: between 1 and %d, not %d", maxRuns, c.Runs)
	}
	list := market.SlotScenarios()
	if n := c.Random; n != nil {
		if *n < 1 || *n > maxRandom {
			return nil, fmt.Errorf("--random: between 1 and %d, not %d", maxRandom, *n)
		}
		list = market.RandomSlotScenarios(*n, c.Seed)
	}
	if c.given() {
		if len(c.Scenario) > 0 {
			return nil, fmt.Errorf("--scenario is of the list; leave it out to play a mix of your own")
		}
		if c.Random != nil {
			return nil, fmt.Errorf("--random draws other scenarios; leave it out to play a mix of your own")
		}
		s, err := c.scenario()
		if err != nil {
			return nil, err
		}
		list = []market.SlotScenario{s}
	}
	list, err := chosen(list, c.Scenario)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if c.Requests != nil {
			list[i].Requests = *c.Requests
		}
		if err := list[i].Check(); err != nil { // all else is the list's, or was checked
			return nil, fmt.Errorf("--requests: %w", err)
		}
	}
	return list, nil
}

// chosen are the scenarios whose names match one of the patterns; no pattern is all.
func chosen(list []market.SlotScenario, patterns []string) ([]market.SlotScenario, error) {
	return matching(list, patterns, func(s *market.SlotScenario) string { return s.Name })
}

// failing is an error with a line for every promise that is not kept, nil = all are.
func failing(results []market.SlotResult) error {
	var lines []string
	all := 0
	for i := range results {
		for _, g := range results[i].Gates() {
			all++
			if !g.OK() {
				lines = append(lines, results[i].Name+": "+g.String())
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s not passed:\n  %s", len(lines), count(all, "gate"), strings.Join(lines, "\n  "))
}
