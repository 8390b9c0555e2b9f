package hearth_test

import (
	"math"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func TestNanoFromDecimal(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want string
	}{
		"exact":                           {"0.045", "0.045"},
		"half goes to the even neighbour": {"0.0000000005", "0"},
		"half goes up to an even one":     {"0.0000000015", "0.000000002"},
		"above half goes up":              {"0.00000000050001", "0.000000001"},
		"negative half to even":           {"-0.0000000025", "-0.000000002"},
		"whole":                           {"1390", "1390"},
		"the largest":                     {"9223372036.854775807", "9223372036.854775807"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := hearth.NanoFromDecimal(decimal.RequireFromString(tc.in))
			if err != nil || n.String() != tc.want {
				t.Errorf("%s became %s, %v; want %s", tc.in, n, err, tc.want)
			}
		})
	}
	for _, big := range []string{"9223372036.854775808", "-9223372037", "1e30"} {
		if n, err := hearth.NanoFromDecimal(decimal.RequireFromString(big)); err == nil {
			t.Errorf("%s was accepted as %s", big, n)
		}
	}
}

func TestNanoAdd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := hearth.Nano(rapid.Int64().Draw(rt, "a")), hearth.Nano(rapid.Int64().Draw(rt, "b"))
		sum, err := a.Add(b)
		exact := a.Decimal().Add(b.Decimal())
		if fits := exact.Shift(9).BigInt().IsInt64(); fits != (err == nil) {
			rt.Fatalf("%s + %s: error %v, fits %v", a, b, err, fits)
		}
		if err == nil && !sum.Decimal().Equal(exact) {
			rt.Fatalf("%s + %s = %s", a, b, sum)
		}
	})
}

// An amount is written as a plain decimal number and reads back as itself.
func TestNanoJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := hearth.Nano(rapid.Int64().Draw(rt, "n"))
		b, err := n.MarshalJSON()
		if err != nil {
			rt.Fatal(err)
		}
		s := string(b)
		if strings.ContainsAny(s, "eE") || strings.Contains(s, ".") && strings.HasSuffix(s, "0") {
			rt.Fatalf("written as %s", s)
		}
		if !decimal.RequireFromString(s).Equal(n.Decimal()) {
			rt.Fatalf("%d written as %s", int64(n), s)
		}
		var back hearth.Nano
		if err := back.UnmarshalJSON(b); err != nil || back != n {
			rt.Fatalf("%s reads back as %s, %v", s, back, err)
		}
	})
	var n hearth.Nano
	for _, bad := range []string{"0.0000000001", "1e20", `"x"`, ""} {
		if err := n.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s was read as %s", bad, n)
		}
	}
}

func TestUsageValid(t *testing.T) {
	for name, tc := range map[string]struct {
		u  hearth.Usage
		ok bool
	}{
		"plain":                         {hearth.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 4, CacheWriteTokens: 6, ReasoningTokens: 5}, true},
		"negative":                      {hearth.Usage{PromptTokens: -1}, false},
		"more cached than there is":     {hearth.Usage{PromptTokens: 10, CachedTokens: 6, CacheWriteTokens: 5}, false},
		"more reasoning than there is":  {hearth.Usage{CompletionTokens: 1, ReasoningTokens: 2}, false},
		"so many that sums would break": {hearth.Usage{PromptTokens: math.MaxInt64}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.u.Valid() != tc.ok {
				t.Errorf("%+v: valid %v", tc.u, !tc.ok)
			}
		})
	}
}
