package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"

	"myip.co.kr/hearth/internal/market"
)

type simulateMarketCmd struct {
	Suite      string   `enum:"tuning,reporting,random" default:"reporting" help:"Which scenarios are played, unless files are given: the tuning half, the reporting half, or random ones (default: ${default})."`
	Scenarios  *int     `placeholder:"N" help:"How many scenarios the suite random has (default: 40). They are drawn with the first seed."`
	Scenario   []string `placeholder:"NAME" help:"Play only the scenarios whose name this is; * stands for anything. May be repeated."`
	List       bool     `help:"Print the names of the scenarios and do nothing else."`
	Market     string   `placeholder:"FILE" help:"Play a market of your own: CSV with name, input price, output price, cache price, TTFT p50, tok/s p50, uptime."`
	Workload   string   `placeholder:"FILE" help:"Play requests of your own: CSV with seconds, input tokens, output tokens, session, shared-prefix tokens."`
	Policy     []string `placeholder:"POLICY" help:"Policies to play, separated by commas (default: routing-cost,inverse-square,price-cooldown)."`
	Seed       []uint64 `placeholder:"N" help:"Seeds to play with, separated by commas (default: 1,2,3)."`
	Kappa      *float64 `placeholder:"X" help:"Value of time of routing-cost in every comparison, 0 = price and failures alone count (default: 1.5, and 0.1 against price-cooldown)."`
	MaxPremium *float64 `placeholder:"PART" help:"Ceiling of routing-cost over the mix by price alone, as 0.05 (default: 0.05; 0 is none)."`
	JSON       bool     `name:"json" xor:"form" help:"Print JSON."`
	Markdown   bool     `xor:"form" help:"Print tables in Markdown."`
	HTML       string   `name:"html" placeholder:"FILE" help:"Write a page with charts into FILE."`
	Gates      bool     `help:"Hold the figures against what hearth promises of the reporting half, and fail if one does not reach it."`

	replayFlags `embed:"" group:"A day of your own, instead of a market"`
}

// Bounds of one call.
const (
	maxSeeds     = 1000
	maxScenarios = 10_000
	scenarios    = 40 // unless more or fewer are wanted
)

// Help is the long help of the command.
func (simulateMarketCmd) Help() string {
	return `Several providers serve the same model. Requests come to a gateway that buys from them, in virtual time, and its own routing decides
who gets them. The same requests meet the same providers under other policies:

  routing-cost    hearth; routing-cost@0.1 with that value of time
  price           the cheapest first, whatever happens
  price-cooldown  likewise, but whoever fails three times in a row rests for a minute
  inverse-square  drawn by the inverse square of the price among those without a failure in the last 30 s
  least-latency, p2c-ewma, prequal, random

  hearth simulate --suite reporting --json
  hearth simulate --suite random --scenarios 40 --seed 7
  hearth simulate --market m.csv --workload w.csv --policy routing-cost,price,inverse-square

A market file has a line for each provider: name, input price, output price, cache price ($ per 1,000,000 tokens; empty is the input
price), TTFT p50 (seconds), tok/s p50, uptime (0.97, 97 or 97%). A workload file has a line for each request: seconds, input tokens,
output tokens, session (empty or 0: none), shared-prefix tokens (those that the request before it in its session had too; empty is
none). Both may begin with a heading of these words, which may put the columns in another order and others between them. Room, queues,
caches and failures behind the lists are drawn; so is the file that is not given.

TTFT and TOK/S count from the arrival of a request, failed tries included; 429 is the 429s, FAILED the other failed tries and LOST the
callers who got an error, for each request; COST is $ per 1,000 answers; USER is what a request costs its user in all, time and errors
included, in prices of a typical request. The first tenth of the time is not measured. VS compares routing-cost with another policy:
geometric means over scenarios and seeds. --json tells the shares of the endpoints too, in all (share) and in each twelfth of the time
(over). --gates ends with status 1 if a promise is not kept. Of random scenarios it is summed up how many miss what each of the
reporting half is held to, and by how many points.

--from-records replays a day of your own instead: what the requests that a gateway has recorded would have cost, and how long they
would have taken, by price alone (price), in a mix by price (inverse-square) or with another value of time (routing-cost@0.1):

  hearth simulate --from-records hearth.yaml --from 2026-11-30
  hearth records export | hearth simulate --from-records - --policy price,routing-cost@1 --json

FROM–TO is where the true figure is to be expected: what chance does in 19 of 20 cases (standard_error in --json), and that a policy
which moves many requests changes caches and what the router knows, so that what it changes may be more than twice as large. MOVED is which part of
the requests it would have sent elsewhere, OVERLAP which part of its choices the traffic could have made, N how many requests those
that it would have sent the same way are worth. USER is price and waiting of 1,000 replayed requests at the value of time that was in
force. docs/replay.md says what a replay cannot know. In records of a file, days are those of UTC and a key is named by its id.`
}

// Run plays the scenarios and shows what became of them.
func (c *simulateMarketCmd) Run(ctx context.Context, std streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.misplaced(); err != nil {
		return err
	}
	if c.FromRecords != "" {
		return c.replay(ctx, std)
	}
	plan, err := c.plan()
	if err != nil {
		return err
	}
	if c.List {
		for i := range plan.Scenarios {
			fmt.Fprintln(std.out, plan.Scenarios[i].Name)
		}
		return nil
	}
	bar := progressIn(std.err, io.Discard, "simulating", plan.Runs(), "runs")
	played, err := plan.Play(ctx, func() { bar.tick(1) })
	bar.end()
	if err != nil {
		return err
	}
	if c.HTML != "" {
		if err := intoFile(c.HTML, func(w io.Writer) error { return market.Page(w, plan, played) }); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if err := c.print(std.out, plan, played); err != nil {
		return err
	}
	if !c.Gates {
		return nil
	}
	return unkept(played.Gates())
}

func (c *simulateMarketCmd) plan() (*market.Plan, error) {
	p := &market.Plan{Policies: c.Policy, Seeds: c.Seed, Versus: market.Usual()}
	if k := c.Kappa; k != nil && !(*k >= 0 && *k <= market.MaxKappa) {
		return nil, fmt.Errorf("--kappa: from 0 to %d, not %g", market.MaxKappa, *k)
	}
	p.Kappa = c.Kappa
	if part := c.MaxPremium; part != nil {
		if !(*part >= 0 && *part <= 100) {
			return nil, fmt.Errorf("--max-premium: a part such as 0.05, not %g", *part)
		}
		if p.MaxPremium = *part; *part == 0 {
			p.MaxPremium = -1
		}
	}
	if len(p.Seeds) == 0 {
		p.Seeds = []uint64{1, 2, 3}
	}
	if len(p.Seeds) > maxSeeds {
		return nil, fmt.Errorf("--seed: at most %d, not %d", maxSeeds, len(p.Seeds))
	}
	if n := c.Scenarios; n != nil && (*n < 1 || *n > maxScenarios) {
		return nil, fmt.Errorf("--scenarios: between 1 and %d, not %d", maxScenarios, *n)
	}
	if c.Scenarios != nil && !c.drawn() {
		return nil, fmt.Errorf("--scenarios is of --suite random; --scenario NAME plays some of another one")
	}
	if len(p.Policies) == 0 {
		p.Policies = []string{market.RoutingCost, market.InverseSquare, market.PriceCooldown}
	}
	p.Policies = slices.Compact(slices.Clone(p.Policies))
	for i, name := range p.Policies {
		if err := market.CheckPolicy(name); err != nil {
			return nil, fmt.Errorf("--policy: %w", err)
		}
		if slices.Contains(p.Policies[:i], name) {
			return nil, fmt.Errorf("--policy: %s is there twice", name)
		}
	}
	if c.Kappa != nil && !slices.Contains(p.Policies, market.RoutingCost) {
		return nil, fmt.Errorf("--kappa is of %s, which is not among the policies", market.RoutingCost)
	}
	c.versus(p)
	var err error
	p.Scenarios, err = c.scenarios(p.Seeds[0])
	return p, err
}

// versus says what is compared with what: routing-cost with all others, and at its lower value of time with price-cooldown.
func (c *simulateMarketCmd) versus(p *market.Plan) {
	if !slices.Contains(p.Policies, market.RoutingCost) {
		return
	}
	if c.Kappa == nil && slices.Contains(p.Policies, market.PriceCooldown) && !slices.Contains(p.Policies, market.Thrifty) {
		p.Policies = append(p.Policies, market.Thrifty)
	}
	for _, name := range p.Policies {
		if name == market.RoutingCost || strings.HasPrefix(name, market.RoutingCost+"@") {
			continue
		}
		if _, ok := p.Versus[name]; !ok || c.Kappa != nil {
			p.Versus[name] = market.RoutingCost
		}
	}
}

func (c *simulateMarketCmd) scenarios(seed uint64) ([]market.Scenario, error) {
	if c.Market == "" && c.Workload == "" {
		list := market.Scenarios(c.Suite)
		if c.Suite == market.Fresh {
			n := scenarios
			set(&n, c.Scenarios)
			list = market.Drawn(seed, n)
		}
		return matching(list, c.Scenario, func(s *market.Scenario) string { return s.Name })
	}
	if len(c.Scenario) > 0 {
		return nil, fmt.Errorf("--scenario is of a suite; leave it out to play files of your own")
	}
	s := market.Own()
	if c.Market != "" {
		err := fromFile(c.Market, func(r io.Reader) (err error) {
			s.Lists, err = market.ReadListings(r)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("--market: %w", err)
		}
	}
	if c.Workload != "" {
		err := fromFile(c.Workload, func(r io.Reader) (err error) {
			s.Arrivals, err = market.ReadArrivals(r)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("--workload: %w", err)
		}
		s.Seconds = max(s.Arrivals[len(s.Arrivals)-1].At, 1)
	}
	return []market.Scenario{s}, nil
}

// fromFile reads a file.
func fromFile(name string, read func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// matching are those whose names match one of the patterns; no pattern is all.
func matching[S any](list []S, patterns []string, name func(*S) string) ([]S, error) {
	if len(patterns) == 0 {
		return list, nil
	}
	var some []S
	found := make([]bool, len(patterns))
	for k := range list {
		wanted := false
		for i, p := range patterns {
			ok, err := path.Match(p, name(&list[k]))
			if err != nil {
				return nil, fmt.Errorf("--scenario: %q is no pattern", p)
			}
			found[i] = found[i] || ok
			wanted = wanted || ok
		}
		if wanted {
			some = append(some, list[k])
		}
	}
	for i, ok := range found {
		if !ok {
			return nil, fmt.Errorf("--scenario: the list has no %q; --list prints the names", patterns[i])
		}
	}
	return some, nil
}

// unkept is an error with a line for every promise that is not kept, nil = all are.
func unkept(gates []market.Gate) error {
	var lines []string
	for _, g := range gates {
		if !g.OK() {
			lines = append(lines, g.String())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s not passed:\n  %s", len(lines), count(len(gates), "gate"), strings.Join(lines, "\n  "))
}
