package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"myip.co.kr/hearth"
)

// explanation is the answer of POST /chain as far as the table shows it.
type explanation struct {
	Data struct {
		Candidates []explained   `json:"candidates"`
		Dropped    []hearth.Drop `json:"dropped"`
		Notes      []string      `json:"notes"`
		Estimate   int           `json:"estimate_tokens"`
		Error      *struct {
			Code    int    `json:"code"`
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"data"`
}

// explained is one candidate.
type explained struct {
	Model    string `json:"model"`
	Endpoint string `json:"endpoint"`
	Priority int    `json:"priority"`
	Context  int    `json:"context_length"`
	Reason   string `json:"reason"`
	Slot     *struct {
		State string `json:"state"`
	} `json:"slot"`
	Cost struct {
		Prompt     string  `json:"prompt"`
		Completion string  `json:"completion"`
		Currency   string  `json:"currency"`
		Expected   float64 `json:"expected"`
	} `json:"cost"`
	Share   *float64            `json:"share"`
	Routing *hearth.RoutedTerms `json:"routing"`
	Speed   *struct {
		Latency    *median `json:"latency"`
		Throughput *median `json:"throughput"`
	} `json:"speed"`
}

type median struct {
	P50 float64 `json:"p50"`
}

// columns are what is told of a candidate. A column of which nothing is known of any candidate is left out.
var columns = []struct {
	head string
	cell func(c *explained) string
}{
	{"PROVIDER", func(c *explained) string { return strings.TrimSuffix(c.Endpoint, ":"+c.Model) }},
	{"MODEL", func(c *explained) string { return c.Model }},
	{"PRIORITY", func(c *explained) string { return strconv.Itoa(c.Priority) }},
	{"SLOT", (*explained).slot},
	{"WINDOW", (*explained).window},
	{"PRICE PER 1M (IN / OUT)", func(c *explained) string {
		return c.Cost.Prompt + " / " + c.Cost.Completion + " " + c.Cost.Currency
	}},
	{"EXPECTED", func(c *explained) string { return significant(c.Cost.Expected) + " " + c.Cost.Currency }},
	{"FIRST TOKEN", (*explained).latency},
	{"TOKENS/S", (*explained).throughput},
	{"SHARE", (*explained).share},
	{"WHY HERE", (*explained).why},
}

const unknown = "-" // in a cell

func (c *explained) slot() string {
	if c.Slot == nil {
		return unknown
	}
	return c.Slot.State
}

func (c *explained) window() string {
	if c.Context == 0 {
		return unknown
	}
	return strconv.Itoa(c.Context)
}

func (c *explained) latency() string {
	if c.Speed == nil || c.Speed.Latency == nil {
		return unknown
	}
	return significant(c.Speed.Latency.P50/1000) + " s"
}

func (c *explained) throughput() string {
	if c.Speed == nil || c.Speed.Throughput == nil {
		return unknown
	}
	return significant(c.Speed.Throughput.P50)
}

// share is how often the candidate is the first of its tier, where that is drawn.
func (c *explained) share() string {
	if c.Share == nil || c.Reason == only {
		return unknown
	}
	percent, decimals := 100**c.Share, 1
	if percent >= 10 {
		decimals = 0
	}
	return strconv.FormatFloat(percent, 'f', decimals, 64) + " %"
}

// only is the reason of an external endpoint that is alone at its priority: nothing is drawn there.
const only = "only"

func (c *explained) why() string {
	if c.Reason == only {
		return "priority, the only one there"
	}
	return c.Reason
}

// significant prints three significant digits of a small number and the whole of a large one, never with an exponent.
func significant(x float64) string {
	if x == 0 {
		return "0"
	}
	decimals := min(max(2-int(math.Floor(math.Log10(math.Abs(x)))), 0), 9)
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func (x *explanation) print(w io.Writer) error {
	d := &x.Data
	fmt.Fprintf(w, "prompt estimate: %d tokens\n\n", d.Estimate)
	if err := table(w, d.Candidates); err != nil {
		return err
	}
	if err := measuredTerms(w, d.Candidates); err != nil {
		return err
	}
	if e := d.Error; e != nil {
		fmt.Fprintf(w, "no candidate is left: the caller gets %d %s\n  %s\n", e.Code, e.Type, e.Message)
	}
	for _, r := range d.Dropped {
		what := r.Endpoint
		if what == "" {
			what = r.Model
		}
		fmt.Fprintf(w, "dropped: %s: %s (stage %s)\n", what, r.Reason, r.Stage)
	}
	for _, n := range d.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	return nil
}

// measuredTerms prints the terms of the candidates that are ranked by routing cost, if one of them was measured: else they
// say nothing but what is usual.
func measuredTerms(w io.Writer, cs []explained) error {
	var ranked []hearth.RoutedTerms
	currency, measured := "", false
	for i := range cs {
		c := &cs[i]
		if c.Routing == nil {
			continue
		}
		t := *c.Routing
		if t.Endpoint = c.Endpoint; c.Share != nil {
			t.Share = *c.Share
		}
		ranked, currency, measured = append(ranked, t), c.Cost.Currency, measured || !t.New
	}
	if !measured {
		return nil
	}
	fmt.Fprintln(w, "\nrouting cost of an answer:")
	if err := showTerms(w, ranked, currency); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return nil
}

// table prints the candidates, if there are any.
func table(w io.Writer, cs []explained) error {
	if len(cs) == 0 {
		return nil
	}
	head, rows := "", make([]string, len(cs))
	for _, col := range columns {
		cells := make([]string, len(cs))
		for i := range cs {
			cells[i] = col.cell(&cs[i])
		}
		if !slices.ContainsFunc(cells, func(c string) bool { return c != unknown }) {
			continue
		}
		head += "\t" + col.head
		for i, c := range cells {
			rows[i] += "\t" + c
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, head)
	for i, row := range rows {
		fmt.Fprintf(tw, "%d.%s\n", i+1, row)
	}
	return tw.Flush()
}
