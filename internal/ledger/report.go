package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/meter"
	"myip.co.kr/hearth/internal/store"
)

// Tokens are requests with their tokens and what they cost.
type Tokens struct {
	Requests         int         `json:"requests"`
	PromptTokens     int64       `json:"prompt_tokens"`
	CompletionTokens int64       `json:"completion_tokens"`
	Cost             hearth.Nano `json:"cost"`
}

func (t *Tokens) add(g *hearth.Generation) {
	t.Requests++
	t.PromptTokens = cappedCount(t.PromptTokens, g.Usage.PromptTokens)
	t.CompletionTokens = cappedCount(t.CompletionTokens, g.Usage.CompletionTokens)
	t.Cost = capped(t.Cost, max(g.Bill.Cost, 0))
}

// Line is one line of a report: what one key, user or app asked for.
type Line struct {
	Name       string `json:"name"` // "" = none was given
	Local      Tokens `json:"local"`
	External   Tokens `json:"external"`
	Unanswered int    `json:"unanswered"` // requests that nobody answered
	Unbilled   int    `json:"unbilled"`   // pieces of answers that no usage covers
}

func (l *Line) add(g *hearth.Generation) {
	switch {
	case g.Slug == "":
		l.Unanswered++
	case store.External(g.Slug):
		l.External.add(g)
	default:
		l.Local.add(g)
	}
	l.Unbilled += g.Unbilled
}

// Cost is what the line costs in all.
func (l *Line) Cost() hearth.Nano { return capped(l.Local.Cost, l.External.Cost) }

// Gone are the answers that came from external providers for one cause.
type Gone struct {
	Cause Cause `json:"cause"`
	Tokens
	Details map[string]int `json:"details,omitzero"` // requests by detail, where the cause has some
}

// Abroad is what the answers of own slots would have cost elsewhere.
type Abroad struct {
	Local   Tokens      `json:"local"`   // those that can be compared, with what they did cost
	Cost    hearth.Nano `json:"cost"`    // at the cheapest external endpoint of their model, by its list price without margin
	Nowhere Tokens      `json:"nowhere"` // those whose model no external provider has
}

// Report is what one month was in one billing currency.
type Report struct {
	Month    string `json:"month"` // YYYY-MM
	Currency string `json:"currency"`
	Total    Line   `json:"total"`
	Keys     []Line `json:"keys"`
	Users    []Line `json:"users"`
	Apps     []Line `json:"apps"`
	Causes   []Gone `json:"causes"` // why answers left the house
	Abroad   Abroad `json:"abroad"`
}

// reporter makes the reports of a month.
type reporter struct {
	month   string
	catalog *hearth.Catalog
	by      map[string]*draft   // by currency
	outside map[string][]abroad // external endpoints by model
}

// draft is a report in the making.
type draft struct {
	total             Line
	keys, users, apps map[string]*Line
	causes            map[Cause]*Gone
	abroad            Abroad
}

// abroad is an external endpoint as one that bills by its price list, and its exchange rate.
type abroad struct {
	endpoint *hearth.Endpoint
	rate     decimal.Decimal
}

// Reports makes the reports of a month (YYYY-MM) from the records that are counted to its days, one for each currency in
// which they were billed. The catalog says what answers would cost elsewhere now.
func Reports(ctx context.Context, s *store.Store, month string, catalog *hearth.Catalog, tick func(rows int)) ([]Report, error) {
	f, err := MonthFilter(month)
	if err != nil {
		return nil, err
	}
	r := newReporter(month, catalog)
	err = Each(ctx, s, f, func(_ *store.Stored, g *hearth.Generation, err error) error {
		if err == nil {
			r.add(g)
		}
		return err
	}, tick)
	return r.reports(), err
}

// MonthFilter chooses the records that are counted to the days of a month.
func MonthFilter(month string) (store.Filter, error) {
	t, err := time.Parse("2006-01", month)
	if err != nil {
		return store.Filter{}, hearth.Invalid("month", "%.40q is not a month, such as 2026-11", month)
	}
	first, last := Window(hearth.Monthly, t)
	return store.Filter{FirstDay: first, LastDay: last}, nil
}

func newReporter(month string, catalog *hearth.Catalog) *reporter {
	r := &reporter{month: month, catalog: catalog, by: make(map[string]*draft), outside: make(map[string][]abroad)}
	for _, e := range catalog.Endpoints {
		if e.Local() || e.Disabled {
			continue
		}
		listed := *e
		listed.Reported = false
		r.outside[e.Model.ID] = append(r.outside[e.Model.ID], abroad{&listed, e.Rate})
	}
	return r
}

func (r *reporter) add(g *hearth.Generation) {
	d := r.by[g.Bill.Currency]
	if d == nil {
		d = &draft{keys: make(map[string]*Line), users: make(map[string]*Line), apps: make(map[string]*Line), causes: make(map[Cause]*Gone)}
		r.by[g.Bill.Currency] = d
	}
	d.total.add(g)
	line(d.keys, g.KeyID).add(g)
	line(d.users, g.User).add(g)
	line(d.apps, cmp.Or(g.Title, g.Referer)).add(g)
	if cause, detail := Why(g); cause != "" {
		d.gone(cause, detail).add(g)
	} else if g.Slug == hearth.LocalSlug {
		r.compare(d, g)
	}
}

func line(lines map[string]*Line, name string) *Line {
	l := lines[name]
	if l == nil {
		l = &Line{Name: name}
		lines[name] = l
	}
	return l
}

func (d *draft) gone(c Cause, detail string) *Gone {
	g := d.causes[c]
	if g == nil {
		g = &Gone{Cause: c}
		d.causes[c] = g
	}
	if detail != "" {
		if g.Details == nil {
			g.Details = make(map[string]int)
		}
		g.Details[detail]++
	}
	return g
}

// compare adds what the answer of an own slot would have cost elsewhere. One that cost nothing, for it was none, would have
// cost nothing there.
func (r *reporter) compare(d *draft, g *hearth.Generation) {
	cost, ok := r.cheapest(g)
	if !ok {
		d.abroad.Nowhere.add(g)
		return
	}
	d.abroad.Local.add(g)
	d.abroad.Cost = capped(d.abroad.Cost, cost)
}

// cheapest is the least that the same tokens cost at an external endpoint of the model, in the billing currency.
func (r *reporter) cheapest(g *hearth.Generation) (least hearth.Nano, ok bool) {
	if g.Bill.Currency != r.catalog.Currency {
		return 0, false
	}
	for _, a := range r.outside[g.Model] {
		b, err := meter.Settle(a.endpoint, g.Usage, meter.Outcome{
			Currency: r.catalog.Currency, At: g.CreatedAt, Finish: g.FinishReason, Images: g.Images,
		})
		if err != nil {
			continue
		}
		n, err := hearth.NanoFromDecimal(b.Upstream.Mul(a.rate))
		if err == nil && (!ok || n < least) {
			least, ok = n, true
		}
	}
	return least, ok
}

// reports are the finished reports, by currency.
func (r *reporter) reports() []Report {
	list := make([]Report, 0, len(r.by))
	for _, currency := range slices.Sorted(maps.Keys(r.by)) {
		d := r.by[currency]
		v := Report{
			Month: r.month, Currency: currency, Total: d.total, Keys: sorted(d.keys), Users: sorted(d.users), Apps: sorted(d.apps),
			Causes: []Gone{}, Abroad: d.abroad,
		}
		for _, c := range Causes {
			if g := d.causes[c]; g != nil {
				v.Causes = append(v.Causes, *g)
			}
		}
		list = append(list, v)
	}
	return list
}

// sorted puts the dearest first.
func sorted(lines map[string]*Line) []Line {
	list := make([]Line, 0, len(lines))
	for _, l := range lines {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Cost(), a.Cost()), cmp.Compare(b.Local.Requests+b.External.Requests, a.Local.Requests+a.External.Requests), cmp.Compare(a.Name, b.Name))
	})
	return list
}
