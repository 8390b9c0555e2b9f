package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// TestDecode_OldPrices: price lists of earlier versions' records are read, whose names began with capitals.
func TestDecode_OldPrices(t *testing.T) {
	d := decimal.RequireFromString
	want := hearth.Price{
		Prompt: d("0.1"), Completion: d("0.4"), CacheRead: d("0.01"), CacheWrite: d("0.125"), Reasoning: d("0.5"), Image: d("0.002"), Request: d("0.003"),
	}
	for name, list := range map[string]string{
		"old": `{"Prompt":"0.1","Completion":"0.4","CacheRead":"0.01","CacheWrite":"0.125","Reasoning":"0.5","Image":"0.002","Request":"0.003"}`,
		"new": `{"prompt":"0.1","completion":"0.4","cache_read":"0.01","cache_write":"0.125","reasoning":"0.5","image":"0.002","request":"0.003"}`,
	} {
		g, err := decode([]byte(`{"id":"gen-1","bill":{"cost":1,"currency":"USD","list":` + list + `,"list_currency":"USD"}}`))
		if err != nil || g.Bill.List == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, *g.Bill.List, cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
