package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

const classConfig = `
listen: 127.0.0.1:0
data_dir: data
shutdown: {lame_duck: 0s, grace: 20s}
nodes:
  - name: gpu-1
    slots:
      - {name: gemma, model: google/gemma, driver: always, url: %q, concurrency: 1, wait: 10m, price: {prompt: 1, completion: 1}}
`

// counted is an engine with one place, which answers when it is told to.
type counted struct {
	came chan string   // what is asked
	next chan struct{} // lets one go
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"google/gemma","object":"model"}]}`)
		return
	}
	var q struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.UnmarshalRead(r.Body, &q); err != nil || len(q.Messages) != 1 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.came <- q.Messages[0].Content
	select {
	case <-c.next:
	case <-r.Context().Done():
	}
	_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","model":"google/gemma","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
}

// served runs a gateway with one slot in this process, until the test ends.
func served(t *testing.T, c *counted) (h *house, url string) {
	t.Helper()
	eng := httptest.NewServer(c)
	t.Cleanup(eng.Close)
	h = &house{dir: t.TempDir()}
	h.config = filepath.Join(h.dir, "hearth.yaml")
	if err := os.WriteFile(h.config, fmt.Appendf(nil, classConfig, eng.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(h.config, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	a, err := app.Open(ctx, cfg, app.Options{FirstKeys: func(string, string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, ln, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h, "http://" + ln.Addr().String() + "/api/v1/chat/completions"
}

// TestKeysSet_Class: the class of a key reaches the queue of a running gateway's slot.
func TestKeysSet_Class(t *testing.T) {
	c := &counted{came: make(chan string, 10), next: make(chan struct{}, 10)}
	h, url := served(t, c)
	keys := map[string]string{}
	for _, name := range []string{"person", "nightly"} {
		code, out, errs := h.hearth("keys", "create", name)
		if code != 0 {
			t.Fatal(errs)
		}
		keys[name] = strings.TrimSpace(out)
	}
	answers := make(chan int, 10)
	ask := func(key, text string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"model":"google/gemma","messages":[{"role":"user","content":"`+text+`"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+keys[key])
		r.Header.Set("Content-Type", "application/json")
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- 0
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			answers <- resp.StatusCode
		}()
	}
	comes := func(want string) {
		t.Helper()
		select {
		case got := <-c.came:
			if got != want {
				t.Fatalf("%q is served, not %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%q is not served", want)
		}
	}
	waits := func(n int) {
		t.Helper()
		if err := poll(func() bool {
			_, out, _ := h.hearth("slots", "--json")
			return strings.Contains(strings.Join(strings.Fields(out), ""), fmt.Sprintf(`"waiting":%d,`, n))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []struct{ class, says, first, second string }{
		{"batch", "may use everything; batch requests\n", "of a person", "of the night"},
		{"interactive", "may use everything\n", "of the night", "of a person"},
	} {
		if out := h.must(t, "keys", "set", "nightly", "--class", k.class); !strings.HasSuffix(out, k.says) {
			t.Errorf("%q", out)
		}
		ask("person", "before")
		comes("before")
		ask("nightly", "of the night")
		waits(1)
		ask("person", "of a person")
		waits(2)
		for _, who := range []string{k.first, k.second, ""} {
			if c.next <- struct{}{}; who != "" {
				comes(who)
			}
		}
		for range 3 {
			if status := <-answers; status != 200 {
				t.Errorf("status %d", status)
			}
		}
	}
	var list bytes.Buffer
	if code := run([]string{"keys", "set", "nightly", "--class", "nobody", "-c", h.config}, streams{strings.NewReader(""), &list, &list}); code == 0 || !strings.Contains(list.String(), "--class must be interactive or batch") {
		t.Errorf("%d %q", code, list.String())
	}
}
