package meter

import (
	"os"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

// TestDocs_WorkedBill computes the bill that docs/money.md works out.
func TestDocs_WorkedBill(t *testing.T) {
	b, err := os.ReadFile("../../docs/money.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	u := hearth.Usage{PromptTokens: 12_000, CachedTokens: 8_000, CacheWriteTokens: 1_000, CompletionTokens: 1_200, ReasoningTokens: 700, Reported: true}
	abroad := endpoint("USD", "1390", "0.05", hearth.Price{
		Prompt: dec("3"), CacheRead: dec("0.3"), CacheWrite: dec("3.75"), Completion: dec("15"), Reasoning: dec("15"),
	})
	bill, err := Settle(abroad, u, Outcome{Currency: "KRW", Finish: "stop"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := Settle(endpoint("KRW", "1", "0", simple("30", "150")), u, Outcome{Currency: "KRW", Finish: "stop"})
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"| the provider's own cost | | | " + bill.Upstream.String() + " |",
		bill.Upstream.String() + " × 1390 × 1.05 = **" + bill.Cost.String() + "** KRW: " + bill.PromptCost.String() + " of it for the prompt and " + bill.CompletionCost.String(),
		"per 1,000,000: **" + own.Cost.String() + "** KRW",
	} {
		if !strings.Contains(page, says) {
			t.Errorf("docs/money.md does not say %q", says)
		}
	}
}
