package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/meter"
	"myip.co.kr/hearth/internal/store"
)

// settled is a record with a bill as Settle makes it.
func settled(t interface{ Fatal(...any) }, id string, e *hearth.Endpoint, u hearth.Usage, at time.Time) *hearth.Generation {
	b, err := meter.Settle(e, u, meter.Outcome{Currency: "KRW", At: at, Finish: "stop"})
	if err != nil {
		t.Fatal(err)
	}
	return &hearth.Generation{
		ID: id, KeyID: "key-1", CreatedAt: at, APIType: "completions", Requested: []string{e.Model.ID}, Model: e.Model.ID, Slug: e.Provider.Slug,
		Provider: e.Provider.Name, Endpoint: e.ID, FinishReason: "stop", Usage: u, Bill: b, HTTP: 200, Duration: 1,
	}
}

// market is a model at our own slot and at two providers: one whose price has a step, one that is paid what it reports.
func market(t interface{ Fatal(...any) }) *hearth.Catalog {
	d := decimal.RequireFromString
	list := func(p, c string) hearth.Price {
		return hearth.Price{Prompt: d(p), Completion: d(c), CacheRead: d(p), CacheWrite: d(p), Reasoning: d(c)}
	}
	m := &hearth.Model{ID: "a/b"}
	node := &hearth.Node{Name: "gpu-1"}
	slot := &hearth.Slot{Name: "s", Node: node, Model: m}
	home := &hearth.Provider{Slug: hearth.LocalSlug, Name: "Local GPU", Kind: hearth.Local, Currency: "KRW"}
	acme := &hearth.Provider{Slug: "acme", Name: "Acme", Kind: hearth.External, Currency: "USD", Margin: d("0.055")}
	hub := &hearth.Provider{Slug: "hub", Name: "Hub", Kind: hearth.External, Currency: "USD", Margin: d("0.1")}
	c := &hearth.Catalog{
		Currency: "KRW", Rates: map[string]decimal.Decimal{"USD": d("1391.37")}, Models: []*hearth.Model{m}, Nodes: []*hearth.Node{node}, Slots: []*hearth.Slot{slot},
		Providers: []*hearth.Provider{home, acme, hub},
		Endpoints: []*hearth.Endpoint{
			{Model: m, Provider: home, Slot: slot, Tag: "local-gpu/gpu-1", List: list("30", "150")},
			{Model: m, Provider: acme, Tag: "acme", List: list("0.1234567", "0.4"), Steps: []hearth.Tariff{{Name: "above 2000", Above: 2000, List: list("0.25", "0.9")}}},
			{Model: m, Provider: hub, Tag: "hub", List: list("0.15", "0.6"), Reported: true},
		},
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return c
}

// audited runs an audit and returns what it says, a line per finding.
func audited(t testing.TB, s *store.Store, f store.Filter) (Audited, string) {
	t.Helper()
	var lines []string
	a, err := Audit(t.Context(), s, f, func(f Finding) { lines = append(lines, f.What+": "+f.Says) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != a.Findings {
		t.Errorf("%d findings, %d were told", a.Findings, len(lines))
	}
	return a, strings.Join(lines, "\n")
}

// keep records generations and has the store take them.
func keep(t testing.TB, list ...*hearth.Generation) *store.Store {
	t.Helper()
	b := open(t, t.TempDir(), journal.Options{})
	for _, g := range list {
		if err := b.Record(g); err != nil {
			t.Fatal(err)
		}
	}
	dir := b.dir
	b.end(t)
	s, err := store.Open(t.Context(), dir+"/hearth.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var november = time.Date(2026, 11, 30, 23, 0, 0, 0, time.FixedZone("KST", 9*3600))

// threeAnswers are one of each endpoint of the market.
func threeAnswers(t testing.TB) []*hearth.Generation {
	c := market(t)
	u := hearth.Usage{PromptTokens: 1000, CachedTokens: 10, CompletionTokens: 77, ReasoningTokens: 7, Reported: true}
	long := u
	long.PromptTokens, long.Cost = 2001, "0.00123"
	said := u
	said.Cost = "0.000321"
	return []*hearth.Generation{
		settled(t, "gen-1", c.Endpoints[0], u, november),
		settled(t, "gen-2", c.Endpoints[1], long, november.Add(time.Minute)),
		settled(t, "gen-3", c.Endpoints[2], said, november.Add(2*time.Hour)),
	}
}

func TestAudit(t *testing.T) {
	t.Run("what is right", func(t *testing.T) {
		list := threeAnswers(t)
		failed := &hearth.Generation{ID: "gen-4", KeyID: "key-1", CreatedAt: november, HTTP: 502, Error: "provider_error", Bill: hearth.Bill{Currency: "KRW"}}
		got, text := audited(t, keep(t, append(list, failed)...), store.Filter{})
		if text != "" {
			t.Error(text)
		}
		want := Audited{Records: 4, Sums: 4, Reported: []Reported{
			{Endpoint: "acme:a/b", Currency: "KRW", Records: 1, Reported: 1805511280, Listed: 836079168},
			{Endpoint: "hub:a/b", Currency: "KRW", Records: 1, Rules: 1, Reported: 491292747, Listed: 300292471},
		}}
		// 0.00123 × 1391.37 × 1.055 and (2001 × 0.25 + 77 × 0.9) / 10⁶ of it; 0.000321 × 1391.37 × 1.1 and (1000 × 0.15 + 77 × 0.6) / 10⁶.
		d := decimal.RequireFromString
		for i, s := range [][2]string{{"0.00123", "0.00056955"}, {"0.000321", "0.0001962"}} {
			factor := d("1391.37").Mul(d([]string{"1.055", "1.1"}[i]))
			want.Reported[i].Reported, _ = hearth.NanoFromDecimal(d(s[0]).Mul(factor))
			want.Reported[i].Listed, _ = hearth.NanoFromDecimal(d(s[1]).Mul(factor))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	for name, c := range map[string]struct {
		spoil func(list []*hearth.Generation)
		want  string // each must be in the only line
	}{
		"a nano too much":             {func(l []*hearth.Generation) { l[0].Bill.Cost++ }, "record gen-1: cost 0.041550001 KRW, computed 0.04155"},
		"parts that do not add up":    {func(l []*hearth.Generation) { l[0].Bill.PromptCost-- }, "prompt cost 0.029999999 KRW, computed 0.03"},
		"another exchange rate":       {func(l []*hearth.Generation) { l[1].Bill.Rate = decimal.RequireFromString("1391.38") }, "record gen-2: cost"},
		"another margin":              {func(l []*hearth.Generation) { l[1].Bill.Margin = decimal.Zero }, "record gen-2: cost"},
		"another list":                {func(l []*hearth.Generation) { l[1].Bill.List.Completion = decimal.RequireFromString("0.4") }, "upstream cost 0.00056955 USD, computed 0.00053455"},
		"another count":               {func(l []*hearth.Generation) { l[0].Usage.PromptTokens++ }, "record gen-1: cost"},
		"a tail of the upstream cost": {func(l []*hearth.Generation) { l[1].Bill.Upstream = decimal.RequireFromString("0.000569550000000001") }, "upstream cost"},
		"another report":              {func(l []*hearth.Generation) { l[2].Usage.Cost = "0.000322" }, "record gen-3: cost"},
		"a report that rules no more": {func(l []*hearth.Generation) { l[2].Bill.Reported = false }, "record gen-3: cost"},
		"an error that is charged":    {func(l []*hearth.Generation) { l[0].FinishReason = "error" }, "record gen-1: cost 0.04155 KRW, computed 0"},
		"an estimate that is charged": {func(l []*hearth.Generation) { l[0].Usage.Reported = false }, "record gen-1: cost 0.04155 KRW, computed 0"},
		"counts that cannot be true":  {func(l []*hearth.Generation) { l[0].Usage.CachedTokens = 5000 }, "computed 0, since recompute gen-1: token counts"},
	} {
		t.Run(name, func(t *testing.T) {
			list := threeAnswers(t)
			for _, g := range list { // each has a list of its own
				own := *g.Bill.List
				g.Bill.List = &own
			}
			c.spoil(list)
			if _, text := audited(t, keep(t, list...), store.Filter{}); !strings.Contains(text, c.want) || strings.Contains(text, "sum of") {
				t.Errorf("it says\n%s\nwant %s", text, c.want)
			}
		})
	}
}

// Rows that do not say what their records say.
func TestAudit_Rows(t *testing.T) {
	for want, spoil := range map[string]func(*store.Row){
		"its row has the cost 0.000000001, the record itself 0.04155":     func(r *store.Row) { r.Cost = 1 },
		"its row has the day 2026-11-29, the record itself 2026-11-30":    func(r *store.Row) { r.CreatedAt = r.CreatedAt.AddDate(0, 0, -1) },
		"its row has the time 1796049000001, the record itself 179604":    func(r *store.Row) { r.CreatedAt = time.UnixMilli(1796049000001).In(r.CreatedAt.Location()) },
		"its row has the key key-2, the record itself key-1":              func(r *store.Row) { r.KeyID = "key-2" },
		"its row has the model , the record itself a/b":                   func(r *store.Row) { r.Model = "" },
		"its row has the provider x, the record itself local-gpu":         func(r *store.Row) { r.Provider = "x" },
		"its row has the endpoint x":                                      func(r *store.Row) { r.Endpoint = "x" },
		"its row has the prompt tokens 1, the record itself 1000":         func(r *store.Row) { r.PromptTokens = 1 },
		"its row has the completion tokens 1, the record itself 77":       func(r *store.Row) { r.CompletionTokens = 1 },
		"its row has the currency USD, the record itself KRW":             func(r *store.Row) { r.Currency = "USD" },
		"its row has the status 500, the record itself 200":               func(r *store.Row) { r.HTTP = 500 },
		"record gen-9: its row has the id gen-9, the record itself gen-1": func(r *store.Row) { r.ID = "gen-9" },
		"record gen-1: cannot be read: read record gen-1":                 func(r *store.Row) { r.Record = []byte(`{"id":`) },
	} {
		t.Run(want, func(t *testing.T) {
			s := keep(t)
			g := threeAnswers(t)[0]
			raw, err := encode(g)
			if err != nil {
				t.Fatal(err)
			}
			r := store.NewRow(1, g, raw)
			spoil(&r)
			if _, err := s.Apply(t.Context(), "j", 1, []store.Row{r}); err != nil {
				t.Fatal(err)
			}
			if _, text := audited(t, s, store.Filter{}); !strings.Contains(text, want) || strings.Contains(text, "sum of") {
				t.Errorf("it says\n%s\nwant %s", text, want)
			}
		})
	}
}

// Sums of days that are not those of the records.
func TestAudit_Sums(t *testing.T) {
	s := keep(t, threeAnswers(t)...)
	type tables struct{ spend, deleted, later []store.Spend }
	for want, spoil := range map[string]func(*tables){
		"": func(*tables) {},
		"sum of key-1 on 2026-11-30 for a/b at acme in KRW: cost 1, the records add up to 0.8360":          func(x *tables) { x.spend[0].Cost = 1_000_000_000 },
		"sum of key-1 on 2026-11-30 for a/b at acme in KRW: requests 2, the records add up to 1":           func(x *tables) { x.spend[0].Requests = 2 },
		"sum of key-1 on 2026-11-30 for a/b at acme in KRW: prompt tokens 0, the records add up to 2001":   func(x *tables) { x.spend[0].PromptTokens = 0 },
		"sum of key-1 on 2026-11-30 for a/b at acme in KRW: completion tokens 0, the records add up to 77": func(x *tables) { x.spend[0].CompletionTokens = 0 },
		"sum of key-1 on 2026-12-01 for a/b at hub in KRW: requests 0, the records add up to 1":            func(x *tables) { x.spend = x.spend[:2] },
		"sum of key-9 on 2026-11-30 for a/b at acme in KRW: requests 1, the records add up to 0":           func(x *tables) { x.spend[0].KeyID = "key-9" },
		"sum of key-1 on 2026-11-30 for no model at nobody in KRW: requests 3, the records add up to 0": func(x *tables) {
			x.spend = append(x.spend, store.Spend{KeyID: "key-1", Day: "2026-11-30", Currency: "KRW", Requests: 3})
		},
		"sum of key-1 on 2026-11-30 for a/b at acme in KRW: requests 1, the records add up to 5": func(x *tables) {
			x.deleted = []store.Spend{x.spend[0]}
			x.deleted[0].Requests = 4
			x.later = x.deleted
		},
	} {
		t.Run(want, func(t *testing.T) {
			sums, err := s.Sums(t.Context())
			if err != nil || len(sums.Spend) != 3 || sums.Spend[0].Provider != "acme" {
				t.Fatal(sums, err)
			}
			var lines []string
			a := audit{found: func(f Finding) { lines = append(lines, f.What+": "+f.Says) }, sums: make(map[sumKey]figures), reported: make(map[[2]string]*Reported)}
			err = Each(t.Context(), s, store.Filter{}, func(r *store.Stored, g *hearth.Generation, err error) error { a.record(r, g, err); return nil }, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := tables{spend: sums.Spend}
			spoil(&x)
			a.compare(&store.Filter{}, store.Sums{Spend: x.spend, Deleted: x.deleted}, x.later)
			if text := strings.Join(lines, "\n"); !strings.Contains(text, want) || (want == "") != (text == "") {
				t.Errorf("it says\n%s\nwant %s", text, want)
			}
		})
	}
	t.Run("what is deleted meanwhile is passed over", func(t *testing.T) {
		a := audit{found: func(f Finding) { t.Error(f) }, sums: make(map[sumKey]figures)}
		sums, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.compare(&store.Filter{}, sums, sums.Spend)
		if a.Passed != 3 || a.Sums != 0 {
			t.Errorf("%+v", a.Audited)
		}
	})
	t.Run("what was deleted before counts", func(t *testing.T) {
		a := audit{found: func(f Finding) { t.Error(f) }, sums: make(map[sumKey]figures)}
		sums, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sums.Deleted = sums.Spend
		a.compare(&store.Filter{}, sums, sums.Spend)
		if a.Deleted != 3 || a.Sums != 3 {
			t.Errorf("%+v", a.Audited)
		}
	})
}

// A filter chooses records and sums alike, and what is recorded meanwhile is neither.
func TestAudit_Part(t *testing.T) {
	list := threeAnswers(t)
	list[2].Bill.Cost++
	s := keep(t, list...)
	for _, c := range []struct {
		name    string
		f       store.Filter
		records int
		right   bool
	}{
		{"all", store.Filter{}, 3, false},
		{"the day before", store.Filter{LastDay: "2026-11-30"}, 2, true},
		{"the day", store.Filter{FirstDay: "2026-12-01"}, 1, false},
		{"the model", store.Filter{Model: "a/b"}, 3, false},
		{"another model", store.Filter{Model: "c/d"}, 0, true},
		{"the key", store.Filter{KeyID: "key-1", FirstDay: "2026-12-01"}, 1, false},
		{"another key", store.Filter{KeyID: "key-2"}, 0, true},
		{"an instant does not count: sums are of whole days", store.Filter{From: november.Add(time.Hour)}, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, text := audited(t, s, c.f); got.Records != c.records || (text == "") != c.right {
				t.Errorf("%+v\n%s", got, text)
			}
		})
	}
	t.Run("a gateway goes on", func(t *testing.T) {
		s := keep(t, threeAnswers(t)...)
		late := settled(t, "gen-9", market(t).Endpoints[0], hearth.Usage{PromptTokens: 5, CompletionTokens: 5, Reported: true}, november.Add(time.Hour))
		raw, err := encode(late)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Audit(t.Context(), s, store.Filter{}, func(f Finding) { t.Error(f) }, func(int) {
			if _, err := s.Apply(t.Context(), "j", 9, []store.Row{store.NewRow(9, late, raw)}); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil || got.Records != 3 || got.Sums != 3 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Whatever Settle bills and the ledger keeps, an audit finds nothing; and with one nano added anywhere it finds that.
func TestAudit_Property(t *testing.T) {
	c := market(t)
	rapid.Check(t, func(rt *rapid.T) {
		var list []*hearth.Generation
		for i := range rapid.IntRange(1, 12).Draw(rt, "records") {
			e := rapid.SampledFrom(c.Endpoints).Draw(rt, "endpoint")
			u := hearth.Usage{Reported: rapid.IntRange(0, 9).Draw(rt, "reported") > 0}
			if u.Reported {
				u.PromptTokens, u.CompletionTokens = rapid.Int64Range(0, 5000).Draw(rt, "prompt"), rapid.Int64Range(0, 500).Draw(rt, "completion")
				u.CachedTokens = rapid.Int64Range(0, u.PromptTokens).Draw(rt, "cached")
				u.ReasoningTokens = rapid.Int64Range(0, u.CompletionTokens).Draw(rt, "reasoning")
				u.Cost = decimal.New(rapid.Int64Range(0, 1e12).Draw(rt, "said"), -int32(rapid.IntRange(6, 12).Draw(rt, "digits"))).String()
			}
			g := settled(rt, fmt.Sprint("gen-", i), e, u, november.Add(time.Duration(rapid.IntRange(-100, 100).Draw(rt, "hour"))*time.Hour))
			g.KeyID = rapid.SampledFrom([]string{"key-1", "key-2"}).Draw(rt, "key")
			list = append(list, g)
		}
		spoilt := rapid.IntRange(-1, len(list)-1).Draw(rt, "spoilt")
		if spoilt >= 0 {
			list[spoilt].Bill.Cost++
		}
		a := audit{found: func(f Finding) {
			if spoilt < 0 || f.ID != list[spoilt].ID {
				rt.Fatalf("%+v", f)
			}
		}, sums: make(map[sumKey]figures), reported: make(map[[2]string]*Reported)}
		for _, g := range list {
			raw, err := encode(g)
			if err != nil {
				rt.Fatal(err)
			}
			again, err := decode(raw)
			if err != nil {
				rt.Fatal(err)
			}
			r := store.Stored{Row: store.NewRow(1, g, raw), Day: g.CreatedAt.Format(time.DateOnly)}
			a.record(&r, again, nil)
		}
		if (a.Findings > 0) != (spoilt >= 0) {
			rt.Fatalf("%d findings", a.Findings)
		}
	})
}
