package engine

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
)

func newProvider(t *testing.T) (*Provider, client) {
	p := NewProvider(ProviderConfig{Name: "Acme AI", Models: []string{"acme/big"}, APIKey: "k"})
	return p, client{t, serveOn(t, p), "k"}
}

const big = `{"model":"acme/big","messages":[{"role":"user","content":"Who are you?"}],"max_tokens":20}`

var bigStream = strings.TrimSuffix(big, "}") + `,"stream":true,"stream_options":{"include_usage":true}}`

func TestProvider(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/api/v1/chat/completions"} {
		t.Run("answers at "+path, func(t *testing.T) {
			p, c := newProvider(t)
			var a answer
			status, _ := c.get(http.MethodPost, path, big, &a)
			if status != 200 || !strings.HasPrefix(a.Choices[0].Message.Content, "I am acme/big and I answer from the external provider Acme AI") {
				t.Errorf("%d %+v", status, a)
			}
			if a.Provider != "Acme AI" || a.Model != "acme/big" || a.Usage.Completion != 20 || a.Timings != nil {
				t.Errorf("%+v", a)
			}
			if p.Seen().Requests != 1 || string(p.LastBody()) != big {
				t.Errorf("seen %+v, body %s", p.Seen(), p.LastBody())
			}
		})
	}
	t.Run("stream", func(t *testing.T) {
		_, c := newProvider(t)
		_, s := c.stream("/v1/chat/completions", bigStream)
		if !s.done || s.finish != "length" || s.chunks[len(s.chunks)-1].Usage.Completion != 20 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("prices are switched while it runs, and told in usage and in the list", func(t *testing.T) {
		_, c := newProvider(t)
		if status, got := c.get(http.MethodPost, "/control", `{"prompt_price": "0.5", "completion_price": 2}`, nil); status != 200 {
			t.Fatalf("%d %s", status, got)
		}
		_, got := c.get(http.MethodPost, "/v1/chat/completions", big, nil)
		var a struct {
			Usage struct {
				Prompt int            `json:"prompt_tokens"`
				Cost   jsontext.Value `json:"cost"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(got), &a); err != nil {
			t.Fatal(err)
		}
		// 20 completion tokens at 2 per 1M, the prompt at 0.5
		if want := decimal.New(int64(a.Usage.Prompt)*5+400, -7).String(); string(a.Usage.Cost) != want {
			t.Errorf("cost %s, want %s", a.Usage.Cost, want)
		}
		if _, got := c.get(http.MethodGet, "/v1/models", "", nil); !strings.Contains(got, `"pricing":{"prompt":"0.0000005","completion":"0.000002"}`) {
			t.Errorf("list %s", got)
		}
		if status, _ := c.get(http.MethodPost, "/control", `{"prompt_price": -1}`, nil); status != 400 {
			t.Errorf("a negative price: %d", status)
		}
	})
	t.Run("its own errors", func(t *testing.T) {
		_, c := newProvider(t)
		for body, want := range map[string]int{"{": 400, `{}`: 400, strings.Replace(big, "big", "small", 1): 404} {
			if status, got := c.get(http.MethodPost, "/v1/chat/completions", body, nil); status != want || !strings.Contains(got, `"error"`) {
				t.Errorf("%s: %d %s", body, status, got)
			}
		}
		c.key = "other"
		if status, _ := c.get(http.MethodPost, "/v1/chat/completions", big, nil); status != 401 {
			t.Errorf("wrong key: %d", status)
		}
	})
}

func TestFaults(t *testing.T) {
	const path = "/v1/chat/completions"
	for fault, want := range map[Fault]int{F429: 429, F500: 500, F503: 503, F401: 401, F400: 400} {
		t.Run(string(fault), func(t *testing.T) {
			p, c := newProvider(t)
			if err := p.Set(Control{Fault: fault, RetryAfter: 7}); err != nil {
				t.Fatal(err)
			}
			res, err := c.do(t.Context(), http.MethodPost, path, big)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			after := res.Header.Get("Retry-After")
			if res.StatusCode != want || (after == "7") != (fault == F429) {
				t.Errorf("%d, Retry-After %q", res.StatusCode, after)
			}
		})
	}
	t.Run("refuse", func(t *testing.T) {
		p, c := newProvider(t)
		p.Set(Control{Fault: Refuse})
		if res, err := c.do(t.Context(), http.MethodPost, path, big); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Errorf("got %v, %v", res, err)
		}
	})
	t.Run("hang", func(t *testing.T) {
		p, c := newProvider(t)
		p.Set(Control{Fault: Hang})
		done := make(chan error, 1)
		h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 100 * time.Millisecond}
		go func() {
			_, err := h.Post(c.base+path, "application/json", strings.NewReader(big))
			done <- err
		}()
		if err := <-done; err == nil {
			t.Error("it answers")
		}
		eventually(t, "the leaving is seen", func() bool { return p.Seen().Cancelled == 1 && p.Seen().Inflight == 0 })
	})
	t.Run("cut", func(t *testing.T) {
		p, c := newProvider(t)
		p.Set(Control{Fault: Cut, After: 8})
		_, s := c.stream(path, bigStream)
		if s.done || s.finish != "" || s.err == nil || len(strings.Fields(s.text)) != 8 {
			t.Errorf("%+v", s)
		}
		res, err := c.do(t.Context(), http.MethodPost, path, big)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if b, err := io.ReadAll(res.Body); err == nil || res.StatusCode != 200 {
			t.Errorf("a clean end: %s", b)
		}
	})
	t.Run("error event", func(t *testing.T) {
		p, c := newProvider(t)
		p.Set(Control{Fault: ErrorEvent, After: -1})
		_, s := c.stream(path, bigStream)
		last := s.chunks[len(s.chunks)-1]
		if s.done || s.finish != "error" || len(strings.Fields(s.text)) != 10 || last.Error == nil || last.Error.Code != 502 || last.ID == "" {
			t.Errorf("%+v", s)
		}
		if status, body := c.get(http.MethodPost, path, big, nil); status != 200 || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("empty", func(t *testing.T) {
		p, c := newProvider(t)
		p.Set(Control{Fault: Empty})
		if _, s := c.stream(path, bigStream); !s.done || len(s.chunks) != 0 {
			t.Errorf("%+v", s)
		}
		if status, body := c.get(http.MethodPost, path, big, nil); status != 200 || body != "" {
			t.Errorf("%d %q", status, body)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		p, c := newProvider(t)
		p.Set(Control{Fault: Garbage})
		for _, body := range []string{big, bigStream} {
			if status, got := c.get(http.MethodPost, path, body, nil); status != 200 || !strings.Contains(got, "<html>") {
				t.Errorf("%d %s", status, got)
			}
		}
	})
	t.Run("slow", func(t *testing.T) {
		c := Control{Fault: Slow, LatencyMS: 300, TokensPerSecond: 50}
		if diff := cmp.Diff(tempo{3 * time.Second, 5}, c.tempo(), cmp.AllowUnexported(tempo{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestControl(t *testing.T) {
	t.Run("for a number of requests", func(t *testing.T) {
		p, c := newProvider(t)
		if status, body := c.get(http.MethodPost, "/control", `{"fault":"500","count":2,"latency_ms":1}`, nil); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		for i, want := range []int{500, 500, 200} {
			if status, _ := c.get(http.MethodPost, "/v1/chat/completions", big, nil); status != want {
				t.Errorf("request %d: %d", i, status)
			}
		}
		var got struct {
			Name  string `json:"name"`
			Fault Fault  `json:"fault"`
			Count int    `json:"count"`
			Wait  int    `json:"latency_ms"`
			Seen  Seen   `json:"seen"`
		}
		c.get(http.MethodGet, "/control", "", &got)
		if got.Fault != None || got.Count != 0 || got.Wait != 1 || got.Seen.Requests != 3 || got.Name != "Acme AI" {
			t.Errorf("%+v", got)
		}
		if p.Control().Fault != None {
			t.Errorf("%+v", p.Control())
		}
	})
	t.Run("what is not named stays", func(t *testing.T) {
		p, c := newProvider(t)
		c.get(http.MethodPost, "/control", `{"fault":"cut","after":3,"count":9}`, nil)
		c.get(http.MethodPost, "/control", `{"latency_ms":5}`, nil)
		if diff := cmp.Diff(Control{Fault: Cut, After: 3, Count: 9, LatencyMS: 5}, p.Control()); diff != "" {
			t.Error(diff)
		}
		c.get(http.MethodPost, "/control", `{"fault":"cut"}`, nil)
		if diff := cmp.Diff(Control{Fault: Cut, After: -1, LatencyMS: 5}, p.Control()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("what does not exist changes nothing", func(t *testing.T) {
		p, c := newProvider(t)
		before := p.Control()
		for _, body := range []string{`{"fault":"418"}`, `{"fault":1}`, `{`, `{"fallt":"500"}`, `{"count":-1}`, `{"latency_ms":99999999}`, strings.Repeat(" ", 5000) + "{}"} {
			if status, got := c.get(http.MethodPost, "/control", body, nil); status != 400 {
				t.Errorf("%.40s: %d %s", body, status, got)
			}
		}
		if diff := cmp.Diff(before, p.Control()); diff != "" {
			t.Error(diff)
		}
	})
}
