package dialect

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// TestAppendChunk_running says of each chunk what its usage is: a count on the way, or the last word.
func TestAppendChunk_running(t *testing.T) {
	const (
		word   = `"choices":[{"index":0,"delta":{"content":"a"}}]`
		empty  = `"choices":[{"index":0,"delta":{}}]`
		finish = `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`
		used   = `,"usage":{"prompt_tokens":5,"completion_tokens":1}`
		timed  = `,"timings":{"prompt_n":5,"predicted_n":1}`
	)
	for _, tt := range []struct {
		name    string
		asked   hearth.Running
		chunks  []string
		running []bool
	}{
		{"asked for", hearth.RunningUsage, []string{empty + used, word + used, empty + used, finish + used, `"choices":[]` + used}, []bool{true, true, true, false, false}},
		{"not asked for, a second time", hearth.RunningNot, []string{word + used, empty + used, finish + used}, []bool{false, true, false}},
		{"at the end without a finish reason", hearth.RunningNot, []string{word, empty + used}, []bool{false, false}},
		{"timings", hearth.RunningTimings, []string{empty + timed, finish + timed, `"choices":[]` + used + timed}, []bool{true, false, false}},
		{"timings that nobody asked for", hearth.RunningNot, []string{empty + timed, finish + timed}, []bool{true, false}},
		{"usage after timings", hearth.RunningNot, []string{word + timed, empty + used}, []bool{true, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stamp()
			s.Running = tt.asked
			for i, in := range tt.chunks {
				_, c, err := s.AppendChunk(nil, []byte("{"+in+"}"))
				if err != nil || c.Running != tt.running[i] {
					t.Errorf("%s: running %v, %v", in, c.Running, err)
				}
			}
		})
	}
}

// TestAppendChunk_asked: who asked for running counts gets them, once in a chunk, and no others.
func TestAppendChunk_asked(t *testing.T) {
	const choices = `"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"created":1`
	const timed = `"timings":{"prompt_n":5,"predicted_n":1,"x":[1.0]}`
	for _, tt := range []struct {
		name           string
		usage, timings bool
		in, want       string
	}{
		{"usage", true, false, `{"usage":{"prompt_tokens":5,"completion_tokens":2,"cost":9},` + choices + `,` + timed + `}`,
			chunkHead + `,"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2},` + choices + `}`},
		{"usage twice", true, false, `{` + choices + `,"usage":{"prompt_tokens":5,"completion_tokens":2},"usage":{"prompt_tokens":6,"completion_tokens":2}}`,
			chunkHead + `,` + choices + `,"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}`},
		{"usage that is none", true, false, `{` + choices + `,"usage":null}`, chunkHead + `,` + choices + `}`},
		{"timings", false, true, `{` + choices + `,` + timed + `,"usage":{"prompt_tokens":5,"completion_tokens":2}}`, chunkHead + `,` + choices + `,` + timed + `}`},
		{"neither", false, false, `{` + choices + `,` + timed + `,"usage":{"prompt_tokens":5,"completion_tokens":2}}`, chunkHead + `,` + choices + `}`},
		{"the last chunk is ours", true, true, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2},` + timed + `}`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stamp()
			s.PassUsage, s.PassTimings = tt.usage, tt.timings
			got, c, err := s.AppendChunk(nil, []byte(tt.in))
			if string(got) != tt.want || err != nil || c.Skip != (tt.want == "") {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, tt.want)
			}
		})
	}
}

// TestAppendChunk_choices: whatever the order in which the choices of an answer come, a running count is the sum of what
// was last said of each.
func TestAppendChunk_choices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "choices")
		made, sum := make([]int64, n), int64(0)
		s := stamp()
		s.Running = hearth.RunningUsage
		for range rapid.IntRange(1, 40).Draw(t, "chunks") {
			i := rapid.IntRange(0, n-1).Draw(t, "choice")
			more := rapid.Int64Range(0, 9).Draw(t, "more")
			made[i] += more
			sum += more
			in := fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":%d,"completion_tokens_details":{"reasoning_tokens":%d}}}`, i, made[i], made[i])
			_, c, err := s.AppendChunk(nil, []byte(in))
			if err != nil || c.Usage != (hearth.Usage{PromptTokens: 7, CompletionTokens: sum, ReasoningTokens: sum, Reported: true}) {
				t.Fatalf("%v: %+v, want %d", err, c.Usage, sum)
			}
		}
		_, c, err := s.AppendChunk(nil, []byte(`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}`))
		if err != nil || c.Usage.CompletionTokens != 3 || c.Running {
			t.Fatalf("%v: the last count does not win: %+v", err, c.Usage)
		}
	})
}
