package engine

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func TestEngineControl(t *testing.T) {
	fresh := func(t *testing.T) (*Engine, client) {
		e := New(Config{Model: "acme/tiny", Context: 100})
		return e, client{t: t, base: serveOn(t, e)}
	}
	t.Run("a smaller window is told everywhere, and overflows", func(t *testing.T) {
		_, c := fresh(t)
		if status, got := c.get(http.MethodPost, "/control", `{"context":10}`, nil); status != 200 || got != `{"context":10,"fault":"none","count":0}` {
			t.Fatalf("%d %s", status, got)
		}
		for path, want := range map[string]string{"/props": `"n_ctx":10}`, "/v1/models": `"n_ctx":10,"n_ctx_train":100}`} {
			if _, got := c.get(http.MethodGet, path, "", nil); !strings.Contains(got, want) {
				t.Errorf("%s: %s", path, got)
			}
		}
		status, got := c.get(http.MethodPost, "/v1/chat/completions", hello, nil)
		if want := `{"error":{"code":400,"message":"request (13 tokens) exceeds the available context size (10 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":13,"n_ctx":10}}`; status != 400 || got != want {
			t.Errorf("%d %s", status, got)
		}
	})
	t.Run("what does not exist changes nothing", func(t *testing.T) {
		e, c := fresh(t)
		for _, body := range []string{`{"fault":"429"}`, `{"fault":"nope"}`, `{"context":-1}`, `{"count":-1}`, `{"x":1}`, `[`} {
			if status, got := c.get(http.MethodPost, "/control", body, nil); status != 400 || !strings.Contains(got, `"error"`) {
				t.Errorf("%s: %d %s", body, status, got)
			}
		}
		if err := e.Set(EngineControl{Fault: "nope"}); err == nil {
			t.Error("set")
		}
		if got := e.Control(); got != (EngineControl{Context: 100, Fault: None}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("errors", func(t *testing.T) {
		for fault, want := range map[Fault]failure{
			F500: {Code: 500, Type: "server_error"}, F400: {Code: 400, Type: "invalid_request_error"},
			Loading: {Code: 503, Type: "unavailable_error"}, Parser: {Code: 500, Type: "server_error"},
		} {
			e, c := fresh(t)
			if err := e.Set(EngineControl{Fault: fault, Count: 1}); err != nil {
				t.Fatal(err)
			}
			var got struct {
				Error failure `json:"error"`
			}
			if status, body := c.get(http.MethodPost, "/v1/chat/completions", hello, &got); status != want.Code || got.Error.Code != want.Code || got.Error.Type != want.Type {
				t.Errorf("%s: %d %s", fault, status, body)
			}
			if status, _ := c.get(http.MethodPost, "/v1/chat/completions", hello, nil); status != 200 {
				t.Errorf("%s: still there after one request", fault)
			}
		}
	})
	t.Run("a connection that breaks", func(t *testing.T) {
		for fault, want := range map[Fault]error{Refuse: syscall.ECONNRESET, Cut: io.ErrUnexpectedEOF} {
			e, c := fresh(t)
			if err := e.Set(EngineControl{Fault: fault}); err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(c.base+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(`"stream":true`)))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, want) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", fault, err)
			}
		}
	})
}

func TestEngineCounts(t *testing.T) {
	e := New(Config{Model: "acme/tiny", Context: 4096})
	c := client{t: t, base: serveOn(t, e)}
	body := chatBody(`"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]`)
	var used answer
	c.get(http.MethodPost, "/v1/chat/completions", body, &used)
	var bare answer
	c.get(http.MethodPost, "/v1/chat/completions", hello, &bare)
	if used.Usage.Prompt <= bare.Usage.Prompt+10 {
		t.Errorf("tools count as %d tokens", used.Usage.Prompt-bare.Usage.Prompt)
	}
	t.Run("as vLLM", func(t *testing.T) {
		var got struct {
			Count  int   `json:"count"`
			Most   int   `json:"max_model_len"`
			Tokens []int `json:"tokens"`
		}
		if _, s := c.get(http.MethodPost, "/tokenize", body, &got); got.Count != used.Usage.Prompt || got.Most != 4096 || len(got.Tokens) != got.Count {
			t.Errorf("%s, want %d", s, used.Usage.Prompt)
		}
	})
	t.Run("as llama-server, an empty text", func(t *testing.T) {
		if status, got := c.get(http.MethodPost, "/tokenize", `{}`, nil); status != 200 || got != `{"tokens":[]}` {
			t.Errorf("%d %s", status, got)
		}
	})
	t.Run("not at all", func(t *testing.T) {
		if err := e.Set(EngineControl{Fault: NoCount}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/tokenize", "/apply-template"} {
			if status, got := c.get(http.MethodPost, path, body, nil); status != 501 || !strings.Contains(got, "not_supported_error") {
				t.Errorf("%s: %d %s", path, status, got)
			}
		}
		if status, _ := c.get(http.MethodPost, "/v1/chat/completions", body, nil); status != 200 {
			t.Errorf("a chat request: %d", status)
		}
	})
}

func TestProviderRefusals(t *testing.T) {
	for fault, want := range map[Fault]struct {
		status int
		words  string
	}{
		Overflow:  {400, `"code":"context_length_exceeded"`},
		Moderated: {403, `"reasons":["harassment"]`},
	} {
		t.Run(string(fault), func(t *testing.T) {
			p, c := newProvider(t)
			if err := p.Set(Control{Fault: fault}); err != nil {
				t.Fatal(err)
			}
			if status, got := c.get(http.MethodPost, "/v1/chat/completions", big, nil); status != want.status || !strings.Contains(got, want.words) {
				t.Errorf("%d %s", status, got)
			}
		})
	}
}
