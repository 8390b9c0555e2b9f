package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/market"
)

// replayFlags are those of hearth simulate --from-records.
type replayFlags struct {
	FromRecords string `placeholder:"SOURCE" help:"Replay the requests of a gateway: records as hearth records export writes them (a file, gzip too, or - for standard input), a data_dir, or a configuration, whose database is read."`
	wantedFlags
	WriteMarket   string `placeholder:"FILE" help:"Write what the records tell of the endpoints of one model into FILE, for --market."`
	WriteWorkload string `placeholder:"FILE" help:"Write the requests of one model into FILE, for --workload."`
}

// replayPolicies are what records are replayed under by default.
func replayPolicies() []string {
	return []string{market.ByPrice, market.InverseSquare, market.RoutingCost, market.RoutingCost + "@0.1", market.RoutingCost + "@1.5"}
}

// given says whether there are flags that are of a replay alone.
func (f *replayFlags) given() string {
	for name, v := range map[string]string{"--from": f.From, "--to": f.To, "--key": f.Key, "--model": f.Model, "--write-market": f.WriteMarket, "--write-workload": f.WriteWorkload} {
		if v != "" {
			return name
		}
	}
	return ""
}

// misplaced returns an error if there are flags that do not go together.
func (c *simulateMarketCmd) misplaced() error {
	if c.FromRecords == "" {
		if name := c.given(); name != "" {
			return fmt.Errorf("%s is for the records of a gateway; name them with --from-records", name)
		}
		return nil
	}
	for name, is := range map[string]bool{
		"--suite": c.Suite != "reporting", "--scenario": len(c.Scenario) > 0, "--list": c.List, "--market": c.Market != "", "--workload": c.Workload != "",
		"--seed": len(c.Seed) > 0, "--kappa": c.Kappa != nil, "--scenarios": c.Scenarios != nil, "--max-premium": c.MaxPremium != nil, "--markdown": c.Markdown, "--gates": c.Gates, "--html": c.HTML != "",
	} {
		if is {
			hint := ""
			if name == "--kappa" {
				hint = fmt.Sprintf("; write --policy %s@%g", market.RoutingCost, *c.Kappa)
			}
			return fmt.Errorf("%s is for a market that is played, and does not go with --from-records%s", name, hint)
		}
	}
	return nil
}

// replay replays records and shows what would have become of them.
func (c *simulateMarketCmd) replay(ctx context.Context, std streams) error {
	policies := c.Policy
	if len(policies) == 0 {
		policies = replayPolicies()
	}
	for _, p := range policies {
		if err := market.CheckReplayPolicy(p); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	r, err := market.NewReplay(policies)
	if err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	add := r.Add
	var own *market.Survey
	if c.WriteMarket != "" || c.WriteWorkload != "" {
		own = market.NewSurvey(c.Model)
		add = func(g *hearth.Generation) error { return errors.Join(r.Add(g), own.Add(g)) }
	}
	if err := c.read(ctx, std, add); err != nil {
		return fmt.Errorf("--from-records: %w", err)
	}
	if own != nil {
		if err := c.survey(own); err != nil {
			return err
		}
	}
	out, err := r.Result()
	if err != nil {
		return fmt.Errorf("--from-records: %w", err)
	}
	if c.JSON {
		b, err := json.Marshal(out, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			return err
		}
		_, err = std.out.Write(append(b, '\n'))
		return err
	}
	return printReplay(std.out, out)
}

// survey writes the market and the workload of the records.
func (c *simulateMarketCmd) survey(own *market.Survey) error {
	if c.WriteMarket != "" {
		if err := intoFile(c.WriteMarket, own.WriteMarket); err != nil {
			return fmt.Errorf("--write-market: %w", err)
		}
	}
	if c.WriteWorkload != "" {
		if err := intoFile(c.WriteWorkload, own.WriteWorkload); err != nil {
			return fmt.Errorf("--write-workload: %w", err)
		}
	}
	return nil
}

// read gives every wanted record to add.
func (c *simulateMarketCmd) read(ctx context.Context, std streams, add func(*hearth.Generation) error) error {
	if c.FromRecords == "-" {
		return c.readFrom(ctx, std.in, progressOf(std.err, io.Discard, "replaying", -1), add)
	}
	at, err := os.Stat(c.FromRecords)
	if err != nil {
		return err
	}
	if at.IsDir() {
		cfg, err := bare(c.FromRecords)
		if err != nil {
			return err
		}
		return c.readStore(ctx, std, cfg, add)
	}
	if slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(c.FromRecords)) {
		cfg, err := configFlag{c.FromRecords}.loadQuietly()
		if err != nil {
			return err
		}
		return c.readStore(ctx, std, cfg, add)
	}
	f, err := os.Open(c.FromRecords)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.readFrom(ctx, f, progressOf(std.err, io.Discard, "replaying", -1), add); err != nil {
		return fmt.Errorf("%s: %w", c.FromRecords, err)
	}
	return nil
}

// bare is a configuration of nothing but a data directory.
func bare(dir string) (*config.Config, error) {
	if _, err := os.Stat(filepath.Join(dir, "hearth.db")); err != nil {
		return nil, fmt.Errorf("%s is no data_dir of a gateway: it has no hearth.db", dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(dir)
	if err != nil {
		return nil, err
	}
	nothing := func(string) (string, bool) { return "", false }
	return config.Parse("data_dir", append([]byte("data_dir: "), name...), nothing, os.ReadFile)
}

func (c *simulateMarketCmd) readStore(ctx context.Context, std streams, cfg *config.Config, add func(*hearth.Generation) error) (err error) {
	r, err := app.OpenRecords(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	n, err := r.Count(ctx, c.wanted())
	if err != nil {
		return err
	}
	p := progressOf(std.err, io.Discard, "replaying", n)
	defer p.end()
	return r.Each(ctx, c.wanted(), func(_ []byte, g *hearth.Generation) error {
		if err := add(g); err != nil {
			return fmt.Errorf("record %s: %w", g.ID, err)
		}
		return nil
	}, p.tick)
}

// readFrom reads lines of records, and of them those that are wanted: a day is one of UTC, a key is named by its id.
func (c *simulateMarketCmd) readFrom(ctx context.Context, in io.Reader, p progress, add func(*hearth.Generation) error) error {
	defer p.end()
	from, err := replayMoment(c.From, false)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	to, err := replayMoment(c.To, true)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return market.ReadRecords(in, func(g *hearth.Generation) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !from.IsZero() && g.CreatedAt.Before(from) || !to.IsZero() && !g.CreatedAt.Before(to) ||
			c.Key != "" && g.KeyID != c.Key || c.Model != "" && g.Model != c.Model {
			return nil
		}
		return add(g)
	}, p.tick)
}

// replayMoment reads a day of UTC or an instant. Of a day it is the beginning, or the end.
func replayMoment(text string, end bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, fmt.Errorf("%.40q is neither a day, such as 2026-11-30, nor an instant, such as 2026-11-30T09:00:00+09:00", text)
	}
	if end {
		t = t.AddDate(0, 0, 1)
	}
	return t, nil
}
