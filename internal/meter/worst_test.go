package meter

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func TestWorst(t *testing.T) {
	for name, tc := range map[string]struct {
		price                               hearth.Price
		prompt, choices, completion, images int
		want                                hearth.Nano
	}{
		"prompt and completion":            {simple("30", "150"), 1000, 1, 100, 0, 45_000_000},
		"the write price where it is more": {hearth.Price{Prompt: dec("1"), CacheRead: dec("0.1"), CacheWrite: dec("1.25")}, 1_000_000, 1, 0, 0, 1_250_000_000},
		"reasoning where it is dearer":     {hearth.Price{Completion: dec("2"), Reasoning: dec("3")}, 0, 1, 1_000_000, 0, 3_000_000_000},
		"images and the request":           {hearth.Price{Image: dec("0.5"), Request: dec("0.25")}, 0, 1, 0, 3, 1_750_000_000},
		"a rest is rounded up":             {simple("0.0001", "0"), 1, 1, 0, 0, 1},
		"nothing":                          {simple("0", "0"), 1000, 1, 1000, 2, 0},
		"each choice, and the prompt once": {simple("30", "150"), 1000, 4, 100, 0, 90_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Worst(endpoint("KRW", "1", "0", tc.price), time.Time{}, tc.prompt, tc.choices, tc.completion, tc.images)
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
	t.Run("more than money can say", func(t *testing.T) {
		if _, err := Worst(endpoint("KRW", "1", "0", simple("1e15", "0")), time.Time{}, math.MaxInt32, 1, 0, 0); !errors.Is(err, hearth.ErrMoneyRange) {
			t.Errorf("error %v", err)
		}
	})
}

// No answer within the counts that were held back for costs more than what was held back.
func TestWorst_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := func(name string) decimal.Decimal {
			return decimal.New(rapid.Int64Range(0, 100_000).Draw(t, name), -int32(rapid.IntRange(0, 8).Draw(t, name+" scale")))
		}
		e := endpoint("USD", "1391.5", "0.055", hearth.Price{
			Prompt: price("prompt"), CacheRead: price("read"), CacheWrite: price("write"),
			Completion: price("completion"), Reasoning: price("reasoning"), Image: price("image"), Request: price("request"),
		})
		n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		prompt, choices, completion, images := n("prompt tokens", 100_000), 1+n("further choices", 3), n("cap", 100_000), n("images", 8)
		u := hearth.Usage{Reported: true, PromptTokens: int64(n("used", prompt)), CompletionTokens: int64(n("made", choices*completion))}
		u.CachedTokens = int64(n("cached", int(u.PromptTokens)))
		u.CacheWriteTokens = int64(n("written", int(u.PromptTokens-u.CachedTokens)))
		u.ReasoningTokens = int64(n("reasoned", int(u.CompletionTokens)))
		worst, err := Worst(e, time.Time{}, prompt, choices, completion, images)
		if err != nil {
			t.Fatal(err)
		}
		bill, err := Settle(e, u, Outcome{Currency: "KRW", Finish: "stop", Images: images})
		if err != nil || bill.Cost > worst {
			t.Fatalf("cost %v of at most %v, %v", bill.Cost, worst, err)
		}
	})
}

// BenchmarkWorst is what a request under a spend limit pays for each candidate.
func BenchmarkWorst(b *testing.B) {
	e := endpoint("USD", "1391.5", "0.055", simple("0.15", "0.6"))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := Worst(e, time.Time{}, 1234, 1, 500, 0); err != nil || n == 0 {
			b.Fatal(n, err)
		}
	}
}
