package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

type recordsAuditCmd struct {
	configFlag
	From  string `placeholder:"DAY" help:"Records of this day or later, such as 2026-11-01."`
	To    string `placeholder:"DAY" help:"Records of up to this day."`
	Key   string `placeholder:"KEY" help:"Records of this key: its id, name or label."`
	Model string `placeholder:"MODEL" help:"Records of this model: its id or an alias."`
	JSON  bool   `name:"json" help:"Print JSON: a line for each difference, and one about the whole."`
}

// Help is the long help of the command.
func (recordsAuditCmd) Help() string {
	return `Computes what each request costs from its record alone - the price list, exchange rate and margin of that time, and the
token counts of the upstream - and compares it with its bill, to the last digit. Rows are compared with the records in
them, and the sums of days, which limits and statements go by, with what the records add up to. Differences are listed, and
the command then ends with 1.

What providers report as the cost of an answer is shown against what their price list says.`
}

// maxShownFindings bounds what is printed of a database that is wrong throughout.
const maxShownFindings = 10_000

// Run audits the records.
func (c *recordsAuditCmd) Run(ctx context.Context, std streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.records(ctx, func(r *app.Records) error {
		wanted := app.Wanted{From: c.From, To: c.To, Key: c.Key, Model: c.Model}
		n, err := r.CountDays(ctx, wanted)
		if err != nil {
			return err
		}
		p := progressOf(std.err, std.out, "checking", n)
		shown := 0
		var broken error
		a, err := r.Audit(ctx, wanted, func(f app.Finding) {
			if shown++; broken == nil && shown <= maxShownFindings {
				broken = c.finding(std.out, f)
			}
		}, p.tick)
		p.end()
		if err != nil {
			return err
		}
		if broken != nil {
			return broken
		}
		if err := c.whole(std.out, &a); err != nil {
			return err
		}
		if a.Findings > 0 {
			return fmt.Errorf("%s", count(a.Findings, "difference"))
		}
		return nil
	})
}

func (c *recordsAuditCmd) finding(out io.Writer, f app.Finding) error {
	if !c.JSON {
		_, err := fmt.Fprintf(out, "%s: %s\n", safe(f.What), safe(f.Says))
		return err
	}
	return jsonLine(out, struct {
		Difference app.Finding `json:"difference"`
	}{f})
}

func jsonLine(out io.Writer, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true)) // the same figures are the same bytes
	if err != nil {
		return err
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

// whole says what was gone through.
func (c *recordsAuditCmd) whole(out io.Writer, a *app.Audited) error {
	if c.JSON {
		return jsonLine(out, struct {
			Audit *app.Audited `json:"audit"`
		}{a})
	}
	if a.Findings > maxShownFindings {
		fmt.Fprintf(out, "and %d more\n", a.Findings-maxShownFindings)
	}
	fmt.Fprintf(out, "%s and %s of days checked", count(a.Records, "record"), count(a.Sums, "sum"))
	if a.Deleted > 0 {
		fmt.Fprintf(out, "; the sums count %s that were deleted for their age", count(int(a.Deleted), "record"))
	}
	if a.Passed > 0 {
		fmt.Fprintf(out, "; %s passed over, since records were deleted meanwhile", count(a.Passed, "sum"))
	}
	verdict := "all as they should be"
	if a.Findings > 0 {
		verdict = count(a.Findings, "difference")
	}
	if _, err := fmt.Fprintf(out, ": %s\n", verdict); err != nil || len(a.Reported) == 0 {
		return err
	}
	fmt.Fprintln(out)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ENDPOINT\tRECORDS\tBILLED AS REPORTED\tREPORTED\tBY ITS PRICE LIST\tDIFFERENCE")
	for _, r := range a.Reported {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s %s\t%s\t%s\n", safe(r.Endpoint), r.Records, strconv.Itoa(r.Rules), r.Reported, r.Currency, r.Listed, share(r.Reported, r.Listed))
	}
	return tw.Flush()
}

// share is how much more one amount is than another, in per cent.
func share(more, than hearth.Nano) string {
	if than == 0 {
		return "-"
	}
	d := more.Decimal().Sub(than.Decimal()).Mul(decimal.NewFromInt(100)).DivRound(than.Decimal(), 2)
	if d.IsPositive() {
		return "+" + d.String() + " %"
	}
	return d.String() + " %"
}
