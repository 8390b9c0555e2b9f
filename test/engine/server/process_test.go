package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"myip.co.kr/hearth/test/engine/gguf"
)

func TestLoading(t *testing.T) {
	const busy = `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`
	loading := func(t *testing.T, delay string) *process {
		p := launch(t, "--model", model(t, gguf.Model{Say: says}), "--load-delay", delay, "--api-key", "secret")
		p.until("it listens", func() bool { status, _ := p.get("/health"); return status != 0 })
		return p
	}
	t.Run("every path says so, then it is ready", func(t *testing.T) {
		p := loading(t, "2s")
		p.key = "secret"
		for _, path := range []string{"/health", "/v1/health", "/v1/models", "/props", "/slots", "/metrics", "/v1/chat/completions"} {
			if status, text := p.get(path); status != 503 || text != busy {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		p.until("it is ready", func() bool { status, _ := p.get("/health"); return status == 200 })
	})
	t.Run("SIGTERM ends it at once", func(t *testing.T) {
		p := loading(t, "1h")
		p.signal(syscall.SIGTERM)
		if code := p.end(); code != -1 {
			t.Errorf("exit code %d, want the signal", code)
		}
	})
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func TestKey(t *testing.T) {
	p := serve(t, gguf.Model{Say: says}, "--api-key", "secret")
	for _, path := range []string{"/health", "/v1/health"} {
		if status, text := p.get(path); status != 200 || text != `{"status":"ok"}` {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	const want = `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`
	for _, key := range []string{"", "other"} {
		p.key = key
		for _, path := range []string{"/v1/models", "/props", "/nowhere"} {
			if status, text := p.get(path); status != 401 || text != want {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
	}
	p.key = "secret"
	if status, text := p.chat(ask("")); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

func TestFacts(t *testing.T) {
	for _, c := range []struct {
		name          string
		args          []string
		slots, window int
	}{
		{"the window is shared", []string{"--ctx-size", "512", "--parallel", "2"}, 2, 256},
		{"and rounded up", []string{"--ctx-size", "300", "--parallel", "1"}, 1, 512},
		{"by default four have the whole one", []string{"--ctx-size", "512"}, 4, 512},
		{"as large as the model's", []string{"--parallel", "1"}, 1, 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := serve(t, gguf.Model{Say: says, Context: 1024}, append(c.args, "--alias", "acme/tiny")...)
			_, text := p.get("/props")
			var props struct {
				Slots    int `json:"total_slots"`
				Settings struct {
					Window int `json:"n_ctx"`
				} `json:"default_generation_settings"`
				Alias string `json:"model_alias"`
				Path  string `json:"model_path"`
				Caps  struct {
					Tools bool `json:"supports_tools"`
				} `json:"chat_template_caps"`
			}
			p.parsed(text, &props)
			if props.Slots != c.slots || props.Settings.Window != c.window || props.Alias != "acme/tiny" || !strings.HasSuffix(props.Path, "model.gguf") || !props.Caps.Tools {
				t.Error(text)
			}
			_, text = p.get("/v1/models")
			var models struct {
				Data []struct {
					ID   string
					Meta struct {
						Window  int `json:"n_ctx"`
						Trained int `json:"n_ctx_train"`
					}
				}
			}
			p.parsed(text, &models)
			if m := models.Data; len(m) != 1 || m[0].ID != "acme/tiny" || m[0].Meta.Window != c.window || m[0].Meta.Trained != 1024 {
				t.Error(text)
			}
		})
	}
}

func TestFailedStart(t *testing.T) {
	taken := serve(t, gguf.Model{Say: says})
	var whole bytes.Buffer
	if err := (gguf.Model{Say: says}).Write(&whole); err != nil {
		t.Fatal(err)
	}
	file := func(t *testing.T, content []byte) string {
		path := model(t, gguf.Model{Say: says})
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, want string
		args       func(t *testing.T) []string
	}{
		{"no such file", "no such file", func(*testing.T) []string { return []string{"--model", "/no/such/model.gguf"} }},
		{"a truncated file", "model is corrupted or incomplete", func(t *testing.T) []string {
			return []string{"--model", file(t, whole.Bytes()[:whole.Len()/2])}
		}},
		{"not a model", "invalid magic characters", func(t *testing.T) []string { return []string{"--model", file(t, []byte("hello"))} }},
		{"a port in use", "couldn't bind HTTP server socket", func(t *testing.T) []string {
			return []string{"--model", "x", "--port", taken.base[strings.LastIndex(taken.base, ":")+1:]}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := launch(t, c.args(t)...)
			if code := p.end(); code != 1 || !strings.Contains(p.log.String(), c.want) {
				t.Errorf("exit code %d, want 1 and %q in the log", code, c.want)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	p := serve(t, gguf.Model{Say: says, Loop: true}, "--parallel", "1", "--ctx-size", "8192", "--token-delay", "5ms", "--metrics", "--slots")
	endless := ask(`, "stream": true`)
	first := p.open("POST", "/v1/chat/completions", endless)
	if first == nil || first.StatusCode != 200 {
		t.Fatal("the first is not served")
	}
	t.Run("those behind it wait without a word, and without limit", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var answered, ended atomic.Int64
		for range 30 {
			go func() {
				defer ended.Add(1)
				req, err := http.NewRequestWithContext(ctx, "POST", p.base+"/v1/chat/completions", strings.NewReader(endless))
				if err != nil {
					return
				}
				if resp, err := http.DefaultClient.Do(req); err == nil {
					answered.Add(1)
					resp.Body.Close()
				}
			}()
		}
		p.until("30 wait", func() bool { return p.metric("requests_deferred") == 30 })
		if status, _ := p.get("/health"); status != 200 || p.metric("requests_processing") != 1 {
			t.Errorf("health %d, at work %d", status, p.metric("requests_processing"))
		}
		if status, text := p.get("/slots?fail_on_no_slot=1"); status != 503 || !strings.Contains(text, "no slot available") {
			t.Errorf("%d %s", status, text)
		}
		leave()
		p.until("all left the queue while the first goes on", func() bool {
			return ended.Load() == 30 && p.metric("requests_deferred") == 0 && p.metric("requests_processing") == 1
		})
		if answered.Load() != 0 {
			t.Errorf("%d were answered", answered.Load())
		}
		first.Body.Close()
		p.until("nothing is being made", func() bool { return p.metric("requests_processing") == 0 })
	})
	t.Run("clients that leave while they wait, or during a whole answer, take nothing with them", func(t *testing.T) {
		client := http.Client{Timeout: 100 * time.Millisecond}
		together(20, func() {
			if resp, err := client.Post(p.base+"/v1/chat/completions", "", strings.NewReader(ask(""))); err == nil {
				resp.Body.Close()
				t.Error("an endless answer ended")
			}
		})
		p.until("it is idle", func() bool { return p.metric("requests_deferred")+p.metric("requests_processing") == 0 })
		if status, text := p.get("/slots"); status != 200 || !strings.Contains(text, `"is_processing":false`) {
			t.Errorf("%d %s", status, text)
		}
		if status, text := p.chat(ask(`, "max_tokens": 1`)); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	})
}

// Two sequences make two answers at once.
func TestParallel(t *testing.T) {
	p := serve(t, gguf.Model{Say: says}, "--parallel", "2", "--ctx-size", "1024", "--endless", "--metrics")
	a, b := p.open("POST", "/v1/chat/completions", ask(`, "stream": true`)), p.open("POST", "/v1/chat/completions", ask(`, "stream": true`))
	for i, resp := range []*http.Response{a, b} {
		n := 0
		err := readEvents(resp.Body, func(string) { n++ })
		if err != nil || n < 400 {
			t.Errorf("%d: %d events, %v", i, n, err)
		}
	}
	together(8, func() {
		status, text := p.chat(ask(`, "max_tokens": 40`))
		if status != 200 || !strings.Contains(text, `"completion_tokens":40`) {
			t.Error(fmt.Sprint(status, " ", text))
		}
	})
}

func TestStop(t *testing.T) {
	endless := gguf.Model{Say: says, Loop: true}
	t.Run("idle: at once, with code 0", func(t *testing.T) {
		p := serve(t, gguf.Model{Say: says})
		p.signal(syscall.SIGTERM)
		if code := p.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("a stream gets no more, and breaks off at the next ping", func(t *testing.T) {
		p := serve(t, endless, "--parallel", "1", "--ctx-size", "8192", "--token-delay", "5ms", "--sse-ping-interval", "1")
		resp := p.open("POST", "/v1/chat/completions", ask(`, "stream": true`))
		if resp == nil {
			t.Fatal("refused")
		}
		p.signal(syscall.SIGTERM)
		last := ""
		if err := readEvents(resp.Body, func(e string) { last = e }); err == nil || last == "[DONE]" {
			t.Errorf("the stream ended in order, with %s", last)
		}
		if code := p.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("a whole answer holds it up until a second signal", func(t *testing.T) {
		p := serve(t, endless, "--metrics", "--parallel", "1", "--ctx-size", "8192", "--token-delay", "5ms")
		go func() { _, _ = http.Post(p.base+"/v1/chat/completions", "", strings.NewReader(ask(""))) }()
		p.until("it is being made", func() bool { return p.metric("requests_processing") == 1 })
		p.signal(syscall.SIGTERM)
		p.until("nothing is accepted", func() bool { status, _ := p.get("/health"); return status == 0 })
		select {
		case <-p.done:
			t.Error("it ended with a request open")
		case <-time.After(300 * time.Millisecond):
		}
		p.signal(syscall.SIGTERM)
		if code := p.end(); code != 1 {
			t.Errorf("exit code %d", code)
		}
	})
}
