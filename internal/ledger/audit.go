package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/meter"
	"myip.co.kr/hearth/internal/store"
)

// Finding is something that an audit found to be wrong.
type Finding struct {
	What string `json:"what"`         // "record gen-…", or a sum of a day
	Says string `json:"says"`         // what is wrong with it
	ID   string `json:"id,omitempty"` // of the record
}

// Reported is what an endpoint's upstream says its answers cost, against its price list. Both are in the billing currency,
// with rate and margin.
type Reported struct {
	Endpoint string      `json:"endpoint"`
	Currency string      `json:"currency"`
	Records  int         `json:"records"`
	Rules    int         `json:"rules"`    // of them those that are billed by what is reported
	Reported hearth.Nano `json:"reported"` // sums
	Listed   hearth.Nano `json:"listed"`
}

// Audited is what an audit went through.
type Audited struct {
	Records  int        `json:"records"`
	Findings int        `json:"findings"`
	Sums     int        `json:"sums"`             // of days that were compared
	Passed   int        `json:"passed,omitzero"`  // sums that were not, because records were deleted meanwhile
	Deleted  int64      `json:"deleted,omitzero"` // records that retention deleted; the sums count them by what they were
	Reported []Reported `json:"reported"`
}

// sumKey names a sum of the table of spend.
type sumKey struct{ key, day, model, provider, currency string }

func (k sumKey) String() string {
	model := cmp.Or(k.model, "no model")
	return fmt.Sprintf("sum of %s on %s for %s at %s in %s", k.key, k.day, model, cmp.Or(k.provider, "nobody"), k.currency)
}

// figures are the figures of a sum.
type figures struct {
	cost                         hearth.Nano
	requests, prompt, completion int64
}

func (f *figures) add(o figures) {
	f.cost = capped(f.cost, max(o.cost, 0))
	f.requests += o.requests
	f.prompt, f.completion = cappedCount(f.prompt, o.prompt), cappedCount(f.completion, o.completion)
}

func cappedCount(a, b int64) int64 {
	if b <= 0 {
		return a
	}
	return min(a, math.MaxInt64-b) + b
}

// audit is an audit on its way.
type audit struct {
	Audited
	found    func(Finding)
	sums     map[sumKey]figures
	reported map[[2]string]*Reported
}

// Audit computes every bill that the filter chooses anew from its record alone, by the rule of Settle, and compares it with
// the bill, the record with its row, and the sums of days with the records and what was deleted of them. found is told
// whatever differs, however little. A gateway may go on recording meanwhile: what is added after the beginning is not
// looked at. Of the filter only days, key and model count.
func Audit(ctx context.Context, s *store.Store, f store.Filter, found func(Finding), tick func(rows int)) (Audited, error) {
	f = store.Filter{FirstDay: f.FirstDay, LastDay: f.LastDay, KeyID: f.KeyID, Model: f.Model}
	a := audit{found: found, sums: make(map[sumKey]figures), reported: make(map[[2]string]*Reported)}
	before, err := s.Sums(ctx)
	if err != nil {
		return a.Audited, err
	}
	f.Most = before.Mark
	err = Each(ctx, s, f, func(r *store.Stored, g *hearth.Generation, err error) error {
		a.record(r, g, err)
		return nil
	}, tick)
	if err != nil {
		return a.Audited, err
	}
	after, err := s.Sums(ctx)
	if err != nil {
		return a.Audited, err
	}
	a.compare(&f, before, after.Deleted)
	for _, k := range slices.SortedFunc(maps.Keys(a.reported), func(x, y [2]string) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	}) {
		a.Reported = append(a.Reported, *a.reported[k])
	}
	return a.Audited, nil
}

func (a *audit) say(what, id, format string, args ...any) {
	a.Findings++
	a.found(Finding{What: what, Says: fmt.Sprintf(format, args...), ID: id})
}

// record checks one record.
func (a *audit) record(r *store.Stored, g *hearth.Generation, err error) {
	a.Records++
	k := sumKey{r.KeyID, r.Day, r.Model, r.Provider, r.Currency}
	sum := a.sums[k]
	sum.add(figures{r.Cost, 1, r.PromptTokens, r.CompletionTokens})
	a.sums[k] = sum
	what := "record " + r.ID
	if err != nil {
		a.say(what, r.ID, "cannot be read: %v", err)
		return
	}
	for _, column := range [...]struct {
		name      string
		row, said any
	}{
		{"id", r.ID, g.ID}, {"key", r.KeyID, g.KeyID}, {"day", r.Day, g.CreatedAt.Format(time.DateOnly)},
		{"time", r.CreatedAt.UnixMilli(), g.CreatedAt.UnixMilli()}, {"model", r.Model, g.Model}, {"provider", r.Provider, g.Slug},
		{"endpoint", r.Endpoint, g.Endpoint}, {"prompt tokens", r.PromptTokens, g.Usage.PromptTokens},
		{"completion tokens", r.CompletionTokens, g.Usage.CompletionTokens}, {"cost", r.Cost, g.Bill.Cost},
		{"currency", r.Currency, g.Bill.Currency}, {"status", r.HTTP, g.HTTP},
	} {
		if column.row != column.said {
			a.say(what, r.ID, "its row has the %s %v, the record itself %v", column.name, column.row, column.said)
		}
	}
	a.bill(what, g)
}

// bill computes the bill anew.
func (a *audit) bill(what string, g *hearth.Generation) {
	again, err := meter.Recompute(g)
	why := ""
	if err != nil {
		why = ", since " + err.Error()
	}
	for _, part := range [...]struct {
		name         string
		billed, want hearth.Nano
	}{
		{"cost", g.Bill.Cost, again.Cost}, {"prompt cost", g.Bill.PromptCost, again.PromptCost},
		{"completion cost", g.Bill.CompletionCost, again.CompletionCost},
	} {
		if part.billed != part.want {
			a.say(what, g.ID, "%s %s %s, computed %s%s", part.name, part.billed, g.Bill.Currency, part.want, why)
		}
	}
	if !g.Bill.Upstream.Equal(again.Upstream) {
		a.say(what, g.ID, "upstream cost %s %s, computed %s%s", g.Bill.Upstream, g.Bill.ListIn, again.Upstream, why)
	}
	if said, ok := meter.Said(g); ok && err == nil {
		a.report(g, said, again.Listed)
	}
}

// report adds up what the upstream says against the price list.
func (a *audit) report(g *hearth.Generation, said, listed hearth.Nano) {
	k := [2]string{g.Endpoint, g.Bill.Currency}
	r := a.reported[k]
	if r == nil {
		r = &Reported{Endpoint: g.Endpoint, Currency: g.Bill.Currency}
		a.reported[k] = r
	}
	r.Records++
	if g.Bill.Reported {
		r.Rules++
	}
	r.Reported, r.Listed = capped(r.Reported, said), capped(r.Listed, listed)
}

// compare compares the sums of days with the records. later are the sums of what was deleted, after the records were read.
func (a *audit) compare(f *store.Filter, before store.Sums, later []store.Spend) {
	deleted, now := sumsOf(f, before.Deleted), sumsOf(f, later)
	for _, d := range deleted {
		a.Deleted += d.requests
	}
	spend := sumsOf(f, before.Spend)
	keys := maps.Clone(a.sums)
	maps.Copy(keys, spend)
	maps.Copy(keys, deleted)
	for _, k := range slices.SortedFunc(maps.Keys(keys), compareSums) {
		if deleted[k] != now[k] {
			a.Passed++
			continue
		}
		a.Sums++
		want := a.sums[k]
		want.add(deleted[k])
		got := spend[k]
		for _, part := range [...]struct {
			name      string
			got, want any
		}{
			{"cost", got.cost, want.cost}, {"requests", got.requests, want.requests},
			{"prompt tokens", got.prompt, want.prompt}, {"completion tokens", got.completion, want.completion},
		} {
			if part.got != part.want {
				a.say(k.String(), "", "%s %v, the records add up to %v", part.name, part.got, part.want)
			}
		}
	}
}

func compareSums(x, y sumKey) int {
	return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.day, y.day), cmp.Compare(x.model, y.model),
		cmp.Compare(x.provider, y.provider), cmp.Compare(x.currency, y.currency))
}

// sumsOf are the sums that a filter chooses.
func sumsOf(f *store.Filter, list []store.Spend) map[sumKey]figures {
	m := make(map[sumKey]figures, len(list))
	for _, v := range list {
		if (f.KeyID == "" || f.KeyID == v.KeyID) && (f.Model == "" || f.Model == v.Model) &&
			(f.FirstDay == "" || f.FirstDay <= v.Day) && (f.LastDay == "" || v.Day <= f.LastDay) {
			m[sumKey{v.KeyID, v.Day, v.Model, v.Provider, v.Currency}] = figures{v.Cost, v.Requests, v.PromptTokens, v.CompletionTokens}
		}
	}
	return m
}
