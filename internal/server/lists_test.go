package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

// listServer has one model with three external endpoints, of which the second is disabled, and one without any.
func listServer(t *testing.T) *Server {
	t.Helper()
	m, lone := &hearth.Model{ID: "a/b", Name: "A B", Input: []string{"text", "image"}}, &hearth.Model{ID: "a/free:free"}
	p := &hearth.Provider{Slug: "acme", Name: "Acme AI", Kind: hearth.External, Currency: "KRW"}
	price := hearth.Price{Prompt: decimal.New(30, 0), Completion: decimal.New(150, 0)}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m, lone}, Providers: []*hearth.Provider{p}, Aliases: map[string]string{"short": "a/b"},
		Endpoints: []*hearth.Endpoint{
			{Model: m, Provider: p, Tag: "acme", Priority: 50, List: price},
			{Model: m, Provider: p, Tag: "acme/off", Priority: 10, Disabled: true, Params: hearth.MustParams("top_k")},
			{Model: m, Provider: p, Tag: "acme/fp8", Priority: 20, List: price, Context: 4096, MaxOutput: 512, Quantization: "fp8", Input: []string{"text"},
				Params: hearth.MustParams("tools", "max_tokens", "min_p")},
		}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return New(Options{PublicCatalog: true}, Parts{Catalog: c, Health: health.NewTracker(c), Windows: routing.NewWindows(len(c.Endpoints))})
}

// list is the endpoints list of a model under a name, by tag, and the tags in order.
func (s *Server) list(t *testing.T, name string) (byTag map[string]map[string]any, tags []string, raw string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/models/"+name+"/endpoints", nil))
	var doc struct {
		Data struct {
			ID        string           `json:"id"`
			Endpoints []map[string]any `json:"endpoints"`
		} `json:"data"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc, json.RejectUnknownMembers(false)); err != nil || w.Code != 200 {
		t.Fatalf("%s: %d %s: %v", name, w.Code, w.Body, err)
	}
	byTag = make(map[string]map[string]any)
	for _, e := range doc.Data.Endpoints {
		tags = append(tags, e["tag"].(string))
		byTag[e["tag"].(string)] = e
	}
	return byTag, tags, w.Body.String()
}

func TestEndpoints_InTurn(t *testing.T) {
	s := listServer(t)
	_, tags, raw := s.list(t, "a/b")
	if d := cmp.Diff([]string{"acme/off", "acme/fp8", "acme"}, tags); d != "" {
		t.Error(d)
	}
	got := regexp.MustCompile(`"status":[^,]*`).FindAllString(raw, -1)
	if d := cmp.Diff([]string{`"status":-10`, `"status":0`, `"status":0`}, got); d != "" {
		t.Errorf("what grep prints: %s", d)
	}
	t.Run("own endpoints lead among those of one priority", func(t *testing.T) {
		own, ext := &hearth.Provider{Kind: hearth.Local}, &hearth.Provider{Kind: hearth.External}
		m := &hearth.Model{Endpoints: []*hearth.Endpoint{
			{Tag: "x0", Provider: ext}, {Tag: "l0", Provider: own}, {Tag: "l0b", Provider: own}, {Tag: "x9", Provider: ext, Priority: 9}, {Tag: "l9", Provider: own, Priority: 9},
		}}
		var tags []string
		for _, e := range inTurn(m) {
			tags = append(tags, e.Tag)
		}
		if d := cmp.Diff([]string{"l0", "l0b", "x0", "l9", "x9"}, tags); d != "" {
			t.Error(d)
		}
	})
}

func TestEndpoints_Abilities(t *testing.T) {
	s := listServer(t)
	list, _, _ := s.list(t, "a/b")
	names := func(tag string) []string {
		var out []string
		for _, n := range list[tag]["supported_parameters"].([]any) {
			out = append(out, n.(string))
		}
		return out
	}
	if d := cmp.Diff(hearth.UsualParams.Names(), names("acme")); d != "" {
		t.Errorf("nothing is declared: %s", d)
	}
	if d := cmp.Diff([]string{"max_tokens", "min_p", "tools"}, names("acme/fp8")); d != "" {
		t.Errorf("declared: %s", d)
	}
	for tag, want := range map[string]string{
		"acme": "auto:true function:true none:true required:true", "acme/fp8": "auto:true function:false none:false required:false",
		"acme/off": "auto:false function:false none:false required:false",
	} {
		if got := fmt.Sprint(list[tag]["supports_tool_choice"]); got != "map["+want+"]" {
			t.Errorf("%s: supports_tool_choice %s, want %s", tag, got, want)
		}
	}
	e := list["acme/fp8"]
	if e["quantization"] != "fp8" || e["context_length"] != 4096.0 || e["max_completion_tokens"] != 512.0 || fmt.Sprint(e["input_modalities"]) != "[text]" {
		t.Errorf("%v", e)
	}
	if e := list["acme"]; e["quantization"] != nil || e["context_length"] != 0.0 || e["input_modalities"] != nil {
		t.Errorf("%v", e)
	}
	m := s.modelJSON(s.Catalog.Model("a/b"), hearth.Money{Currency: "KRW"})
	if !slices.Contains(m.Supported, "min_p") || !slices.Contains(m.Supported, "seed") || slices.Contains(m.Supported, "top_k") {
		t.Errorf("the model takes %v", m.Supported)
	}
	if m.TopProvider.MaxCompletion == nil || *m.TopProvider.MaxCompletion != 512 || m.Architecture.Modality != "text+image->text" {
		t.Errorf("the top provider is %+v of %+v", m.TopProvider, m.Architecture)
	}
}

func TestEndpoints_Measured(t *testing.T) {
	s := listServer(t)
	list, _, raw := s.list(t, "a/b")
	for _, key := range []string{"uptime_last_5m", "uptime_last_30m", "uptime_last_1d", "latency_last_30m", "throughput_last_30m", "error_rate_last_30m", "rate_429_last_30m"} {
		if v, ok := list["acme"][key]; v != nil || !ok {
			t.Errorf("nothing was measured, yet %s is %v in %s", key, v, raw)
		}
	}
	now := time.Now()
	add := func(age time.Duration, o routing.Outcome, latency time.Duration) {
		s.Windows.Add(0, routing.Sample{At: now.Add(-age), Outcome: o, Latency: latency, Total: 4 * latency, Tokens: 100})
	}
	add(2*time.Hour, routing.Failed, 0)
	add(10*time.Minute, routing.Failed, 0)
	for i := range 4 {
		add(9*time.Minute, routing.Answered, time.Duration(i+1)*250*time.Millisecond)
	}
	add(time.Minute, routing.Limited, 0)
	add(time.Minute, routing.Limited, 0)
	add(0, routing.Answered, 2*time.Second)
	list, _, _ = s.list(t, "a/b")
	e := list["acme"]
	if e["uptime_last_5m"] != 100.0 || e["uptime_last_30m"] != 83.333 || e["uptime_last_1d"] != 71.429 {
		t.Errorf("uptime %v %v %v", e["uptime_last_5m"], e["uptime_last_30m"], e["uptime_last_1d"])
	}
	if e["attempts_last_30m"] != 8.0 || e["error_rate_last_30m"] != 0.125 || e["rate_429_last_30m"] != 0.25 {
		t.Errorf("rates %v %v of %v", e["error_rate_last_30m"], e["rate_429_last_30m"], e["attempts_last_30m"])
	}
	if d := cmp.Diff(map[string]any{"p50": 750.0, "p75": 1000.0, "p90": 2000.0, "p99": 2000.0}, e["latency_last_30m"]); d != "" {
		t.Errorf("latency in ms: %s", d)
	}
	if d := cmp.Diff(map[string]any{"p50": 33.333, "p75": 25.0, "p90": 12.5, "p99": 12.5}, e["throughput_last_30m"]); d != "" {
		t.Errorf("tokens per second: %s", d)
	}
	if list["acme/fp8"]["latency_last_30m"] != nil {
		t.Error("another endpoint's figures")
	}
	t.Run("without windows", func(t *testing.T) {
		s.Windows = nil
		list, _, _ := s.list(t, "a/b")
		if v, ok := list["acme"]["uptime_last_5m"]; v != nil || !ok {
			t.Errorf("%v", list["acme"])
		}
	})
}

func TestLookup_Suffixes(t *testing.T) {
	s := listServer(t)
	_, _, plain := s.list(t, "a/b")
	for _, name := range []string{"a/b:nitro", "a/b:floor", "a/b:exacto", "a/b:nitro:floor", "a%2Fb:nitro", "short:floor", "short"} {
		if _, _, got := s.list(t, name); got != plain {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, tags, raw := s.list(t, "a/free:free:nitro"); len(tags) != 0 || !strings.Contains(raw, `"id":"a/free:free"`) {
		t.Errorf("a model whose id has a colon: %s", raw)
	}
	for _, name := range []string{"a/b:free", "a/b:", "a/b:NITRO", ":nitro", "a/free"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/models/"+name+"/endpoints", nil))
		if w.Code != 404 || !strings.Contains(w.Body.String(), "model_not_found") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/model/a/b:nitro", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"id":"a/b"`) {
		t.Errorf("/model: %d %s", w.Code, w.Body)
	}
}
