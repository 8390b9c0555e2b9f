package dialect

import (
	"strings"
	"testing"
)

func TestAppendChunk_size(t *testing.T) {
	for _, c := range []struct {
		name, in     string
		size, choice int
	}{
		{"text", `{"choices":[{"index":0,"delta":{"content":"four"}}]}`, 4, 0},
		{"text and reasoning", `{"choices":[{"index":0,"delta":{"content":"four","reasoning":"five5"}}]}`, 9, 0},
		{"empty text", `{"choices":[{"index":0,"delta":{"content":""}}]}`, 0, 0},
		{"what stands around it does not count", `{"choices":[{"index":0,"delta":{"content":"four"},"logprobs":{"content":[{"token":"four","logprob":-1}]}}],"usage":{"prompt_tokens":3}}`, 4, 0},
		{"two choices", `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":3,"delta":{"content":"b"}}]}`, 2, 3},
		{"a number past the bound", `{"choices":[{"index":900000000000,"delta":{"content":"a"}}]}`, 1, maxChoices - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got, err := stamp().AppendChunk(nil, []byte(c.in))
			if err != nil || got.Size != c.size || got.Choice != c.choice {
				t.Errorf("Size %d, Choice %d, %v; want %d, %d", got.Size, got.Choice, err, c.size, c.choice)
			}
		})
	}
	t.Run("arguments of a tool call count", func(t *testing.T) {
		_, got, err := stamp().AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"0123456789"}}]}}]}`))
		if err != nil || got.Size < 10 {
			t.Errorf("Size %d, %v", got.Size, err)
		}
	})
}

// TestEstimate_CountsWhatTheModelReads: messages, tools and the response format, wherever they stand, and nothing beside.
func TestEstimate_CountsWhatTheModelReads(t *testing.T) {
	size := func(body string) int {
		c, err := DecodeChat([]byte(body), bytesCount)
		if err != nil {
			t.Fatal(err)
		}
		return c.Estimate
	}
	const tools, format = `"tools":[{"type":"function","function":{"name":"f"}}]`, `"response_format":{"type":"json_object"}`
	bare, full := size(`{`+msgs+`}`), size(`{`+msgs+`,`+tools+`,`+format+`}`)
	beside := `"x":"` + strings.Repeat("x", 5000) + `","metadata":{"a":"` + strings.Repeat("m", 500) + `"}`
	if got := size(`{` + beside + ` , ` + msgs + `}`); got != bare {
		t.Errorf("%d tokens with other keys before the messages, %d without", got, bare)
	}
	if got := size(`{` + format + `,` + beside + `, ` + tools + `,` + msgs + `}`); got != full || full <= bare+len(tools)-len(`"tools":`) {
		t.Errorf("%d tokens in another order, %d before, %d without tools", got, full, bare)
	}
}
