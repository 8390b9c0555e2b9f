package market

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Survey makes a market and a workload for the simulator from the records of one model.
type Survey struct {
	model string // "" = that of the first answer of an external endpoint
	began time.Time
	ends  map[string]*surveyed
	rows  []asking
	full  bool
}

// surveyed is what records tell of an endpoint. Only what it charges and how fast it was is looked at, not the request.
type surveyed struct {
	prompt, completion, cached float64 // per 1,000,000 tokens, in the billing currency
	listed                     time.Time
	tries, good                float64
	first, speed               histogram
}

// asking is a row of the workload.
type asking struct {
	at              float64
	in, out, shared int
	session         uint64
}

// NewSurvey makes a survey of a model, "" = that of the first answer of an external endpoint.
func NewSurvey(model string) *Survey { return &Survey{model: model, ends: map[string]*surveyed{}} }

// Add takes a record. What is of other models, of own slots, or without an answer is left out.
func (s *Survey) Add(g *hearth.Generation) error {
	if !complete(g) || g.Bill.List == nil || g.Usage.PromptTokens <= 0 || g.Usage.CompletionTokens <= 0 {
		return nil
	}
	tier := slices.IndexFunc(g.Routing, func(t hearth.Routed) bool { return t.Model == g.Model })
	if tier < 0 || s.model != "" && g.Model != s.model {
		return nil
	}
	if s.model == "" {
		s.model = g.Model
	}
	if s.began.IsZero() {
		s.began = g.CreatedAt
	}
	if len(s.rows) == maxArrivals {
		s.full = true
		return nil
	}
	s.rows = append(s.rows, asking{
		at: g.CreatedAt.Sub(s.began).Seconds(), in: int(min(g.Usage.PromptTokens, maxArrivalIn)), out: int(min(g.Usage.CompletionTokens, maxArrivalOut)),
		shared: int(min(g.Usage.CachedTokens, g.Usage.PromptTokens)), session: g.Routing[tier].Session,
	})
	for i := range g.Attempts {
		a := &g.Attempts[i]
		if a.Skip != "" || a.Model != g.Model || tierOf(g, a.Endpoint) == nil {
			continue
		}
		if len(s.ends) >= maxListings && s.ends[a.Endpoint] == nil {
			return fmt.Errorf("a market has at most %d endpoints; choose a model (--model)", maxListings)
		}
		e := s.end(a.Endpoint)
		if e.tries++; a.Verdict == hearth.Served {
			e.answered(g, a)
		}
	}
	return nil
}

func (s *Survey) end(id string) *surveyed {
	if s.ends[id] == nil {
		s.ends[id] = &surveyed{}
	}
	return s.ends[id]
}

func (e *surveyed) answered(g *hearth.Generation, a *hearth.Attempt) {
	e.good++
	if !g.CreatedAt.Before(e.listed) {
		factor := g.Bill.Rate.Mul(g.Bill.Margin.Add(decimal.NewFromInt(1)))
		e.listed = g.CreatedAt
		e.prompt, e.completion, e.cached = listOf(g.Bill.List.Prompt, factor), listOf(g.Bill.List.Completion, factor), listOf(g.Bill.List.CacheRead, factor)
	}
	if first := a.Latency.Seconds(); g.Streamed && first > 0 && g.Generating > a.Latency {
		e.first.add(first, 1)
		e.speed.add(float64(g.Usage.CompletionTokens)/(g.Generating-a.Latency).Seconds(), 1)
	}
}

// listOf is a price as a market file has it.
func listOf(p, factor decimal.Decimal) float64 { return p.Mul(factor).InexactFloat64() }

// WriteMarket writes a market for ReadListings. Endpoints that never answered a stream are left out: nothing is known of them.
func (s *Survey) WriteMarket(to io.Writer) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{"name", "input", "output", "cache", "ttft", "tok/s", "uptime"}) // an error stays for Flush
	rows := 0
	ids := make([]string, 0, len(s.ends))
	for id := range s.ends {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		e := s.ends[id]
		if e.first.total() == 0 {
			continue
		}
		rows++
		_ = w.Write([]string{
			id[:min(len(id), 200)], number(clamp(e.prompt, 0, maxPrice)), number(clamp(e.completion, 0, maxPrice)), number(clamp(e.cached, 0, maxPrice)),
			number(clamp(e.first.at(0.5), 0.001, maxTTFT)), number(clamp(e.speed.at(0.5), leastTPS, maxTPS)), number(clamp(e.good/e.tries, 0.01, 1)),
		})
	}
	if w.Flush(); rows == 0 {
		return errors.Join(w.Error(), errors.New("the records hold no streamed answer of an external endpoint of the model"))
	}
	return w.Error()
}

// WriteWorkload writes the requests for ReadArrivals.
func (s *Survey) WriteWorkload(to io.Writer) error {
	if len(s.rows) == 0 {
		return errors.New("the records hold no answer of an external endpoint of the model")
	}
	if s.full {
		return fmt.Errorf("the records hold more than %d requests of %s; take less of them (--from, --to)", maxArrivals, s.model)
	}
	rows := slices.Clone(s.rows)
	slices.SortStableFunc(rows, func(a, b asking) int { return cmp.Compare(a.at, b.at) })
	w := bufio.NewWriter(to)
	fmt.Fprintln(w, "seconds,input,output,session,shared")
	for _, r := range rows {
		fmt.Fprintf(w, "%s,%d,%d,%d,%d\n", strconv.FormatFloat(r.at-rows[0].at, 'f', 3, 64), r.in, r.out, r.session, r.shared)
	}
	return w.Flush()
}

func number(x float64) string {
	return strconv.FormatFloat(hearth.Figure(x), 'f', -1, 64)
}
