package dialect

import (
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

func billed() (hearth.Usage, hearth.Bill) {
	return hearth.Usage{PromptTokens: 12_000, CompletionTokens: 1_200, CachedTokens: 8_000, CacheWriteTokens: 1_000, ReasoningTokens: 700, Reported: true},
		hearth.Bill{
			Cost: 48_382_425_000, PromptCost: 22_111_425_000, CompletionCost: 26_271_000_000, Currency: "KRW", ListIn: "USD",
			Upstream: decimal.RequireFromString("0.03315"), Rate: decimal.NewFromInt(1390), Margin: decimal.RequireFromString("0.05"),
		}
}

// BenchmarkAppendUsage is what the usage object costs, in the billing currency and converted.
func BenchmarkAppendUsage(b *testing.B) {
	u, bill := billed()
	for name, shown := range map[string]hearth.Money{
		"billing currency": {Currency: "KRW"}, "shown currency": {Currency: "USD", Rate: decimal.RequireFromString("1390.25")},
	} {
		b.Run(name, func(b *testing.B) {
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out = AppendUsage(out[:0], u, bill, shown)
			}
		})
	}
}

// Nothing is allocated, in the billing currency or converted.
func TestAppendUsage_Allocations(t *testing.T) {
	u, bill := billed()
	out := make([]byte, 0, 2048)
	for _, shown := range []hearth.Money{{Currency: "KRW"}, {Currency: "USD", Rate: decimal.RequireFromString("1390.25")}} {
		if n := testing.AllocsPerRun(100, func() { out = AppendUsage(out[:0], u, bill, shown) }); n > 0 {
			t.Errorf("%s: %v allocations, want none", shown.Currency, n)
		}
	}
}

// Amounts are converted; what the bill was reckoned with is not.
func TestAppendUsage_Shown(t *testing.T) {
	u, bill := billed()
	bill.Tariff = "above 10000"
	for name, tc := range map[string]struct {
		shown hearth.Money
		want  string
	}{
		"billing": {hearth.Money{Currency: "KRW"}, `"cost":48.382425,"is_byok":false,"cost_details":{"currency":"KRW","upstream_inference_cost":48.382425,"upstream_inference_prompt_cost":22.111425,"upstream_inference_completions_cost":26.271,`},
		"dollars": {hearth.Money{Currency: "USD", Rate: bill.Rate}, `"cost":0.0348075,"is_byok":false,"cost_details":{"currency":"USD","upstream_inference_cost":0.0348075,"upstream_inference_prompt_cost":0.0159075,"upstream_inference_completions_cost":0.0189,`},
		"euros":   {hearth.Money{Currency: "EUR", Rate: decimal.NewFromInt(1500)}, `"cost":0.03225495,"is_byok":false,"cost_details":{"currency":"EUR","upstream_inference_cost":0.03225495,"upstream_inference_prompt_cost":0.01474095,"upstream_inference_completions_cost":0.017514,`},
	} {
		const head = `{"prompt_tokens":12000,"completion_tokens":1200,"total_tokens":13200,"prompt_tokens_details":{"cached_tokens":8000,"cache_write_tokens":1000,"audio_tokens":0,"video_tokens":0},"completion_tokens_details":{"reasoning_tokens":700,"image_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":null,"rejected_prediction_tokens":null},`
		const tail = `"provider_cost":0.03315,"provider_currency":"USD","exchange_rate":1390,"margin":0.05,"tariff":"above 10000"}}`
		if got := string(AppendUsage(nil, u, bill, tc.shown)); got != head+tc.want+tail {
			t.Errorf("%s: %s, want %s", name, got, head+tc.want+tail)
		}
	}
	if got := string(AppendUsage(nil, hearth.Usage{}, hearth.Bill{Currency: "KRW", Reported: true}, hearth.Money{})); !strings.HasSuffix(got, `"currency":"KRW","upstream_inference_cost":0,"upstream_inference_prompt_cost":0,"upstream_inference_completions_cost":0,"provider_cost":0,"provider_currency":"KRW","exchange_rate":1,"margin":0,"price_reported":true}}`) {
		t.Errorf("of nothing: %s", got)
	}
}
