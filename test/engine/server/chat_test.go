package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"myip.co.kr/hearth/test/engine/gguf"
)

const says = "I am tiny and one word follows another."

var wordsSaid = []string{"I am", " tiny", " and", " one", " word", " follows", " another."}

type answered struct {
	Model   string
	Choices []struct {
		Finish  *string `json:"finish_reason"`
		Message collected
		Delta   struct {
			Role      *string
			Content   *string
			Reasoning *string `json:"reasoning_content"`
			Calls     []call  `json:"tool_calls"`
		}
	}
	Usage   *usage
	Timings *timings
}

func TestWhole(t *testing.T) {
	p := serve(t, gguf.Model{Say: says}, "--alias", "other,acme/tiny", "--ctx-size", "512", "--parallel", "2")
	prompt := 0
	t.Run("the prompt is counted before", func(t *testing.T) {
		status, text := p.do("POST", "/apply-template", ask(""))
		var template struct{ Prompt string }
		p.parsed(text, &template)
		if want := "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"; status != 200 || template.Prompt != want {
			t.Fatalf("%d %q, want %q", status, template.Prompt, want)
		}
		_, text = p.do("POST", "/tokenize", fmt.Sprintf(`{"content": %q, "add_special": true, "parse_special": true}`, template.Prompt))
		var counted struct{ Tokens []int }
		p.parsed(text, &counted)
		if prompt = len(counted.Tokens); prompt == 0 {
			t.Error(text)
		}
	})
	for _, c := range []struct {
		name, more, want, finish string
		tokens                   int
	}{
		{"to the end", "", says, "stop", 8},
		{"at any temperature", `, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 7`, says, "stop", 8},
		{"up to a limit", `, "max_tokens": 3`, "I am tiny and", "length", 3},
		{"up to the other limit", `, "max_completion_tokens": 2, "max_tokens": 3`, "I am tiny", "length", 2},
		{"up to a text", `, "stop": ["word"]`, "I am tiny and one ", "stop", 5},
		{"members of the wrong type are not there", `, "max_tokens": "3", "temperature": {}, "stop": 4`, says, "stop", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := p.chat(ask(c.more))
			var a answered
			p.parsed(text, &a)
			if status != 200 || a.Model != "acme/tiny" || a.Choices[0].Message.Content != c.want || *a.Choices[0].Finish != c.finish {
				t.Errorf("%d %s", status, text)
			}
			if u := a.Usage; u.Prompt != prompt || u.Completion != c.tokens || u.Total != prompt+c.tokens {
				t.Errorf("%+v, want %d and %d tokens", u, prompt, c.tokens)
			}
			if a.Timings.PredictedN != c.tokens || a.Timings.PromptN+a.Timings.CacheN != prompt || a.Usage.Details.Cached != a.Timings.CacheN {
				t.Errorf("%+v beside %+v", a.Timings, a.Usage)
			}
		})
	}
	t.Run("a prompt with the same beginning is decoded from where it differs", func(t *testing.T) {
		p := serve(t, gguf.Model{Say: says}, "--parallel", "1")
		for _, c := range []struct {
			prompt string
			cached int
		}{
			{"hi", 0},
			{"hi", prompt - 1}, // one token at least is decoded
			{"no", 7},          // <s> <|im_start|> u s e r and a newline
		} {
			_, text := p.chat(strings.Replace(ask(""), "hi", c.prompt, 1))
			var a answered
			p.parsed(text, &a)
			if a.Usage.Prompt != prompt || a.Usage.Details.Cached != c.cached || a.Choices[0].Message.Content != says {
				t.Errorf("%s: want %d cached in %s", c.prompt, c.cached, text)
			}
		}
	})
	t.Run("no end but the window's", func(t *testing.T) {
		_, text := p.chat(ask(`, "ignore_eos": true, "max_tokens": 100000`))
		var a answered
		p.parsed(text, &a)
		if *a.Choices[0].Finish != "length" || a.Usage.Total != 256 {
			t.Errorf("%s %+v, want 256 tokens in all", *a.Choices[0].Finish, a.Usage)
		}
	})
}

func TestErrors(t *testing.T) {
	p := serve(t, gguf.Model{Say: says}, "--ctx-size", "512", "--parallel", "2")
	long := strings.Replace(ask(""), "hi", strings.Repeat("x", 600), 1)
	for _, c := range []struct{ name, method, path, body, want string }{
		{"malformed JSON is the server's fault", "POST", "/v1/chat/completions", `{"messages": [`, `"code":500,"message":"[json.exception.parse_error.101] parse error: unexpected end of JSON input","type":"server_error"`},
		{"no messages", "POST", "/v1/chat/completions", `{}`, `"code":400,"message":"'messages' is required","type":"invalid_request_error"`},
		{"an image", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, `"code":500,"message":"image input is not supported`},
		{"a prompt over the window", "POST", "/v1/chat/completions", long, `"code":400,"message":"request (620 tokens) exceeds the available context size (256 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":620,"n_ctx":256`},
		{"a prompt over the window, streamed", "POST", "/v1/chat/completions", strings.Replace(long, "{", `{"stream": true, `, 1), `"code":400,"message":"request (620 tokens) exceeds`},
		{"more answers than slots", "POST", "/v1/chat/completions", ask(`, "n": 3`), `"code":400,"message":"n_cmpl cannot be greater`},
		{"a grammar", "POST", "/v1/chat/completions", ask(`, "response_format": {"type": "json_object"}`), `"code":501`},
		{"an unknown path", "GET", "/v2", "", `"code":404,"message":"File Not Found","type":"not_found_error"`},
		{"another method", "GET", "/v1/chat/completions", "", `"code":404`},
		{"embeddings", "POST", "/v1/embeddings", `{}`, `"code":501,"message":"This server does not support embeddings. Start it with ` + "`--embeddings`" + `","type":"not_supported_error"`},
		{"slots", "GET", "/slots", "", `"code":501`},
		{"metrics", "GET", "/metrics", "", `"code":501`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := p.do(c.method, c.path, c.body)
			if !strings.HasPrefix(text, `{"error":{`+c.want) || !strings.HasPrefix(c.want, fmt.Sprintf(`"code":%d`, status)) {
				t.Errorf("%d %s", status, text)
			}
		})
	}
}

func TestStream(t *testing.T) {
	p := serve(t, gguf.Model{Say: says}, "--ctx-size", "512")
	read := func(t *testing.T, more string) (chunks []answered, last string) {
		resp := p.open("POST", "/v1/chat/completions", ask(`, "stream": true`+more))
		if resp == nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%+v", resp)
		}
		if err := readEvents(resp.Body, func(e string) {
			if last = e; e != "[DONE]" {
				var a answered
				p.parsed(e, &a)
				chunks = append(chunks, a)
			}
		}); err != nil {
			t.Error(err)
		}
		return chunks, last
	}
	t.Run("the role, the words, the reason", func(t *testing.T) {
		chunks, last := read(t, "")
		if last != "[DONE]" || len(chunks) != len(wordsSaid)+2 {
			t.Fatalf("%d chunks, then %s", len(chunks), last)
		}
		first, end := chunks[0].Choices[0], chunks[len(chunks)-1]
		if *first.Delta.Role != "assistant" || first.Delta.Content != nil || first.Finish != nil {
			t.Errorf("first %+v", first)
		}
		var got []string
		for _, c := range chunks[1 : len(chunks)-1] {
			if c.Choices[0].Delta.Role != nil || c.Choices[0].Finish != nil || c.Usage != nil || c.Timings != nil {
				t.Errorf("%+v", c)
			}
			got = append(got, *c.Choices[0].Delta.Content)
		}
		if !slices.Equal(got, wordsSaid) {
			t.Errorf("%q", got)
		}
		if *end.Choices[0].Finish != "stop" || end.Choices[0].Delta.Content != nil || end.Usage != nil || end.Timings.PredictedN != 8 {
			t.Errorf("end %+v", end)
		}
	})
	t.Run("with usage behind it", func(t *testing.T) {
		chunks, _ := read(t, `, "stream_options": {"include_usage": true}`)
		end, usage := chunks[len(chunks)-2], chunks[len(chunks)-1]
		if *end.Choices[0].Finish != "stop" || end.Timings != nil {
			t.Errorf("end %+v", end)
		}
		if len(usage.Choices) != 0 || usage.Usage.Completion != 8 || usage.Timings.PredictedN != 8 {
			t.Errorf("usage %+v", usage)
		}
	})
	t.Run("with timings beside each piece", func(t *testing.T) {
		chunks, _ := read(t, `, "stream_options": {"include_usage": true}, "timings_per_token": true`)
		for i, c := range chunks[:len(chunks)-2] { // the role and the words
			if c.Timings == nil || c.Timings.PredictedN < i || c.Timings.PredictedN > i+1 || c.Usage != nil {
				t.Errorf("piece %d: %+v", i, c.Timings)
			}
		}
	})
	t.Run("a slow one shows signs of life", func(t *testing.T) {
		p := serve(t, gguf.Model{Say: says}, "--token-delay", "1500ms", "--sse-ping-interval", "1")
		resp := p.open("POST", "/v1/chat/completions", ask(`, "stream": true, "max_tokens": 2`))
		if resp == nil {
			t.Fatal("refused")
		}
		var got []string
		if err := readEvents(resp.Body, func(e string) { got = append(got, e) }); err != nil {
			t.Error(err)
		}
		if len(got) != 6 || got[2] != "comment" || got[5] != "[DONE]" { // role, word, comment, word, end
			t.Errorf("%q", got)
		}
	})
}

func TestToolsAndReasoning(t *testing.T) {
	const arguments = `{"city": "Seoul", "unit": "C"}`
	m := gguf.Model{Say: "<think>\nThe user wants the weather.\n</think>\nOne moment.\n" + gguf.Tool("get_weather", arguments)}
	p := serve(t, m)
	tools := `, "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]`
	t.Run("whole", func(t *testing.T) {
		_, text := p.chat(ask(tools))
		var a answered
		p.parsed(text, &a)
		got := a.Choices[0]
		if *got.Finish != "tool_calls" || got.Message.Reasoning != "The user wants the weather." || got.Message.Content != "One moment." || len(got.Message.Calls) != 1 ||
			got.Message.Calls[0].Function != (calledFunction{"get_weather", arguments}) {
			t.Error(text)
		}
	})
	t.Run("streamed: the name first, then the arguments", func(t *testing.T) {
		resp := p.open("POST", "/v1/chat/completions", ask(tools+`, "stream": true`))
		if resp == nil {
			t.Fatal("refused")
		}
		var calls []call
		reasoning, finish := "", ""
		if err := readEvents(resp.Body, func(e string) {
			if e == "[DONE]" {
				return
			}
			var a answered
			p.parsed(e, &a)
			c := a.Choices[0]
			calls = append(calls, c.Delta.Calls...)
			if c.Delta.Reasoning != nil {
				reasoning += *c.Delta.Reasoning
			}
			if c.Finish != nil {
				finish = *c.Finish
			}
		}); err != nil {
			t.Error(err)
		}
		if finish != "tool_calls" || reasoning != "The user wants the weather." || len(calls) < 3 {
			t.Fatalf("%s, %q, %d pieces of calls", finish, reasoning, len(calls))
		}
		if c := calls[0]; *c.Index != 0 || c.ID == "" || c.Type != "function" || c.Function.Name != "get_weather" {
			t.Errorf("first %+v", c)
		}
		all := ""
		for i, c := range calls {
			if all += c.Function.Arguments; i > 0 && (*c.Index != 0 || c.ID != "" || c.Type != "" || c.Function.Name != "") {
				t.Errorf("then %+v", c)
			}
		}
		if all != arguments {
			t.Errorf("arguments %s", all)
		}
	})
	t.Run("no tools were offered", func(t *testing.T) {
		_, text := p.chat(ask(tools + `, "tool_choice": "none"`))
		var a answered
		p.parsed(text, &a)
		if got := a.Choices[0]; *got.Finish != "stop" || len(got.Message.Calls) != 0 || !strings.Contains(got.Message.Content, "<tool_call>") {
			t.Error(text)
		}
	})
	t.Run("the result of a call goes back", func(t *testing.T) {
		_, text := p.do("POST", "/apply-template", `{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null,
			"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "rain"}]}`)
		for _, want := range []string{`{\"name\": \"f\", \"arguments\": {}}`, `user\n<tool_response>\nrain\n</tool_response>`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	})
	t.Run("what the model wrote cannot be read", func(t *testing.T) {
		p := serve(t, gguf.Model{Say: "Well then <tool_call>\n{\"nom\": 1}\n</tool_call>"})
		if status, text := p.chat(ask(tools)); status != 500 || !strings.Contains(text, "does not match the expected peg-native format") {
			t.Errorf("%d %s", status, text)
		}
	})
}
