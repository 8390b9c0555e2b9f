package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/store"
)

// Each of a key's sums stands in its own field, and what is left of a limit is never negative.
func TestUsage(t *testing.T) {
	s := New(Options{}, Parts{
		Catalog: &hearth.Catalog{Currency: "KRW"}, Log: slog.New(slog.DiscardHandler),
		Spent: func(*hearth.Key, time.Time) Spent {
			return Spent{Ever: 70e9, Day: 1e9, Week: 2e9, Month: 3e9, External: 60e9, Period: 20e9, PeriodExternal: 10e9}
		},
	})
	for _, tc := range []struct {
		limit, external hearth.Nano
		left, leftOut   string
	}{{100e9, 50e9, "80", "40"}, {20e9, 10e9, "0", "0"}, {15e9, 5e9, "0", "0"}, {0, 0, "null", "null"}, {100e9, 0, "80", "null"}} {
		b, err := json.Marshal(s.usage(&hearth.Key{Limit: tc.limit, ExternalLimit: tc.external}, hearth.Money{Currency: "KRW"}))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]jsontext.Value
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		for field, want := range map[string]string{
			"usage": "70", "usage_daily": "1", "usage_weekly": "2", "usage_monthly": "3", "external_usage": "60", "byok_usage": "0",
			"limit_remaining": tc.left, "external_limit_remaining": tc.leftOut,
		} {
			if string(got[field]) != want {
				t.Errorf("limits %s and %s: %s is %s, want %s", tc.limit, tc.external, field, got[field], want)
			}
		}
	}
}

// What a key may spend counts once, whether it has spent it, less, or more; limits that begin anew are nobody's credit.
func TestCredits(t *testing.T) {
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	acc, err := account.Open(t.Context(), st, "")
	if err != nil {
		t.Fatal(err)
	}
	defer acc.Close()
	spent := map[string]hearth.Nano{"under": 1e9, "over": 30e9, "none": 5e9, "daily": 3e9, "weekly": 2e9, "monthly": 4e9}
	admin := ""
	for _, k := range []hearth.Key{
		{Name: "admin", Admin: true}, {Name: "under", Limit: 10e9}, {Name: "over", Limit: 20e9}, {Name: "none"},
		{Name: "daily", Limit: 100e9, LimitReset: hearth.Daily}, {Name: "weekly", Limit: 100e9, LimitReset: hearth.Weekly}, {Name: "monthly", Limit: 100e9, LimitReset: hearth.Monthly},
	} {
		plain, _, err := acc.Create(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if k.Admin {
			admin = plain
		}
	}
	s := New(Options{}, Parts{
		Catalog: &hearth.Catalog{Currency: "KRW", Shown: "USD", Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1000)}}, Log: slog.New(slog.DiscardHandler),
		Accounts: acc, Spent: func(k *hearth.Key, _ time.Time) Spent { return Spent{Ever: spent[k.Name]} },
		Activity: func(context.Context, string, string, string) ([]store.Activity, error) {
			return []store.Activity{
				{Day: "2026-01-01", Model: "a/b", Provider: "x", Currency: "KRW", Cost: 5e9, Requests: 1},
				{Day: "2026-01-01", Model: "a/b", Provider: "x", Currency: "EUR", Cost: 5e9, Requests: 1},
			}, nil
		},
	})
	answer := func(path string) string {
		t.Helper()
		r := httptest.NewRequest("GET", "/api/v1"+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+admin)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	if got := answer("/credits"); got != `{"data":{"total_credits":0.054,"total_usage":0.045,"currency":"USD"}}` {
		t.Errorf("credits %s", got)
	}
	// What was billed in another currency stays in it.
	if got := answer("/activity"); !strings.Contains(got, `"usage":0.005,"currency":"USD"`) || !strings.Contains(got, `"usage":5,"currency":"EUR"`) {
		t.Errorf("activity %s", got)
	}
}

// A bill is shown at its own rate where it has one, and in its own currency if that is not billed any more.
func TestShownBy(t *testing.T) {
	s := New(Options{}, Parts{Log: slog.New(slog.DiscardHandler), Catalog: &hearth.Catalog{Currency: "KRW", Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1390), "EUR": decimal.NewFromInt(1500)}}})
	for name, tc := range map[string]struct {
		key  string
		bill hearth.Bill
		want string
		rate int64
	}{
		"the billing currency":             {"", hearth.Bill{Currency: "KRW", ListIn: "USD", Rate: decimal.NewFromInt(1200)}, "KRW", 0},
		"at the rate of the bill":          {"USD", hearth.Bill{Currency: "KRW", ListIn: "USD", Rate: decimal.NewFromInt(1200)}, "USD", 1200},
		"at the rate of today":             {"EUR", hearth.Bill{Currency: "KRW", ListIn: "USD", Rate: decimal.NewFromInt(1200)}, "EUR", 1500},
		"of an own slot":                   {"USD", hearth.Bill{Currency: "KRW", ListIn: "KRW", Rate: decimal.NewFromInt(1)}, "USD", 1390},
		"of another currency":              {"USD", hearth.Bill{Currency: "JPY", ListIn: "JPY", Rate: decimal.NewFromInt(1)}, "JPY", 0},
		"of another, shown in the present": {"", hearth.Bill{Currency: "JPY", ListIn: "USD", Rate: decimal.NewFromInt(150)}, "JPY", 0},
		"of another, at its own rate":      {"USD", hearth.Bill{Currency: "JPY", ListIn: "USD", Rate: decimal.NewFromInt(150)}, "USD", 150},
	} {
		if got := s.shownBy(&hearth.Key{Currency: tc.key}, &tc.bill); got.Currency != tc.want || !got.Rate.Equal(decimal.NewFromInt(tc.rate)) {
			t.Errorf("%s: %+v, want %s at %d", name, got, tc.want, tc.rate)
		}
	}
}
