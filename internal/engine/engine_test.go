package engine

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const hello = `{"messages":[{"role":"user","content":"Who are you?"}]}`

func chatBody(rest string) string {
	return strings.TrimSuffix(hello, "}") + "," + rest + "}"
}

func TestEngineRoutes(t *testing.T) {
	c := client{t: t, base: serveOn(t, New(Config{Model: "acme/tiny", Context: 4096, Parallel: 3}))}
	t.Run("health", func(t *testing.T) {
		if status, body := c.get(http.MethodGet, "/health", "", nil); status != http.StatusOK || body != `{"status":"ok"}` {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("models", func(t *testing.T) {
		var got struct {
			Data []struct {
				ID   string `json:"id"`
				Meta struct {
					Context int `json:"n_ctx"`
				} `json:"meta"`
			} `json:"data"`
		}
		c.get(http.MethodGet, "/v1/models", "", &got)
		if len(got.Data) != 1 || got.Data[0].ID != "acme/tiny" || got.Data[0].Meta.Context != 4096 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("props", func(t *testing.T) {
		var got struct {
			Settings struct {
				Context int `json:"n_ctx"`
			} `json:"default_generation_settings"`
			Slots int    `json:"total_slots"`
			Alias string `json:"model_alias"`
		}
		c.get(http.MethodGet, "/props", "", &got)
		if got.Settings.Context != 4096 || got.Slots != 3 || got.Alias != "acme/tiny" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("the template's tokens are the prompt's tokens", func(t *testing.T) {
		var prompt struct {
			Prompt string `json:"prompt"`
		}
		c.get(http.MethodPost, "/apply-template", hello, &prompt)
		if want := "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n"; prompt.Prompt != want {
			t.Errorf("prompt %q", prompt.Prompt)
		}
		var tokens struct {
			Tokens []int `json:"tokens"`
		}
		c.get(http.MethodPost, "/tokenize", `{"content":"`+strings.ReplaceAll(prompt.Prompt, "\n", `\n`)+`"}`, &tokens)
		var a answer
		c.get(http.MethodPost, "/v1/chat/completions", hello, &a)
		if len(tokens.Tokens) == 0 || a.Usage.Prompt != len(tokens.Tokens) {
			t.Errorf("%d tokens, usage %+v", len(tokens.Tokens), a.Usage)
		}
	})
}

func TestEngineErrors(t *testing.T) {
	type errorBody struct {
		Error failure `json:"error"`
	}
	c := client{t: t, base: serveOn(t, New(Config{Model: "acme/tiny", Context: 30, APIKey: "k"}))}
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 100) + `"}]}`
	for name, tt := range map[string]struct {
		key, method, path, body string
		want                    failure
	}{
		"bad JSON":       {"k", http.MethodPost, "/v1/chat/completions", `{"messages":`, failure{Code: 400, Type: "invalid_request_error"}},
		"wrong type":     {"k", http.MethodPost, "/v1/chat/completions", `{"messages":"hi"}`, failure{Code: 400, Type: "invalid_request_error"}},
		"no messages":    {"k", http.MethodPost, "/v1/chat/completions", `{}`, failure{Code: 400, Type: "invalid_request_error", Message: "'messages' is required"}},
		"wrong key":      {"x", http.MethodGet, "/v1/models", "", failure{Code: 401, Type: "authentication_error", Message: "Invalid API Key"}},
		"no key":         {"", http.MethodGet, "/props", "", failure{Code: 401, Type: "authentication_error", Message: "Invalid API Key"}},
		"unknown path":   {"k", http.MethodGet, "/nope", "", failure{Code: 404, Type: "not_found_error", Message: "File Not Found"}},
		"unknown method": {"k", http.MethodGet, "/v1/chat/completions", "", failure{Code: 404, Type: "not_found_error", Message: "File Not Found"}},
		"overflow": {"k", http.MethodPost, "/v1/chat/completions", long, failure{
			Code: 400, Type: "exceed_context_size_error", PromptTokens: 109, Context: 30,
			Message: "request (109 tokens) exceeds the available context size (30 tokens), try increasing it",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got errorBody
			status, body := client{t, c.base, tt.key}.get(tt.method, tt.path, tt.body, &got)
			if status != tt.want.Code {
				t.Errorf("%d %s", status, body)
			}
			if tt.want.Message == "" {
				got.Error.Message = ""
			}
			if diff := cmp.Diff(tt.want, got.Error); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("health needs no key", func(t *testing.T) {
		if status, body := c.get(http.MethodGet, "/health", "", nil); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("while it loads every path says so", func(t *testing.T) {
		const load = 300 * time.Millisecond
		begin := time.Now()
		c := client{t: t, base: serveOn(t, New(Config{Model: "acme/tiny", Load: load}))}
		for _, path := range []string{"/health", "/v1/models", "/props", "/nope"} {
			status, body := c.get(http.MethodGet, path, "", nil)
			if status != 503 || body != `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}` {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		eventually(t, "ready", func() bool { status, _ := c.get(http.MethodGet, "/health", "", nil); return status == 200 })
		if took := time.Since(begin); took < load {
			t.Errorf("ready after %v", took)
		}
	})
}

func TestEngineAnswers(t *testing.T) {
	e := New(Config{Model: "google/gemma-4-26b-a4b", Context: 4096})
	c := client{t: t, base: serveOn(t, e)}
	t.Run("whole", func(t *testing.T) {
		var a answer
		c.get(http.MethodPost, "/v1/chat/completions", hello, &a)
		text := a.Choices[0].Message.Content
		if !strings.HasPrefix(text, "I am google/gemma-4-26b-a4b and") || a.Choices[0].Finish != "stop" || a.Object != "chat.completion" {
			t.Errorf("%+v", a)
		}
		if n := a.Usage.Completion; n < 24 || n > 60 || n != len(strings.Fields(text)) || a.Usage.Total != n+a.Usage.Prompt {
			t.Errorf("usage %+v", a.Usage)
		}
		if a.Timings == nil || a.Timings.PredictedN != a.Usage.Completion {
			t.Errorf("timings %+v", a.Timings)
		}
	})
	t.Run("in Korean to Korean, also in parts", func(t *testing.T) {
		var a answer
		c.get(http.MethodPost, "/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"누구세요?"}]}]}`, &a)
		if text := a.Choices[0].Message.Content; !strings.HasPrefix(text, "저는 google/gemma-4-26b-a4b 모델이고") || a.Usage.Completion < 20 {
			t.Errorf("%q %+v", text, a.Usage)
		}
	})
	t.Run("stream", func(t *testing.T) {
		res, s := c.stream("/v1/chat/completions", chatBody(`"stream":true`))
		if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" {
			t.Errorf("content type %q", ct)
		}
		last := s.chunks[len(s.chunks)-1]
		if !s.done || s.finish != "stop" || !strings.HasPrefix(s.text, "I am google/") || last.Timings == nil || last.Usage != nil {
			t.Errorf("%+v", s)
		}
	})
	t.Run("stream with usage", func(t *testing.T) {
		_, s := c.stream("/v1/chat/completions", chatBody(`"stream":true,"stream_options":{"include_usage":true}`))
		last := s.chunks[len(s.chunks)-1]
		if len(last.Choices) != 0 || last.Usage == nil || last.Usage.Completion != len(s.chunks)-3 || last.Timings == nil {
			t.Errorf("last chunk %+v of %d", last, len(s.chunks))
		}
	})
	for name, limit := range map[string]string{"max_tokens": `"max_tokens":5`, "max_completion_tokens": `"max_completion_tokens":5,"max_tokens":7`} {
		t.Run(name+" ends the answer", func(t *testing.T) {
			var a answer
			c.get(http.MethodPost, "/v1/chat/completions", chatBody(limit), &a)
			if a.Choices[0].Finish != "length" || a.Usage.Completion != 5 || a.Choices[0].Message.Content != "I am google/gemma-4-26b-a4b and I" {
				t.Errorf("%+v", a)
			}
		})
	}
	t.Run("the window ends an answer that would go on for ever", func(t *testing.T) {
		var a answer
		c.get(http.MethodPost, "/v1/chat/completions", chatBody(`"ignore_eos":true`), &a)
		if a.Choices[0].Finish != "length" || a.Usage.Total != 4096 {
			t.Errorf("usage %+v", a.Usage)
		}
	})
}

func TestEngineTime(t *testing.T) {
	t.Run("first token and speed", func(t *testing.T) {
		c := client{t: t, base: serveOn(t, New(Config{Model: "m", FirstToken: 100 * time.Millisecond, TokensPerSecond: 100}))}
		begin := time.Now()
		_, s := c.stream("/v1/chat/completions", chatBody(`"stream":true,"max_tokens":21`))
		if took := time.Since(begin); took < 300*time.Millisecond || took > 5*time.Second || !s.done {
			t.Errorf("21 tokens took %v", took)
		}
	})
	t.Run("who comes when all places are taken waits inside", func(t *testing.T) {
		e := New(Config{Model: "m", TokensPerSecond: 10, Parallel: 2})
		c := client{t: t, base: serveOn(t, e)}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		for range 3 {
			go func() {
				if res, err := c.do(ctx, http.MethodPost, "/v1/chat/completions", hello); err == nil {
					res.Body.Close()
				}
				gone <- struct{}{}
			}()
		}
		eventually(t, "two are served, one waits", func() bool { s := e.Stats(); return s.Inflight == 2 && s.Queued == 1 })
		var over Stats
		c.get(http.MethodGet, "/stats", "", &over)
		if diff := cmp.Diff(Stats{Inflight: 2, Queued: 1, Total: 3}, over); diff != "" {
			t.Error(diff)
		}
		cancel()
		for range 3 {
			<-gone
		}
		eventually(t, "all have left", func() bool { return e.Stats() == Stats{Total: 3, Cancelled: 3} })
	})
	t.Run("a client that leaves a stream ends it at once", func(t *testing.T) {
		e := New(Config{Model: "m", TokensPerSecond: 0.001}) // the next token would find out in a quarter of an hour
		c := client{t: t, base: serveOn(t, e)}
		res, err := c.do(t.Context(), http.MethodPost, "/v1/chat/completions", chatBody(`"stream":true,"ignore_eos":true`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		eventually(t, "it is counted", func() bool { return e.Stats() == Stats{Total: 1, Cancelled: 1} })
	})
}

func TestCountTokens(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 1, "hello": 1, "hello world": 2, "internationalisation": 4, "12345": 2, "안녕하세요": 5, "a, b": 3, "\n": 1, "<|im_end|>": 1,
	} {
		if got := countTokens(text); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	for _, s := range []string{hello, `{}`, `{"messages":[{}]}`, `{"messages":[{"content":[1]}],"max_tokens":-1}`, `{"messages":[{"content":"가"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q := new(question)
		if decodeJSON(body, q) != nil || q.check() != nil {
			return
		}
		c := newCompletion(nil, q, "m", introduce(q, "m", ""), 1000-q.tokens%1000, tempo{})
		if limit := q.limit(); limit >= 0 && int64(len(c.tokens)) > limit || len(c.tokens) > 1000 {
			t.Errorf("%d tokens, limit %d", len(c.tokens), limit)
		}
		if !slices.Contains([]string{"stop", "length"}, c.finish) {
			t.Errorf("finish %q", c.finish)
		}
	})
}
