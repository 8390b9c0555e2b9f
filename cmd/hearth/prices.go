package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth/internal/app"
)

type pricesCmd struct {
	List   pricesListCmd   `cmd:"" default:"withargs" help:"Print what callers pay (what hearth prices alone does)."`
	Import pricesImportCmd `cmd:"" help:"Hold a published price list against the configuration and print the differences."`
}

// Help is shown under hearth prices --help.
func (pricesCmd) Help() string {
	return `Prices are those of the configuration, at the exchange rates that a gateway on its data_dir fetched last. Examples:

  hearth prices
  hearth prices --json | jq '.prices[] | select(.local)'
  curl -s https://models.dev/api.json | hearth prices import -
  curl -s https://openrouter.ai/api/v1/models | hearth prices import --provider openrouter -`
}

type pricesListCmd struct {
	configFlag
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the table.
func (c *pricesListCmd) Run(std streams) error {
	cfg, err := c.loadQuietly()
	if err != nil {
		return err
	}
	list, err := app.Prices(cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(std.out, list)
	}
	return printPrices(std.out, list)
}

func printJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// further are the columns that are shown only if a row has something there which does not follow from the first two.
var further = []struct {
	title string
	of    func(app.Amounts) decimal.Decimal
	usual func(app.Amounts) decimal.Decimal
}{
	{"CACHE READ", func(a app.Amounts) decimal.Decimal { return a.CacheRead }, func(a app.Amounts) decimal.Decimal { return a.Prompt }},
	{"CACHE WRITE", func(a app.Amounts) decimal.Decimal { return a.CacheWrite }, func(a app.Amounts) decimal.Decimal { return a.Prompt }},
	{"REASONING", func(a app.Amounts) decimal.Decimal { return a.Reasoning }, func(a app.Amounts) decimal.Decimal { return a.Completion }},
	{"IMAGE", func(a app.Amounts) decimal.Decimal { return a.Image }, func(app.Amounts) decimal.Decimal { return decimal.Decimal{} }},
	{"REQUEST", func(a app.Amounts) decimal.Decimal { return a.Request }, func(app.Amounts) decimal.Decimal { return decimal.Decimal{} }},
}

func printPrices(w io.Writer, list app.PriceList) error {
	shown := map[string]bool{}
	for _, row := range list.Prices {
		for _, f := range further {
			if !f.of(row.Price).Equal(f.usual(row.Price)) {
				shown[f.title] = true
			}
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "MODEL\tENDPOINT\tPROMPT\tCOMPLETION")
	for _, f := range further {
		if shown[f.title] {
			fmt.Fprint(tw, "\t", f.title)
		}
	}
	fmt.Fprintln(tw, "\tPROVIDER ASKS\tNOTE")
	model := ""
	for _, row := range list.Prices {
		name := row.Model
		if name == model {
			name = ""
		}
		model = row.Model
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s", name, row.Endpoint, row.Price.Prompt, row.Price.Completion)
		for _, f := range further {
			if shown[f.title] {
				fmt.Fprint(tw, "\t", f.of(row.Price))
			}
		}
		asks := ""
		if !row.Local {
			asks = fmt.Sprintf("%s / %s %s", row.List.Prompt, row.List.Completion, row.ListIn)
		}
		fmt.Fprintf(tw, "\t%s\t%s\n", asks, priceNote(row, list.Rates))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return printRates(w, list)
}

func priceNote(row app.PriceRow, rates []app.ExchangeRate) string {
	var notes []string
	if row.When != "" {
		notes = append(notes, row.When)
	}
	if !row.Margin.IsZero() {
		notes = append(notes, "margin "+row.Margin.Shift(2).String()+"%")
	}
	if row.Reported {
		notes = append(notes, "billed as the provider reports")
	}
	if row.Disabled {
		notes = append(notes, "disabled")
	}
	for _, r := range rates {
		if r.Stale && r.Currency == row.ListIn {
			notes = append(notes, "out: its exchange rate is too old")
		}
	}
	return strings.Join(notes, ", ")
}

func printRates(w io.Writer, list app.PriceList) error {
	if _, err := fmt.Fprintf(w, "\nPrices are in %s per 1,000,000 tokens, those of images and requests for each.\n", list.Currency); err != nil {
		return err
	}
	for _, r := range list.Rates {
		from := "from the configuration"
		if r.Fetched != nil {
			from = "fetched " + r.Fetched.Format(time.RFC3339)
		}
		if _, err := fmt.Fprintf(w, "1 %s = %s %s (%s)\n", r.Currency, r.Rate, list.Currency, from); err != nil {
			return err
		}
	}
	return nil
}

type pricesImportCmd struct {
	configFlag
	File     string `arg:"" placeholder:"FILE" help:"JSON of https://models.dev/api.json or of OpenRouter's /models; - for standard input."`
	Provider string `name:"provider" placeholder:"SLUG" help:"Compare this provider only."`
	From     string `name:"from" placeholder:"NAME" help:"The provider's name in models.dev, if it is not its slug here."`
	JSON     bool   `name:"json" help:"Print JSON."`
}

// maxPriceList bounds the file that is read.
const maxPriceList = 64 << 20

// Run prints the differences. Like diff, it fails when there are some.
func (c *pricesImportCmd) Run(std streams) error {
	cfg, err := c.loadQuietly()
	if err != nil {
		return err
	}
	in := std.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return fmt.Errorf("read the price list: %w", err)
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxPriceList+1))
	if err != nil {
		return fmt.Errorf("read the price list: %w", err)
	}
	if len(body) > maxPriceList {
		return fmt.Errorf("the price list is larger than %d MiB", maxPriceList>>20)
	}
	list, err := app.ImportPrices(cfg, body, c.Provider, c.From)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(std.out, list)
	} else {
		err = printDiffs(std, list)
	}
	if err == nil && len(list.Diffs) > 0 {
		err = fmt.Errorf("%s otherwise than in the configuration; nothing was changed: write what should hold into it", count(len(list.Diffs), "price"))
	}
	return err
}

func printDiffs(std streams, list app.PriceImport) error {
	for _, name := range list.NotFound {
		fmt.Fprintf(std.err, "not in the list: %s\n", name)
	}
	for _, name := range list.Passed {
		fmt.Fprintf(std.err, "not compared: %s\n", name)
	}
	if len(list.Diffs) == 0 {
		_, err := fmt.Fprintf(std.out, "%s as published\n", count(list.Same, "price list"))
		return err
	}
	tw := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PROVIDER\tMODEL\tPRICE\tIN THE FILE\tPUBLISHED\tCHANGE")
	for _, d := range list.Diffs {
		model := d.Model
		if d.Variant != "" {
			model += " (" + d.Variant + ")"
		}
		kind := d.Kind
		if d.When != "" {
			kind += ", " + d.When
		}
		have, change := d.Have.String(), ""
		if d.Missing {
			have = "no such step"
		} else if d.Have.IsPositive() {
			change = d.Want.Sub(d.Have).Shift(2).DivRound(d.Have, 1).String() + "%"
			if !strings.HasPrefix(change, "-") {
				change = "+" + change
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Provider, model, kind, have, d.Want, change)
	}
	return tw.Flush()
}
