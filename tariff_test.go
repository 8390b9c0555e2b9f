package hearth_test

import (
	"math"
	"math/big"
	"regexp"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

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
		{hearth.Money{Currency: "X", Rate: decimal.NewFromInt(2000)}, 1, "0"}, // half of the last digit: to even
		{hearth.Money{Currency: "X", Rate: decimal.NewFromInt(2000)}, 3, "0.000000000002"},
		{hearth.Money{Currency: "X", Rate: decimal.RequireFromString("100000000000000000001")}, math.MaxInt64, "0.000000000092"}, // more than 64 bits
		{hearth.Money{Currency: "X", Rate: decimal.RequireFromString("0.001")}, math.MaxInt64, "9223372036854.775807"},
		{hearth.Money{Currency: "X", Rate: decimal.RequireFromString("0.000001")}, math.MinInt64, "-9223372036854775.808"},
	} {
		if got := string(tc.m.Append(nil, tc.n)); !decimal.RequireFromString(got).Equal(decimal.RequireFromString(tc.want)) {
			t.Errorf("%s in %q is %s, want %s", tc.n, tc.m.Currency, got, tc.want)
		}
	}
}

// An amount that is shown is a plain decimal number, at most half of 10⁻¹² from what it is worth exactly, and exactly that
// where it has no more digits. The parts of a bill add up to its whole within 1.5 × 10⁻¹².
func TestMoney_Exact(t *testing.T) {
	plain := regexp.MustCompile(`^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]{0,11}[1-9])$`)
	finest := big.NewRat(1, 1_000_000_000_000)
	half := new(big.Rat).Quo(finest, big.NewRat(2, 1))
	rapid.Check(t, func(t *rapid.T) {
		m := hearth.Money{Currency: "X"}
		if rapid.Bool().Draw(t, "converted") {
			m.Rate = decimal.New(rapid.Int64Range(1, math.MaxInt64).Draw(t, "rate digits"), int32(rapid.IntRange(-24, 3).Draw(t, "exponent")))
		}
		shown := func(n hearth.Nano) *big.Rat {
			text := string(m.Append([]byte("x"), n))
			if text[0] != 'x' || !plain.MatchString(text[1:]) {
				t.Fatalf("%s shown as %q", n, text)
			}
			r, _ := new(big.Rat).SetString(text[1:])
			if of := m.Of(n.Decimal()); of.Rat().Cmp(r) != 0 {
				t.Fatalf("%s at %s is %s, and shown as %s", n, m.Rate, of, text[1:])
			}
			return r
		}
		exact := func(n hearth.Nano) *big.Rat {
			r := big.NewRat(int64(n), 1_000_000_000)
			if !m.Rate.IsZero() {
				r.Quo(r, m.Rate.Rat())
			}
			return r
		}
		whole := hearth.Nano(rapid.Int64().Draw(t, "amount"))
		off := new(big.Rat).Sub(shown(whole), exact(whole))
		most := half
		if digits := new(big.Rat).Quo(exact(whole), finest); m.Rate.IsZero() || digits.IsInt() {
			most = new(big.Rat)
		}
		if off.Abs(off).Cmp(most) > 0 {
			t.Fatalf("%s at %s is off by %s", whole, m.Rate, off.FloatString(20))
		}
		part := hearth.Nano(rapid.Int64Range(0, max(int64(whole), 0)).Draw(t, "part"))
		if whole < part {
			whole = part
		}
		sum := new(big.Rat).Add(shown(part), shown(whole-part))
		if sum.Sub(sum, shown(whole)); sum.Abs(sum).Cmp(new(big.Rat).Mul(half, big.NewRat(3, 1))) > 0 {
			t.Fatalf("the parts of %s are off by %s", whole, sum.FloatString(20))
		}
	})
}

func TestCatalog_Money(t *testing.T) {
	c := &hearth.Catalog{Currency: "KRW", Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1390), "BAD": decimal.Zero, "NEG": decimal.NewFromInt(-1), "KRW": decimal.NewFromInt(2)}}
	for _, tc := range []struct {
		setting, own, want string
		rate               int64
	}{
		{"", "", "KRW", 0}, {"USD", "", "USD", 1390}, {"USD", "KRW", "KRW", 0}, {"", "USD", "USD", 1390}, {"KRW", "", "KRW", 0},
		{"", "EUR", "KRW", 0}, {"USD", "EUR", "KRW", 0}, {"EUR", "", "KRW", 0}, {"", "BAD", "KRW", 0}, {"", "NEG", "KRW", 0},
	} {
		c.Shown = tc.setting
		if got := c.Money(&hearth.Key{Currency: tc.own}); got.Currency != tc.want || !got.Rate.Equal(decimal.NewFromInt(tc.rate)) {
			t.Errorf("setting %q, key %q: %+v", tc.setting, tc.own, got)
		}
		if _, ok := c.In(tc.own); ok != (tc.own == "KRW" || tc.own == "USD") {
			t.Errorf("%q can be shown: %t", tc.own, ok)
		}
	}
	c.Shown = "USD"
	if got := c.Money(nil); got.Currency != "USD" {
		t.Errorf("without a key: %+v", got)
	}
	bound := hearth.MaxPrice{Prompt: decimal.NewNullDecimal(decimal.RequireFromString("0.5")), Request: decimal.NewNullDecimal(decimal.NewFromInt(3))}
	got := bound.Times(decimal.NewFromInt(1390))
	if !got.Prompt.Decimal.Equal(decimal.NewFromInt(695)) || !got.Request.Decimal.Equal(decimal.NewFromInt(4170)) || got.Completion.Valid || got.Image.Valid {
		t.Errorf("bound %+v", got)
	}
}
