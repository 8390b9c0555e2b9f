package hearth

import (
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// AppendDecimal writes what String writes, whatever the number.
func TestAppendDecimal(t *testing.T) {
	for _, d := range []decimal.Decimal{{}, decimal.New(0, -3), decimal.New(-0, 5), decimal.New(1, 18), decimal.New(-10, -1), decimal.New(-1, -18), decimal.New(1, -19)} {
		if got := string(AppendDecimal(nil, d)); got != d.String() {
			t.Errorf("%s, want %s", got, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := decimal.New(rapid.Int64().Draw(t, "coefficient"), rapid.Int32Range(-25, 25).Draw(t, "exponent"))
		if rapid.Bool().Draw(t, "long") {
			d = d.Mul(decimal.New(rapid.Int64().Draw(t, "factor"), 0))
		}
		if got := string(AppendDecimal([]byte("x"), d)); got != "x"+d.String() {
			t.Errorf("%s, want x%s", got, d)
		}
	})
}

func TestAppendDecimal_Allocations(t *testing.T) {
	b, d := make([]byte, 0, 64), decimal.New(-123_456_789, -5)
	if n := testing.AllocsPerRun(100, func() { b = AppendDecimal(b[:0], d) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
