package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

func TestWhy(t *testing.T) {
	local := func(skip hearth.SkipReason, status int) hearth.Attempt {
		return hearth.Attempt{Slug: hearth.LocalSlug, Skip: skip, Status: status}
	}
	late := local("", 0)
	late.TimedOut = true
	drop := func(stage hearth.Stage, reason string, skip hearth.SkipReason) hearth.Drop {
		return hearth.Drop{Provider: hearth.LocalSlug, Stage: stage, Reason: reason, Skip: skip}
	}
	elsewhere := hearth.Drop{Provider: "beta", Stage: hearth.StageHealth}
	for _, c := range []struct {
		name   string
		g      hearth.Generation
		cause  Cause
		detail string
	}{
		{"an own slot answered", hearth.Generation{Slug: hearth.LocalSlug}, "", ""},
		{"nobody answered", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageHealth, "", "")}}, "", ""},
		{"1: left out for its window", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageCapability, "the prompt is estimated at …", hearth.SkipContext)}}, CauseContext, ""},
		{"1: the engine said so", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipContext, 0)}}, CauseContext, ""},
		{"2: loading", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipLoading, 0)}}, CauseSlot, "slot_loading"},
		{"2: busy", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipBusy, 0)}}, CauseSlot, "slot_busy"},
		{"2: cannot be started", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipFailed, 0)}}, CauseSlot, "slot_failed"},
		{"2: too many wait", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipQueueFull, 0)}}, CauseSlot, "slot_queue_full"},
		{"3: left out", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageHealth, "cooling down", hearth.SkipCooldown), elsewhere}}, CauseCooldown, ""},
		{"3: meanwhile", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipCooldown, 0)}}, CauseCooldown, ""},
		{"4: ignore, only and their like", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageConditions, "in provider.ignore", "")}}, CauseAsked, ""},
		{"4: order, sort or a priority", hearth.Generation{Local: 1, Drops: []hearth.Drop{drop(hearth.StageHealth, "", "")}}, CauseAsked, "another one came first"},
		{"4: no fallbacks", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageCut, "", "")}}, CauseAsked, "no fallbacks"},
		{"5: there is none", hearth.Generation{Drops: []hearth.Drop{elsewhere}, Attempts: []hearth.Attempt{{Slug: "acme", Status: 500}}}, CauseNoSlot, ""},
		{"disabled", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageConditions, "its slot is disabled by the operator", "")}}, CauseOther, "the slot was disabled"},
		{"the endpoint is disabled", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageConditions, "the endpoint is disabled", "")}}, CauseOther, "the slot was disabled"},
		{"no tools", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageCapability, "takes no tools", "")}}, CauseOther, "the slot cannot do what was asked"},
		{"money", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageCredits, "", hearth.SkipOverBudget)}}, CauseOther, "the key's limit did not cover it"},
		{"money meanwhile", hearth.Generation{Attempts: []hearth.Attempt{local(hearth.SkipOverBudget, 0)}}, CauseOther, "the key's limit did not cover it"},
		{"the key", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageKey, "", "")}}, CauseOther, "the key may not use the slot"},
		{"the engine failed", hearth.Generation{Attempts: []hearth.Attempt{local("", 500), {Slug: "acme", Status: 200}}}, CauseOther, "the engine failed"},
		{"the engine took too long", hearth.Generation{Attempts: []hearth.Attempt{late}}, CauseOther, "the engine took too long"},
		{"what was tried last counts", hearth.Generation{Local: 2, Attempts: []hearth.Attempt{local(hearth.SkipLoading, 0), local("", 500)}, Drops: []hearth.Drop{drop(hearth.StageHealth, "", "")}}, CauseOther, "the engine failed"},
		{"what got furthest counts", hearth.Generation{Drops: []hearth.Drop{drop(hearth.StageHealth, "", ""), drop(hearth.StageCapability, "", hearth.SkipContext)}}, CauseCooldown, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cause != "" {
				c.g.Slug = "acme"
			}
			if cause, detail := Why(&c.g); cause != c.cause || detail != c.detail {
				t.Errorf("%q, %q; want %q, %q", cause, detail, c.cause, c.detail)
			}
		})
	}
}

// TestReports computes a month by hand.
func TestReports(t *testing.T) {
	c := market(t)
	d := decimal.RequireFromString
	u := hearth.Usage{PromptTokens: 1000, CompletionTokens: 100, Reported: true}
	long := hearth.Usage{PromptTokens: 3000, CompletionTokens: 100, Reported: true}
	said := u
	said.Cost = "0.001"
	on := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, november.Location()) }
	make := func(id string, e int, u hearth.Usage, at time.Time, edit func(*hearth.Generation)) *hearth.Generation {
		g := settled(t, id, c.Endpoints[e], u, at)
		if edit != nil {
			edit(g)
		}
		return g
	}
	failed := &hearth.Generation{ID: "f", KeyID: "key-1", CreatedAt: on(3, 0), HTTP: 502, Bill: hearth.Bill{Currency: "KRW"}, Title: "chat", Unbilled: 3}
	s := keep(t,
		make("a", 0, u, on(1, 0), func(g *hearth.Generation) { g.User, g.Title, g.Referer = "kim", "chat", "https://chat" }),
		make("b", 0, long, on(30, 23), func(g *hearth.Generation) { g.KeyID, g.Referer = "key-2", "https://chat" }),
		make("c", 1, u, on(2, 0), func(g *hearth.Generation) {
			g.User, g.Attempts = "kim", []hearth.Attempt{{Slug: hearth.LocalSlug, Skip: hearth.SkipLoading}, {Slug: "acme", Status: 200}}
		}),
		make("d", 2, said, on(2, 1), nil),
		make("e", 0, u, on(2, 2), func(g *hearth.Generation) { g.Model = "x/y" }),
		failed,
		make("g", 0, u, on(0, 23), nil), // October
		make("h", 0, u, on(31, 0), nil), // December
		make("i", 0, hearth.Usage{}, on(5, 0), func(g *hearth.Generation) { g.Bill.Currency = "EUR" }),
	)
	got, err := Reports(t.Context(), s, "2026-11", c, nil)
	if err != nil || len(got) != 2 || got[0].Currency != "EUR" || got[0].Total.Local.Requests != 1 || got[0].Abroad.Nowhere.Requests != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	nano := func(x decimal.Decimal) hearth.Nano {
		n, err := hearth.NanoFromDecimal(x)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rate := d("1391.37")
	acme := nano(d("0.0001634567").Mul(rate).Mul(d("1.055"))) // 1000 × 0.1234567 and 100 × 0.4
	hub := nano(d("0.001").Mul(rate).Mul(d("1.1")))
	// Outside, a costs least at acme; b at hub, since acme's list is another above 2000 tokens.
	outside := nano(d("0.0001634567").Mul(rate)) + nano(d("0.00051").Mul(rate))
	own := Tokens{3, 5000, 300, 45_000_000 + 105_000_000 + 45_000_000}
	want := Report{
		Month: "2026-11", Currency: "KRW",
		Total: Line{Local: own, External: Tokens{2, 2000, 200, acme + hub}, Unanswered: 1, Unbilled: 3},
		Keys: []Line{
			{Name: "key-1", Local: Tokens{2, 2000, 200, 90_000_000}, External: Tokens{2, 2000, 200, acme + hub}, Unanswered: 1, Unbilled: 3},
			{Name: "key-2", Local: Tokens{1, 3000, 100, 105_000_000}},
		},
		Users: []Line{
			{Local: Tokens{2, 4000, 200, 150_000_000}, External: Tokens{1, 1000, 100, hub}, Unanswered: 1, Unbilled: 3},
			{Name: "kim", Local: Tokens{1, 1000, 100, 45_000_000}, External: Tokens{1, 1000, 100, acme}},
		},
		Apps: []Line{
			{Local: Tokens{1, 1000, 100, 45_000_000}, External: Tokens{2, 2000, 200, acme + hub}},
			{Name: "https://chat", Local: Tokens{1, 3000, 100, 105_000_000}},
			{Name: "chat", Local: Tokens{1, 1000, 100, 45_000_000}, Unanswered: 1, Unbilled: 3},
		},
		Causes: []Gone{
			{Cause: CauseSlot, Tokens: Tokens{1, 1000, 100, acme}, Details: map[string]int{"slot_loading": 1}},
			{Cause: CauseNoSlot, Tokens: Tokens{1, 1000, 100, hub}},
		},
		Abroad: Abroad{Local: Tokens{2, 4000, 200, 150_000_000}, Cost: outside, Nowhere: Tokens{1, 1000, 100, 45_000_000}},
	}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	t.Run("its sums are those of spend", func(t *testing.T) {
		sums, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total := hearth.Nano(0)
		for _, v := range sums.Spend {
			if v.Day[:7] == "2026-11" && v.Currency == "KRW" {
				total += v.Cost
			}
		}
		if total != got[1].Total.Cost() {
			t.Errorf("spend %s, report %s", total, got[1].Total.Cost())
		}
	})
	t.Run("what is no month", func(t *testing.T) {
		for _, month := range []string{"", "2026", "2026-13", "2026-11-01"} {
			if _, err := Reports(t.Context(), s, month, c, nil); err == nil {
				t.Errorf("%q is taken for a month", month)
			}
		}
	})
	t.Run("a record that cannot be read is an error", func(t *testing.T) {
		s := keep(t)
		r := store.NewRow(1, failed, []byte(`{"id":`))
		if _, err := s.Apply(t.Context(), "j", 1, []store.Row{r}); err != nil {
			t.Fatal(err)
		}
		if _, err := Reports(t.Context(), s, "2026-11", c, nil); err == nil {
			t.Error("it is passed over in silence")
		}
	})
}
