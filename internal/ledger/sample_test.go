package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// sample is a generation as the local slot answers one.
func sample(id string) *hearth.Generation {
	list := hearth.Price{Prompt: decimal.NewFromInt(30), Completion: decimal.NewFromInt(150)}
	return &hearth.Generation{
		ID: id, KeyID: "key-01KB8Z0M5T2E7P6Q4R3S1V9WXY", APIType: "completions", Streamed: true,
		CreatedAt: time.Date(2025, 11, 30, 1, 2, 3, 456789000, time.FixedZone("KST", 9*3600)),
		Requested: []string{"google/gemma-4-26b-a4b"}, Estimate: 1200, Images: 3,
		Attempts: []hearth.Attempt{{
			Model: "google/gemma-4-26b-a4b", Provider: "Local GPU", Slug: "local-gpu",
			Endpoint: "local-gpu/gpu-1:google/gemma-4-26b-a4b", Status: 200, Latency: 12_345_678, Verdict: hearth.Served,
		}},
		Model: "google/gemma-4-26b-a4b", Slug: "local-gpu", Provider: "Local GPU",
		Endpoint: "local-gpu/gpu-1:google/gemma-4-26b-a4b", UpstreamID: "chatcmpl-0123456789",
		FinishReason: "stop", NativeFinish: "stop",
		Usage: hearth.Usage{PromptTokens: 1000, CompletionTokens: 100, Reported: true},
		Bill: hearth.Bill{
			Cost: 45_000_000, PromptCost: 30_000_000, CompletionCost: 15_000_000, Currency: "KRW",
			List: &list, ListIn: "KRW", Rate: decimal.NewFromInt(1), Upstream: decimal.New(45, -3),
		},
		HTTP: 200, FirstToken: 12_345_678, Duration: 99_999_999, Generating: 99_000_000, UserAgent: "curl/8.5.0",
	}
}

// tiered is a sample whose tier of n candidates was ordered.
func tiered(n int) *hearth.Generation {
	g := sample("gen-01KB8Z0M5T2E7P6Q4R3S1V9WXY")
	t := hearth.Routed{Model: g.Model, Priority: 50, Endpoint: "acme:" + g.Model, Reason: "share", Share: .61803, Kappa: .85, Snapshot: 4711}
	for range n {
		t.Candidates = append(t.Candidates, hearth.RoutedTerms{
			Endpoint: "acme:" + g.Model, Share: .123456, Price: .00123456, Wait: .000345678, Decode: .000765432, Failed: .0000234567, Total: .002345678,
			TTFT: 1.234567, Rest: 12.34567, Tries: 1.023456, InFlight: 3, Errors: .0123456, Limits: .00345678, BadTools: .0101, Fixed: .00001234,
			List: .0013, State: "closed",
		})
	}
	if n > 0 {
		g.Routing = []hearth.Routed{t}
	}
	return g
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{0, 2, 5, 16} {
		b.Run(fmt.Sprintf("candidates=%d", n), func(b *testing.B) {
			g, size := tiered(n), 0
			b.ReportAllocs()
			for b.Loop() {
				record, err := encode(g)
				if err != nil {
					b.Fatal(err)
				}
				size = len(record)
			}
			b.ReportMetric(float64(size), "B/record")
		})
	}
}
