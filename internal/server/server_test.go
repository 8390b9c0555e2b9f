package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// The routes are tested over real sockets with a whole gateway in internal/app; here is what needs none.

func catalogOf(t *testing.T) *hearth.Catalog {
	t.Helper()
	m := &hearth.Model{ID: "a/b"}
	p := &hearth.Provider{Slug: "acme", Name: "Acme AI", Kind: hearth.External, Currency: "KRW"}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{p},
		Endpoints: []*hearth.Endpoint{{Model: m, Provider: p, Tag: "acme"}}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResponses(t *testing.T) {
	s := &Server{Parts: Parts{Catalog: catalogOf(t)}}
	drop := func(before int, skip hearth.SkipReason) hearth.Drop {
		return hearth.Drop{Model: "a/b", Provider: "acme", Endpoint: fmt.Sprintf("d%d", before), Skip: skip, Before: before, Reason: "why"}
	}
	tried := func(name string, status int, skip hearth.SkipReason) hearth.Attempt {
		return hearth.Attempt{Model: "a/b", Endpoint: name, Status: status, Skip: skip, Latency: 2 * time.Second}
	}
	for _, c := range []struct {
		name    string
		g       hearth.Generation
		numeric bool
		want    []string
		dropped string // endpoints
	}{
		{"nothing happened", hearth.Generation{}, false, []string{}, ""},
		{"dropped ones stand where they would have been tried", hearth.Generation{
			Drops:    []hearth.Drop{drop(0, hearth.SkipContext), drop(1, hearth.SkipCooldown), drop(2, hearth.SkipRateLimited)},
			Attempts: []hearth.Attempt{tried("t0", 0, hearth.SkipBusy), tried("t1", 200, "")}, Endpoint: "t1",
		}, false, []string{"d0 context_length", "t0 slot_busy", "d1 cooldown", "t1 200"}, "d2"},
		{"all of them when nobody answered", hearth.Generation{
			Drops:    []hearth.Drop{drop(0, hearth.SkipContext), drop(1, hearth.SkipCooldown), drop(1, hearth.SkipRateLimited)},
			Attempts: []hearth.Attempt{tried("t0", 500, "")},
		}, false, []string{"d0 context_length", "t0 500", "d1 cooldown", "d1 rate_limited"}, ""},
		{"drops of one stage after those of another", hearth.Generation{
			Drops:    []hearth.Drop{drop(1, hearth.SkipContext), drop(0, ""), drop(0, hearth.SkipCooldown), drop(2, hearth.SkipOverBudget)},
			Attempts: []hearth.Attempt{tried("t0", 500, ""), tried("t1", 200, "")}, Endpoint: "t1",
		}, false, []string{"d0 cooldown", "t0 500", "d1 context_length", "t1 200"}, "d0 d2"},
		{"an upstream that was tried keeps its code although the caller left", hearth.Generation{
			Attempts: []hearth.Attempt{tried("t0", 200, hearth.SkipCancelled)}, Endpoint: "t0", Cancelled: true,
		}, false, []string{"t0 200"}, ""},
		{"none behind the one at which the caller left", hearth.Generation{
			Drops:    []hearth.Drop{drop(0, hearth.SkipContext), drop(1, hearth.SkipCooldown)},
			Attempts: []hearth.Attempt{tried("t0", 0, hearth.SkipCancelled)}, Cancelled: true,
		}, false, []string{"d0 context_length", "t0 cancelled"}, "d1"},
		{"what the caller excluded is left out", hearth.Generation{
			Drops: []hearth.Drop{drop(0, ""), drop(0, hearth.SkipCooldown)}, Attempts: []hearth.Attempt{tried("t0", 200, "")}, Endpoint: "t0",
		}, false, []string{"d0 cooldown", "t0 200"}, "d0"},
		{"no word where numbers are asked for", hearth.Generation{
			Drops: []hearth.Drop{drop(0, hearth.SkipContext)}, Attempts: []hearth.Attempt{tried("t0", 0, hearth.SkipLoading), tried("t1", 429, "")},
		}, true, []string{"d0 <nil>", "t0 <nil>", "t1 429"}, ""},
		{"neither a code nor a word", hearth.Generation{Attempts: []hearth.Attempt{tried("t0", 0, "")}}, false, []string{"t0 <nil>"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := []string{}
			responses, rest := s.responses(&c.g, c.numeric)
			for _, r := range responses {
				got = append(got, fmt.Sprint(r.EndpointID, " ", r.Status))
				if strings.HasPrefix(r.EndpointID, "d") && (r.ProviderName != "Acme AI" || r.SkipReason == nil || r.Message == nil) {
					t.Errorf("a dropped candidate without its name, word or reason: %+v", r)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			var names []string
			for _, d := range rest {
				names = append(names, d.Endpoint)
			}
			if got := strings.Join(names, " "); got != c.dropped || rest == nil {
				t.Errorf("dropped %q, want %q", got, c.dropped)
			}
		})
	}
}

// TestGenerationJSON checks that no key is ever left out: the official SDKs refuse a record without them.
func TestGenerationJSON(t *testing.T) {
	s := &Server{Parts: Parts{Catalog: catalogOf(t)}}
	keys := func(g *hearth.Generation) map[string]any {
		b, err := json.Marshal(s.generationJSON(g, hearth.Money{Currency: "KRW"}, false))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	empty := keys(&hearth.Generation{ID: "gen-1"})
	full := keys(&hearth.Generation{
		ID: "gen-1", Model: "a/b", Provider: "Acme AI", Endpoint: "acme:a/b", UpstreamID: "u", FinishReason: "stop", NativeFinish: "stop", Origin: "o",
		Requested: []string{"a/b"}, Unbilled: 4, FirstToken: time.Second, Generating: 2 * time.Second, Duration: 3 * time.Second, HTTP: 200,
		Usage: hearth.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 2, ReasoningTokens: 1, Reported: true},
		Bill: hearth.Bill{Cost: 1, Currency: "KRW", Tariff: "above 5", Reported: true, ListIn: "USD", Rate: decimal.New(1390, 0), Upstream: decimal.New(123, -12),
			List: &hearth.Price{Prompt: decimal.New(1, -6), CacheRead: decimal.New(2, 0), CacheWrite: decimal.New(3, 0), Reasoning: decimal.New(4, 0), Image: decimal.New(5, 0), Request: decimal.New(6, 0)}},
	})
	for k := range full {
		if _, ok := empty[k]; !ok {
			t.Errorf("%s is left out of an empty record", k)
		}
	}
	for k, want := range map[string]any{
		"latency": 1000.0, "generation_time": 2000.0, "duration": 3000.0, "usage": 0.000000001, "total_cost": 0.000000001, "native_tokens_cached": 2.0,
		"native_tokens_reasoning": 1.0, "usage_source": "upstream", "unbilled_events": 4.0, "cache_discount": nil, "router": nil,
	} {
		if full[k] != want {
			t.Errorf("%s = %v, want %v", k, full[k], want)
		}
	}
	if c := full["cost_details"].(map[string]any); c["provider_cost"] != "0.000000000123" || c["list_price_prompt"] != "0.000001" || c["exchange_rate"] != "1390" ||
		c["list_price_cache_read"] != "2" || c["list_price_cache_write"] != "3" || c["list_price_reasoning"] != "4" || c["list_price_image"] != "5" || c["list_price_request"] != "6" ||
		c["tariff"] != "above 5" || c["price_reported"] != true {
		t.Errorf("cost_details %v", c)
	}
	if c := empty["cost_details"].(map[string]any); c["tariff"] != nil || c["price_reported"] != false || len(c) != len(full["cost_details"].(map[string]any)) {
		t.Errorf("cost_details of an empty record %v", c)
	}
	if empty["usage_source"] != "none" || empty["latency"] != nil || empty["requested_models"] == nil {
		t.Errorf("empty record %v", empty)
	}
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/api/v1/x", "/api/v1/x"}, {"한글", "한글"}, {"a\x1b[31m\r\n\x00", `a\x1b[31m\r\n\x00`}, {"\xff", `\xff`}, {`"`, `\"`},
		{strings.Repeat("한", 40), strings.Repeat("한", 26) + "…"},
	} {
		if got := printable(c.in); got != c.want {
			t.Errorf("printable(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	var log strings.Builder
	s := &Server{Parts: Parts{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	run := func(h handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.wrap(h)(w, httptest.NewRequest(http.MethodGet, "/x", nil))
		return w
	}
	t.Run("a panic is a 500 that tells nothing, and is logged", func(t *testing.T) {
		w := run(func(http.ResponseWriter, *http.Request) error { panic("/etc/secret") })
		if w.Code != 500 || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"type":"internal"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if !strings.Contains(log.String(), "/etc/secret") || !strings.Contains(log.String(), "server_test.go") {
			t.Errorf("log %s", log.String())
		}
	})
	t.Run("a handler that hangs up on purpose may", func(t *testing.T) {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("recovered %v", err)
			}
		}()
		run(func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) })
	})
	t.Run("an error of ours goes out, its cause does not", func(t *testing.T) {
		e := hearth.Errorf(hearth.ErrOverloaded, "later")
		e.RetryAfter, e.Err = 1500*time.Millisecond, fmt.Errorf("disk /dev/sda full")
		w := run(func(http.ResponseWriter, *http.Request) error { return fmt.Errorf("wrapped: %w", e) })
		if w.Code != 503 || w.Header().Get("Retry-After") != "2" || w.Header().Get("X-Should-Retry") != "" || strings.Contains(w.Body.String(), "sda") {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if !strings.Contains(log.String(), "/dev/sda") {
			t.Errorf("log %s", log.String())
		}
	})
	t.Run("any other error is a 500 that tells nothing", func(t *testing.T) {
		w := run(func(http.ResponseWriter, *http.Request) error { return fmt.Errorf("open /srv/hearth.db: denied") })
		if w.Code != 500 || strings.Contains(w.Body.String(), "hearth.db") || !strings.Contains(log.String(), "hearth.db") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// deadlined is a writer that notes its deadline.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error { d.until = t; return nil }

// Whoever asks for a list and does not read it must not hold a connection for ever.
func TestAnswersHaveADeadline(t *testing.T) {
	s := &Server{Parts: Parts{Catalog: catalogOf(t), Log: slog.New(slog.DiscardHandler)}}
	for name, write := range map[string]func(http.ResponseWriter, *http.Request){
		"list":  func(w http.ResponseWriter, r *http.Request) { _ = s.models(w, r) },
		"error": func(w http.ResponseWriter, r *http.Request) { s.writeError(w, r, errors.New("broken")) },
	} {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		write(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if left := time.Until(w.until); left <= 0 || left > time.Minute || w.Body.Len() == 0 {
			t.Errorf("%s: %d bytes, deadline in %s", name, w.Body.Len(), left)
		}
	}
}
