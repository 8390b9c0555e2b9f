package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

// headings are those of the page "When local loses".
var headings = map[string]string{
	"context":  "1. The prompt does not fit",
	"slot":     "2. The slot is asleep and cannot wake up in time",
	"cooldown": "3. The slot is in cooldown",
	"asked":    "4. You told us to",
	"no_slot":  "5. The model has no local slot at all",
	"other":    "Anything else",
}

// maxReportLines bounds the tables for people: the dearest are shown. JSON and CSV have all.
const maxReportLines = 50

// printReport prints a month for people. Amounts are rounded: JSON and CSV have them exact.
func printReport(out io.Writer, r *app.Report) error {
	all := r.Total.Local.Requests + r.Total.External.Requests
	fmt.Fprintf(out, "%s, in %s\n\n", r.Month, safe(r.Currency))
	fmt.Fprintf(out, "Own slots gave %d of %s (%s), %s of %s tokens, for %s.\n", r.Total.Local.Requests, count(all, "answer"),
		percent(int64(r.Total.Local.Requests), int64(all)), grouped(tokensOf(&r.Total.Local)), grouped(tokensOf(&r.Total.Local)+tokensOf(&r.Total.External)), money(r.Total.Local.Cost))
	fmt.Fprintf(out, "External providers gave %d, for %s.\n", r.Total.External.Requests, money(r.Total.External.Cost))
	fmt.Fprintf(out, "Together %s %s.", money(r.Total.Cost()), safe(r.Currency))
	if r.Total.Unanswered > 0 {
		fmt.Fprintf(out, " Nobody answered %s.", count(r.Total.Unanswered, "request"))
	}
	if r.Total.Unbilled > 0 {
		fmt.Fprintf(out, " %s of answers went out that no usage covers, and were not billed.", count(r.Total.Unbilled, "piece"))
	}
	fmt.Fprint(out, "\n\n")
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range []struct {
		head  string
		none  string
		lines []app.ReportLine
	}{{"KEY", "-", r.Keys}, {"USER", "(none given)", r.Users}, {"APP", "(none given)", r.Apps}} {
		fmt.Fprintf(tw, "%s\tLOCAL\tTOKENS IN\tOUT\tCOST\tEXTERNAL\tTOKENS IN\tOUT\tCOST\tUNANSWERED\n", t.head)
		printLines(tw, t.lines, t.none)
		fmt.Fprintln(tw)
	}
	printCauses(tw, r)
	if err := tw.Flush(); err != nil {
		return err
	}
	return printAbroad(out, r)
}

func printLines(w io.Writer, lines []app.ReportLine, none string) {
	for i := range lines[:min(len(lines), maxReportLines)] {
		l := &lines[i]
		name := short(safe(l.Name))
		if name == "" {
			name = none
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", name, figures(&l.Local), figures(&l.External), l.Unanswered)
	}
	if n := len(lines) - maxReportLines; n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
}

func figures(t *app.ReportTokens) string {
	return fmt.Sprintf("%d\t%s\t%s\t%s", t.Requests, grouped(t.PromptTokens), grouped(t.CompletionTokens), money(t.Cost))
}

func printCauses(w io.Writer, r *app.Report) {
	if len(r.Causes) == 0 {
		return
	}
	fmt.Fprintln(w, "WHY ANSWERS CAME FROM OUTSIDE\tANSWERS\tTOKENS IN\tOUT\tCOST")
	for i := range r.Causes {
		c := &r.Causes[i]
		fmt.Fprintf(w, "%s\t%s\n", headings[string(c.Cause)], figures(&c.Tokens))
		for _, d := range slices.Sorted(maps.Keys(c.Details)) {
			fmt.Fprintf(w, "   %s\t%d\n", safe(d), c.Details[d])
		}
	}
	fmt.Fprintln(w)
}

func printAbroad(out io.Writer, r *app.Report) error {
	a := &r.Abroad
	if a.Local.Requests > 0 {
		fmt.Fprintf(out, "Outside, %s of own slots would have cost %s %s at list prices; here they cost %s.\n",
			count(a.Local.Requests, "answer"), money(a.Cost), safe(r.Currency), money(a.Local.Cost))
	}
	if a.Nowhere.Requests > 0 {
		fmt.Fprintf(out, "For %s of own slots there is nothing to compare with: the configuration has no external endpoint of their model in this currency.\n", count(a.Nowhere.Requests, "answer"))
	}
	return nil
}

func tokensOf(t *app.ReportTokens) int64 { return t.PromptTokens + t.CompletionTokens }

// short cuts a name to what a table can show.
func short(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// percent is a share in whole per cent.
func percent(part, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return decimal.NewFromInt(part).Mul(decimal.NewFromInt(100)).DivRound(decimal.NewFromInt(of), 0).String() + " %"
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	s := number(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}

// money is an amount for people: two decimals, or as many as three significant digits need.
func money(n hearth.Nano) string {
	d := n.Decimal()
	places := int32(2)
	for d.Abs().LessThan(decimal.New(1, 2-places)) && places < 9 && !d.IsZero() {
		places++
	}
	whole, rest, found := strings.Cut(d.RoundBank(places).StringFixed(places), ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
		whole = grouped(n)
	}
	if found {
		whole += "." + rest
	}
	return whole
}
