package engine

import "testing"

// TestEngine_running: an engine that is asked for counts on the way gives them with each piece, in vLLM's way or
// llama-server's.
func TestEngine_running(t *testing.T) {
	c := client{t: t, base: serveOn(t, New(Config{Model: "google/gemma-4-26b-a4b", Context: 4096}))}
	for _, tt := range []struct {
		name, ask      string
		usage, timings bool
	}{
		{"not asked", `"stream_options":{"include_usage":true}`, false, false},
		{"usage", `"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, true, false},
		{"usage without an end", `"stream_options":{"continuous_usage_stats":true}`, false, false},
		{"timings", `"timings_per_token":true`, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, s := c.stream("/v1/chat/completions", chatBody(`"stream":true,"max_tokens":4,`+tt.ask))
			for i, d := range s.chunks[:5] { // a role and four tokens
				if (d.Usage != nil) != tt.usage || (d.Timings != nil) != tt.timings {
					t.Fatalf("chunk %d: %+v", i, d)
				}
				if tt.usage && (d.Usage.Completion != i || d.Usage.Total != i+d.Usage.Prompt) || tt.timings && d.Timings.PredictedN != i {
					t.Errorf("chunk %d counts %+v, %+v", i, d.Usage, d.Timings)
				}
			}
		})
	}
}
