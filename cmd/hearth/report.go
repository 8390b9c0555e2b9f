package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"myip.co.kr/hearth/internal/app"
)

type reportCmd struct {
	configFlag
	Month string `placeholder:"YYYY-MM" help:"The month, by the configured time zone (default: the present one)."`
	JSON  bool   `name:"json" xor:"form" help:"Print JSON, with all amounts exact."`
	CSV   bool   `name:"csv" xor:"form" help:"Print CSV: a line for each key, user, app and cause, with all amounts exact."`
}

// Help is the long help of the command.
func (reportCmd) Help() string {
	return `Shows, for each key, user (the user field of requests) and app (X-Title, else HTTP-Referer), what own slots and external
providers answered and what it cost; why answers came from outside, by the headings of "When local loses"; and what the
answers of own slots would have cost outside: the same tokens at the cheapest external endpoint of their model in the
present configuration, at its list price and the present exchange rate, without margin.`
}

// Run shows the month.
func (c *reportCmd) Run(ctx context.Context, std streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.records(ctx, func(r *app.Records) error {
		month := c.Month
		if month == "" {
			month = r.Month()
		}
		n, err := r.CountMonth(ctx, month)
		if err != nil {
			return err
		}
		p := progressOf(std.err, std.out, "reading", n)
		list, err := r.Reports(ctx, month, p.tick)
		p.end()
		if err != nil {
			return err
		}
		named(r, list)
		switch {
		case c.JSON:
			return jsonLine(std.out, struct {
				Reports []app.Report `json:"reports"`
			}{list})
		case c.CSV:
			return reportCSV(std.out, list)
		case len(list) == 0:
			_, err := fmt.Fprintf(std.out, "there are no records of %s\n", safe(month))
			return err
		}
		for i := range list {
			if i > 0 {
				fmt.Fprintln(std.out)
			}
			if err := printReport(std.out, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// named gives keys their names. One that is no more keeps its id.
func named(r *app.Records, list []app.Report) {
	for i := range list {
		for k := range list[i].Keys {
			line := &list[i].Keys[k]
			if name := r.KeyName(line.Name); name != "" {
				line.Name = name + " (" + line.Name + ")"
			}
		}
	}
}

// reportCSV prints reports as one table.
func reportCSV(out io.Writer, list []app.Report) error {
	w := csv.NewWriter(out)
	write := func(cells ...string) {
		for i := range cells {
			cells[i] = cell(cells[i])
		}
		_ = w.Write(cells) // Error tells
	}
	write("month", "currency", "what", "name", "local_requests", "local_prompt_tokens", "local_completion_tokens", "local_cost",
		"external_requests", "external_prompt_tokens", "external_completion_tokens", "external_cost", "unanswered", "unbilled")
	tokens := func(t app.ReportTokens) []string {
		return []string{number(int64(t.Requests)), number(t.PromptTokens), number(t.CompletionTokens), t.Cost.String()}
	}
	none := []string{"", "", "", ""}
	for i := range list {
		r := &list[i]
		row := func(what, name string, local, external []string, rest ...string) {
			cells := append([]string{r.Month, r.Currency, what, name}, local...)
			write(append(append(cells, external...), rest...)...)
		}
		full := func(what string, l *app.ReportLine) {
			row(what, l.Name, tokens(l.Local), tokens(l.External), number(int64(l.Unanswered)), number(int64(l.Unbilled)))
		}
		full("total", &r.Total)
		for k := range r.Keys {
			full("key", &r.Keys[k])
		}
		for k := range r.Users {
			full("user", &r.Users[k])
		}
		for k := range r.Apps {
			full("app", &r.Apps[k])
		}
		for k := range r.Causes {
			row("cause", string(r.Causes[k].Cause), none, tokens(r.Causes[k].Tokens), "", "")
		}
		elsewhere := r.Abroad.Local
		elsewhere.Cost = r.Abroad.Cost
		row("local_as_billed", "", tokens(r.Abroad.Local), none, "", "")
		row("local_if_outside", "", none, tokens(elsewhere), "", "")
		row("local_with_no_outside", "", tokens(r.Abroad.Nowhere), none, "", "")
	}
	w.Flush()
	return w.Error()
}
