package dialect

import "testing"

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
