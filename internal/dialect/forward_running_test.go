package dialect

import (
	"testing"

	"myip.co.kr/hearth"
)

// TestAppendForward_running: an engine is asked for running counts in its own way, whatever the caller says of them, and
// nobody else is.
func TestAppendForward_running(t *testing.T) {
	const asks = `"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":false,"x":1},"timings_per_token":false`
	for _, tt := range []struct{ name, body, want string }{
		{"vllm", `"stream":true`, `"stream":true,"model":"up","stream_options":{"include_usage":true,"continuous_usage_stats":true}`},
		{"vllm", asks, `"stream":true,"stream_options":{"include_usage":true,"x":1,"continuous_usage_stats":true},"timings_per_token":false,"model":"up"`},
		{"vllm", `"stream":true,"stream_options":null`, `"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"model":"up"`},
		{"vllm", `"stream":false`, `"stream":false,"model":"up"`},
		{"sglang", `"stream":true`, `"stream":true,"model":"up","stream_options":{"include_usage":true,"continuous_usage_stats":true}`},
		{"llama-server", `"stream":true`, `"stream":true,"model":"up","stream_options":{"include_usage":true},"timings_per_token":true`},
		{"llama-server", asks, `"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":true,"x":1},"model":"up","timings_per_token":true`},
		{"llama-server", `"timings_per_token":false`, `"timings_per_token":false,"model":"up"`},
		{"ollama", `"stream":true`, `"stream":true,"model":"up","stream_options":{"include_usage":true}`},
		{"", asks, `"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":true,"x":1},"timings_per_token":false,"model":"up"`},
	} {
		t.Run(tt.name+" "+tt.body, func(t *testing.T) {
			e, _ := hearth.EngineOf(tt.name)
			c, err := DecodeChat([]byte(`{`+msgs+`,`+tt.body+`}`), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			got := string(c.AppendForward(nil, Target{Model: "up", StreamUsage: true, Running: e.Running}))
			if want := `{` + msgs + `,` + tt.want + `}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	t.Run("an upstream that refuses stream_options is not asked in them", func(t *testing.T) {
		c, err := DecodeChat([]byte(`{`+msgs+`,`+asks+`}`), bytesCount)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []hearth.Running{hearth.RunningUsage, hearth.RunningTimings} {
			got := string(c.AppendForward(nil, Target{Model: "up", Running: way}))
			if want := `{` + msgs + `,"stream":true,"timings_per_token":false,"model":"up"}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

// TestDecodeChat_running: only who asks for running counts is told them.
func TestDecodeChat_running(t *testing.T) {
	for body, want := range map[string][2]bool{
		`"stream_options":{"continuous_usage_stats":true}`:                           {true, false},
		`"stream_options":{"include_usage":true,"\u0063ontinuous_usage_stats":true}`: {true, false},
		`"timings_per_token":true`:                                                   {false, true},
		`"timings_per_token":null`:                                                   {},
		`"timings_per_token":{"a":true}`:                                             {},
		`"stream_options":{"continuous_usage_stats":1}`:                              {},
		`"stream_options":{"include_usage":true}`:                                    {},
		`"x":{"continuous_usage_stats":true}`:                                        {},
		`"stream_options":null,"timings_per_token":false`:                            {},
	} {
		t.Run(body, func(t *testing.T) {
			c, err := DecodeChat([]byte(`{`+msgs+`,`+body+`}`), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			if got := [2]bool{c.RunningUsage, c.Timings}; got != want {
				t.Errorf("usage and timings asked for: %v", got)
			}
		})
	}
}
