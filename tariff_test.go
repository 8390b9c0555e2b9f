package hearth_test

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

func TestTariffAt(t *testing.T) {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	list := func(n int64) hearth.Price { return hearth.Price{Prompt: decimal.NewFromInt(n)} }
	night := hearth.Hours{From: 23 * time.Hour, To: 7*time.Hour + 30*time.Minute, Zone: seoul}
	acme := &hearth.Provider{Slug: "acme", Currency: "USD", Margin: decimal.RequireFromString("0.5")}
	e := &hearth.Endpoint{
		Provider: acme, Tag: "acme", Model: &hearth.Model{ID: "a/b"}, List: list(1),
		Steps: []hearth.Tariff{
			{Name: "night", Hours: night, List: list(2)},
			{Name: "long", Above: 200_000, List: list(3)},
			{Name: "longer", Above: 400_000, List: list(4)},
			{Name: "long by night", Above: 200_000, Hours: night, List: list(5)},
		},
	}
	c := &hearth.Catalog{Currency: "KRW", Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1000)}, Models: []*hearth.Model{e.Model}, Endpoints: []*hearth.Endpoint{e}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	day, before, midnight := time.Date(2026, 3, 1, 12, 0, 0, 0, seoul), time.Date(2026, 3, 1, 22, 59, 59, 0, seoul), time.Date(2026, 3, 1, 23, 0, 0, 0, seoul)
	for _, tc := range []struct {
		prompt int
		at     time.Time
		name   string
		price  int64
		worst  float64
		reach  string
	}{
		{1, day, "", 1500, 0.0015, "|"},
		{200_000, before, "", 1500, 300, "|"},
		{200_001, day, "long", 4500, 900.0045, "long||"},
		{400_001, day, "longer", 6000, 2400.006, "longer|long||"},
		{200_000, midnight, "night", 3000, 600, "night|"},
		{200_001, midnight.UTC(), "long by night", 7500, 1500.0075, "long by night|night|"},
		{5, midnight.Add(8*time.Hour + 30*time.Minute - time.Second), "night", 3000, 0.015, "night|"},
		{5, midnight.Add(8*time.Hour + 30*time.Minute), "", 1500, 0.0075, "|"},
	} {
		got := e.TariffAt(tc.prompt, tc.at)
		if got.Name != tc.name || !got.Price.Prompt.Equal(decimal.NewFromInt(tc.price)) {
			t.Errorf("%d tokens at %s: %q at %s, want %q at %d", tc.prompt, tc.at, got.Name, got.Price.Prompt, tc.name, tc.price)
		}
		reach := ""
		e.Reach(tc.prompt, tc.at, func(t *hearth.Tariff) { reach += t.Name + "|" })
		if worst := e.Worst(tc.at, tc.prompt, 0, 0); reach != tc.reach || worst < tc.worst*0.999999 || worst > tc.worst*1.000001 {
			t.Errorf("%d tokens at %s: worst %v by %q, want %v by %q", tc.prompt, tc.at, worst, reach, tc.worst, tc.reach)
		}
	}
	if (hearth.Hours{From: 3, To: 3}).Contain(day) != true || (hearth.Hours{From: 0, To: time.Hour}).Contain(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)) {
		t.Error("a whole day holds always, and To is not in it")
	}
	if !e.Price.Prompt.Equal(decimal.NewFromInt(1500)) || e.Stale {
		t.Errorf("base %s, stale %t", e.Price.Prompt, e.Stale)
	}
	c.Stale = map[string]bool{"USD": true}
	if err := c.Seal(); err != nil || !e.Stale {
		t.Errorf("a stale rate is not said: %v", err)
	}
}

func TestMoney(t *testing.T) {
	won := hearth.Money{}
	dollar := hearth.Money{Currency: "USD", Rate: decimal.RequireFromString("1390")}
	for _, tc := range []struct {
		m    hearth.Money
		n    hearth.Nano
		want string
	}{
		{won, 1, "0.000000001"},
		{won, 1_500_000_000, "1.5"},
		{dollar, 1_390_000_000_000, "1"},
		{dollar, 1, "0.000000000001"}, // 7.19e-13
		{dollar, 1_000_000_000, "0.000719424460"},
		{dollar, -1_390, "-0.000000001"},
		{dollar, 0, "0"},
	} {
		if got := string(tc.m.Append(nil, tc.n)); !decimal.RequireFromString(got).Equal(decimal.RequireFromString(tc.want)) {
			t.Errorf("%s in %q is %s, want %s", tc.n, tc.m.Currency, got, tc.want)
		}
	}
}
