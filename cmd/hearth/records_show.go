package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

type recordsShowCmd struct {
	configFlag
	ID string `arg:"" name:"generation" help:"Id of the generation: the X-Generation-Id header of the answer."`
}

// Help is the long help of the command.
func (recordsShowCmd) Help() string {
	return `Reads the database; a gateway may be running on it. The table of each tier of external endpoints that was ordered by routing
cost has the expected figures that it was ordered by: amounts per good answer in the billing currency, SHARE how likely the endpoint
was to be the first, and FAILED and QUALITY what failed tries and broken tool calls cost on top. LATER, where the request opened a conversation, is what the
endpoint's cache was expected to save in its later turns.`
}

// Run shows the record.
func (c *recordsShowCmd) Run(ctx context.Context, std streams) error {
	return c.records(ctx, func(r *app.Records) error {
		g, err := r.Record(ctx, c.ID)
		if err != nil {
			return err
		}
		return showRecord(std.out, g, r.KeyName(g.KeyID))
	})
}

func showRecord(w io.Writer, g *hearth.Generation, key string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(t, "%s\t%s\n", name, value) }
	line("generation", safe(g.ID))
	line("arrived", g.CreatedAt.Format(time.RFC3339))
	line("key", cmp.Or(safe(key), g.KeyID))
	line("asked for", safe(strings.Join(g.Requested, ", ")))
	if g.Endpoint != "" {
		line("answered by", safe(g.Endpoint))
	}
	status := strconv.Itoa(g.HTTP)
	if g.Error != "" {
		status += " " + safe(g.Error)
	}
	if g.Cancelled {
		status += ", the caller left"
	}
	line("status", status)
	line("tokens", fmt.Sprintf("%d in (%d cached), %d out", g.Usage.PromptTokens, g.Usage.CachedTokens, g.Usage.CompletionTokens))
	line("cost", g.Bill.Cost.String()+" "+g.Bill.Currency)
	line("first token", took(g.FirstToken))
	line("whole answer", took(g.Duration))
	for _, n := range g.Notes {
		line("note", safe(n))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := showAttempts(w, g); err != nil {
		return err
	}
	for i := range g.Routing {
		if err := showTier(w, &g.Routing[i], g.Bill.Currency); err != nil {
			return err
		}
	}
	return nil
}

func showAttempts(w io.Writer, g *hearth.Generation) error {
	if len(g.Attempts) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TRIED\tBECAME\tTOOK\tWHY")
	for i := range g.Attempts {
		a := &g.Attempts[i]
		became := cmp.Or(string(a.Skip), orUnknown(a.Status))
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", a.Endpoint, became, took(a.Latency), cmp.Or(safe(a.Message), unknown))
	}
	return t.Flush()
}

// showTier shows how a tier was ordered.
func showTier(w io.Writer, r *hearth.Routed, currency string) error {
	fmt.Fprintf(w, "\n%s, priority %d: %s is the first, reason %s, share %s; value of time %s, snapshot %d\n",
		r.Model, r.Priority, r.Endpoint, r.Reason, portion(r.Share), significant(r.Kappa), r.Snapshot)
	if len(r.Candidates) == 0 {
		return nil
	}
	return showTerms(w, r.Candidates, currency)
}

// showTerms shows what the places of candidates follow from.
func showTerms(w io.Writer, cs []hearth.RoutedTerms, currency string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	later := ""
	opens := slices.ContainsFunc(cs, func(c hearth.RoutedTerms) bool { return c.Later != 0 })
	if opens {
		later = "\tLATER"
	}
	fmt.Fprintf(t, "ENDPOINT\tSHARE\tPRICE\tWAIT\tDECODE\tFAILED\tQUALITY%s\tTOTAL %s\tFIRST TOKEN\tREST\tIN FLIGHT\tERRORS\t429\tSTATE\n", later, currency)
	for i := range cs {
		c := &cs[i]
		cells := []string{c.Endpoint, portion(c.Share)}
		for _, x := range []float64{c.Price, c.Wait, c.Decode, c.Failed, c.Quality} {
			cells = append(cells, significant(x))
		}
		if opens {
			cells = append(cells, significant(c.Later))
		}
		cells = append(cells, significant(c.Total))
		flight := strconv.Itoa(c.InFlight)
		if c.Cap > 0 {
			flight += " of " + significant(c.Cap)
		}
		cells = append(cells, significant(c.TTFT)+" s", significant(c.Rest)+" s", flight, portion(c.Errors), portion(c.Limits), stateOf(c))
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// stateOf is the state of a candidate with what is peculiar about it.
func stateOf(c *hearth.RoutedTerms) string {
	s := cmp.Or(c.State, unknown)
	if c.Flagged {
		s += ", flagged"
	}
	if c.New {
		s += ", not measured"
	}
	return s
}

func orUnknown(status int) string {
	if status == 0 {
		return unknown
	}
	return strconv.Itoa(status)
}

func portion(part float64) string { return significant(100*part) + " %" }

func took(d time.Duration) string {
	if d <= 0 {
		return unknown
	}
	return significant(d.Seconds()) + " s"
}
