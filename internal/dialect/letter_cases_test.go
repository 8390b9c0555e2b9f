package dialect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// TestAnswers_cases are sentences of the contract that speak of one thing an upstream does.
func TestAnswers_cases(t *testing.T) {
	const call = `{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`
	for _, tt := range []struct {
		name     string
		stream   []string // choices of chunks; nil = only the whole answer is looked at
		want     string   // stands in what the caller gets
		not      string   // does not
		whole    string   // the choice of a whole answer
		wantWhat string   // stands in that answer
	}{
		{name: "an id used twice under two numbers is two calls",
			stream: []string{`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"f","function":{"name":"f","arguments":"{}"}}]}}`, `{"index":0,"delta":{"tool_calls":[{"index":1,"id":"f","function":{"name":"f","arguments":"{}"}}]}}`},
			want:   `{"id":"f","function":{"name":"f","arguments":"{}"},"index":1,"type":"function"}`},
		{name: "arguments are a string whatever they came as",
			stream: []string{`{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":[1,"b"]}}]}}`}, want: `"arguments":"[1,\"b\"]"`,
			whole: `{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":7}}]}}`, wantWhat: `"arguments":"7"`},
		{name: "no arguments, and a stream that ends without a finish reason",
			stream: []string{`{"index":0,"delta":{"tool_calls":[` + call + `]}}`},
			want:   `"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls","native_finish_reason":null}],"usage"`},
		{name: "no arguments, filled in once only",
			stream: []string{`{"index":0,"delta":{"tool_calls":[` + call + `]}}`, `{"index":0,"delta":{},"finish_reason":"stop"}`},
			want:   `"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls","native_finish_reason":"stop"}],"usage"`},
		{name: "no arguments, and blanks in the delta that ends the stream",
			stream: []string{`{"index":0,"delta":{"tool_calls":[` + call + `]}}`, `{"index":0,"delta": { } ,"finish_reason":"stop"}`},
			want:   `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"`},
		{name: "stop after tool calls, the upstream's word is kept",
			stream: []string{`{"index":0,"delta":{"tool_calls":[` + call + `]}}`, `{"index":0,"delta":{},"finish_reason":"end_turn"}`}, want: `"finish_reason":"tool_calls","native_finish_reason":"end_turn"`,
			whole: `{"message":{"tool_calls":[` + call + `]},"finish_reason":"stop"}`, wantWhat: `"finish_reason":"tool_calls","native_finish_reason":"stop"`},
		{name: "a null finish reason of a whole answer after tool calls", whole: `{"message":{"tool_calls":[` + call + `]},"finish_reason":null}`, wantWhat: `"finish_reason":"tool_calls","native_finish_reason":null`},
		{name: "the word null is no finish reason", stream: []string{`{"index":0,"delta":{"content":"a"},"finish_reason":"null"}`}, want: `"delta":{"content":"a"},"finish_reason":null}`,
			whole: `{"message":{"content":"a"},"finish_reason":"null"}`, wantWhat: `"finish_reason":"stop","native_finish_reason":null`},
		{name: "the finish reason of the older function calls", stream: []string{`{"index":0,"delta":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}`}, want: `"finish_reason":"tool_calls","native_finish_reason":"function_call"`,
			whole: `{"message":{"content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}`, wantWhat: `"finish_reason":"tool_calls","native_finish_reason":"function_call"`},
		{name: "a native finish reason without another", whole: `{"message":{"content":"a"},"native_finish_reason":"STOP"}`, wantWhat: `"finish_reason":"stop","native_finish_reason":"STOP"`},
		{name: "a word nobody knows", stream: []string{`{"index":0,"delta":{},"finish_reason":"BECAUSE"}`}, want: `"finish_reason":"stop","native_finish_reason":"BECAUSE"`},
		{name: "tool calls that are null or none", stream: []string{`{"index":0,"delta":{"content":"a","tool_calls":null}}`, `{"index":0,"delta":{"content":"a","tool_calls":[]}}`}, not: `tool_calls`,
			whole: `{"message":{"content":"a","tool_calls":null}}`, wantWhat: `"message":{"role":"assistant","content":"a","refusal":null}`},
		{name: "content that is null beside tool calls stays null", whole: `{"message":{"content":null,"tool_calls":[` + call + `]}}`, wantWhat: `"message":{"role":"assistant","content":null,"tool_calls":[{`},
		{name: "a refusal", stream: []string{`{"index":0,"delta":{"refusal":"no"}}`}, want: `"delta":{"refusal":"no"}`,
			whole: `{"message":{"content":null,"refusal":"no"}}`, wantWhat: `"content":null,"refusal":"no"}`},
		{name: "annotations, audio and images", stream: []string{`{"index":0,"delta":{"annotations":[{"type":"url_citation"}],"audio":{"id":"x"},"images":[{"image_url":{"url":"data:,"}}]}}`},
			want:  `"delta":{"annotations":[{"type":"url_citation"}],"audio":{"id":"x"},"images":[{"image_url":{"url":"data:,"}}]}`,
			whole: `{"message":{"content":"a","annotations":[{"type":"url_citation"}],"audio":{"id":"x"}}}`, wantWhat: `"content":"a","annotations":[{"type":"url_citation"}],"audio":{"id":"x"},"refusal":null}`},
		{name: "reasoning in its own words", stream: []string{`{"index":0,"delta":{"reasoning":"h\u006d","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"}]}}`},
			want: `"delta":{"reasoning":"h\u006d","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"}]}`},
		{name: "reasoning as text only", whole: `{"message":{"content":"a","reasoning_content":"h\u006d"}}`, wantWhat: `"reasoning_content":"h\u006d","refusal":null,"reasoning_details":[{"type":"reasoning.text","text":"h\u006d","format":"unknown","index":0}]}`},
		{name: "logprobs of the completions API", stream: []string{`{"index":0,"delta":{},"logprobs":{"tokens":["a"],"text_offset":[0]}}`}, want: `"logprobs":null`,
			whole: `{"message":{"content":"a"},"logprobs":{"text_offset":[0],"token_logprobs":[-1]}}`, wantWhat: `"logprobs":null`},
		{name: "logprobs as they should be", stream: []string{`{"index":0,"delta":{},"logprobs":{"content":[{"token":"token_logprobs","logprob":-1.50,"top_logprobs":[]}]}}`},
			want: `"logprobs":{"content":[{"token":"token_logprobs","logprob":-1.50,"top_logprobs":[]}]}`},
		{name: "content in parts: an image goes to the images", stream: []string{`{"index":0,"delta":{"content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:,"}},"!"]}}`},
			want:  `"delta":{"content":"see!","images":[{"type":"image_url","image_url":{"url":"data:,"}}]}`,
			whole: `{"message":{"content":[{"image_url":"https://a/b"}, {"text":"a"}]}}`, wantWhat: `"message":{"role":"assistant","content":"a","images":[{"image_url":"https://a/b"}],"refusal":null}`},
		{name: "content in parts: images on either side of it are all there", stream: []string{`{"index":0,"delta":{"images":[1],"tool_calls":[` + call + `],"content":[{"type":"image","a":2},{"type":"image","a":3}]},"finish_reason":"stop"}`},
			want:  `"delta":{"images":[1,{"type":"image","a":2},{"type":"image","a":3}],"tool_calls":[` + `{"id":"a","type":"function","function":{"name":"f","arguments":""},"index":0}` + `,{"index":0,"function":{"arguments":"{}"}}],"content":""}`,
			whole: `{"message":{"content":[{"type":"image","a":2}],"images":[ ]}}`, wantWhat: `"content":"","images":[{"type":"image","a":2}],"refusal":null`},
		{name: "content in parts: a refusal is said, what is neither is left out", stream: []string{`{"index":0,"delta":{"content":[{"type":"refusal","refusal":"no"},{"type":"reference","reference_ids":[1]},7,null,[{"text":"x"}]]}}`}, want: `"delta":{"content":"no"}`},
		{name: "content in parts: its thoughts take the place of an empty reasoning", stream: []string{`{"index":0,"delta":{"reasoning":null,"tool_calls":[` + call + `],"images":[1],"content":[{"thinking":"hm"},{"type":"image"}]},"finish_reason":"stop"}`},
			want:  `"delta":{"reasoning":"hm","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""},"index":0},{"index":0,"function":{"arguments":"{}"}}],"images":[1,{"type":"image"}],"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm"`,
			whole: `{"message":{"reasoning":"","content":[{"thinking":"hm"}],"reasoning_details":{}}}`, wantWhat: `"message":{"role":"assistant","reasoning":"hm","content":"","reasoning_details":{},"refusal":null}`},
		{name: "content in parts: an image among thoughts is not shown", stream: []string{`{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"image_url","image_url":"x"},{"text":"hm"}]}]}}`}, not: `images`, want: `"content":""`},
		{name: "counts in a choice are not passed on", stream: []string{`{"index":0,"delta":{},"usage":{"prompt_tokens":1,"completion_tokens":2},"x":1}`}, want: `{"index":0,"delta":{},"x":1,"finish_reason":null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := streamed(t, tt.stream); !strings.Contains(got, tt.want) || tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("stream:\n got %s\nwant %s", got, tt.want)
			}
			if tt.whole == "" {
				return
			}
			a, err := ReadAnswer([]byte(`{"choices":[` + tt.whole + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(a.Append(nil, stamp(), hearth.Bill{})); !strings.Contains(got, tt.wantWhat) || !jsontext.Value(got).IsValid() {
				t.Errorf("whole:\n got %s\nwant %s", got, tt.wantWhat)
			}
		})
	}
}

// streamed is what the caller gets of chunks with these choices, and of the last one.
func streamed(t *testing.T, choices []string) string {
	t.Helper()
	s, all, end := stamp(), "", Chunk{}
	for _, c := range choices {
		b, c, err := s.AppendChunk(nil, []byte(`{"created":1,"choices":[`+c+`]}`))
		if err != nil || !jsontext.Value(b).IsValid() {
			t.Fatalf("%v %s", err, b)
		}
		all += string(b) + "\n"
		if c.Finish != "" {
			end = c
		}
	}
	last := s.AppendFinal(nil, end.Finish, end.Native, hearth.Usage{}, hearth.Bill{})
	if !jsontext.Value(last).IsValid() {
		t.Fatalf("%s", last)
	}
	return all + string(last)
}

// TestErrors_codes: whatever an upstream calls it, the code is a number.
func TestErrors_codes(t *testing.T) {
	for in, want := range map[string]int{
		`{"code":429,"message":"m"}`: 429, `{"code":"429","message":"m"}`: 429, `{"code":429.0,"message":"m"}`: 502,
		`{"code":"rate_limit_exceeded","message":"m"}`: 429, `{"type":"rate_limit_error","message":"m"}`: 429, `{"status":"RESOURCE_EXHAUSTED","message":"m"}`: 429,
		`{"code":"context_length_exceeded","type":"invalid_request_error","message":"m"}`: 400, `{"type":"exceed_context_size_error","message":"m"}`: 400,
		`{"code":"invalid_api_key","message":"m"}`: 401, `{"type":"overloaded_error","message":"m"}`: 503, `{"code":"server_error","message":"m"}`: 500,
		`{"code":"1305","message":"m"}`: 502, `{"code":null,"message":"m"}`: 502, `{"code":200,"message":"m"}`: 502, `{"code":{},"message":"m"}`: 502,
		`{"code":9e99,"message":"m"}`: 502, `{"code":-500,"message":"m"}`: 502, `"busy"`: 502, `[1]`: 502, `true`: 502,
	} {
		t.Run(in, func(t *testing.T) {
			_, c, err := stamp().AppendChunk(nil, []byte(`{"error":`+in+`}`))
			if err != nil || c.Err == nil || c.Err.Code != want {
				t.Errorf("%v %+v, want %d", err, c.Err, want)
			}
		})
	}
	t.Run("the words of an answer that has a status say nothing about it", func(t *testing.T) {
		for status, body := range map[int]string{
			http.StatusBadRequest:         `{"error":{"code":"rate_limit_exceeded","message":"m"}}`,
			http.StatusServiceUnavailable: `{"error":{"type":"invalid_request_error","message":"m"}}`,
		} {
			if e := ReadError(status, []byte(body)); e.Code != status {
				t.Errorf("%d became %d", status, e.Code)
			}
		}
	})
	t.Run("an error that is empty is none", func(t *testing.T) {
		for _, in := range []string{`null`, `""`, `{}`, `[]`, `false`} {
			_, c, err := stamp().AppendChunk(nil, []byte(`{"error":`+in+`,"choices":[{"index":0,"delta":{"content":"a"},"error":`+in+`}],"x_groq":{"error":`+in+`}}`))
			if err != nil || c.Err != nil || !c.Content {
				t.Errorf("%s: %v %+v", in, err, c)
			}
		}
	})
	t.Run("an error of Groq's that ends a stream", func(t *testing.T) {
		_, c, err := stamp().AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{}}],"x_groq":{"id":"r","error":"over capacity"}}`))
		if err != nil || !c.Skip || c.Err == nil || c.Err.Message != "over capacity" {
			t.Errorf("%v %+v", err, c)
		}
	})
}

// TestTimings: they are the counts of an answer only where nothing else is.
func TestTimings(t *testing.T) {
	const timed = `"timings":{"prompt_n":2,"cache_n":3,"predicted_n":4,"prompt_ms":1.5}`
	want := hearth.Usage{PromptTokens: 5, CachedTokens: 3, CompletionTokens: 4, Reported: true}
	told := hearth.Usage{PromptTokens: 8, CompletionTokens: 9, Reported: true}
	const usage = `,"usage":{"prompt_tokens":8,"completion_tokens":9}`
	for _, tt := range []struct {
		name   string
		chunks []string
		want   hearth.Usage
		passed bool
	}{
		{"at the end", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + timed + `}`}, want, false},
		{"in the middle", []string{`{"choices":[{"index":0,"delta":{"content":"a"}}],` + timed + `}`}, want, false},
		{"in the middle, after usage", []string{`{"choices":[{"index":0,"delta":{"content":"a"}}]` + usage + `}`, `{"choices":[{"index":0,"delta":{"content":"a"}}],` + timed + `}`}, told, false},
		{"beside usage", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + timed + usage + `}`}, told, false},
		{"after usage", []string{`{"choices":[]` + usage + `}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + timed + `}`}, told, false},
		{"before usage", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + timed + `}`, `{"choices":[]` + usage + `}`}, told, false},
		{"of another kind", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"total":1}}`}, hearth.Usage{}, true},
		{"not an object", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":[1]}`}, hearth.Usage{}, true},
		{"that cannot be", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"prompt_n":-1,"predicted_n":1}}`}, hearth.Usage{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, got, passed := stamp(), hearth.Usage{}, false
			for _, in := range tt.chunks {
				b, c, err := s.AppendChunk(nil, []byte(in))
				if err != nil {
					t.Fatal(err)
				}
				if c.Usage.Reported {
					got = c.Usage
				}
				passed = passed || strings.Contains(string(b), "timings")
			}
			if got != tt.want || passed != tt.passed {
				t.Errorf("%+v, passed on: %v", got, passed)
			}
		})
	}
}

// TestPictures_AreAnAnswer: content that holds nothing but an image is not empty.
func TestPictures_AreAnAnswer(t *testing.T) {
	const content = `{"content":[{"type":"image_url","image_url":{"url":"data:,"}}]}`
	_, c, err := stamp().AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":`+content+`}]}`))
	a, errWhole := ReadAnswer([]byte(`{"choices":[{"message":` + content + `}]}`))
	if err != nil || errWhole != nil || !c.Content || !a.Content {
		t.Errorf("%v %v: chunk %v, answer %v", err, errWhole, c, a)
	}
}
