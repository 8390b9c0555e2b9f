package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/store"
)

// house is a data directory with a configuration, and what a gateway would have recorded there.
type house struct {
	dir, config string
	keys        map[string]string // ids by name
}

const houseConfig = `currency: KRW
timezone: Asia/Seoul
data_dir: data
exchange_rates: {USD: 1000}
aliases: {small: a/b}
nodes:
  - name: gpu-1
    slots:
      - {name: s, model: a/b, command: [no-such-engine, "${port}"], concurrency: 2, price: {prompt: 30, completion: 150}}
providers:
  - slug: acme
    base_url: https://acme.example/v1
    api_key: ${env:NOT_SET_HERE}
    margin: 5%
    models:
      - {model: a/b, price: {prompt: 0.1, completion: 0.4}}
      - {model: c/d, price: {prompt: 1, completion: 2}}
  - slug: cheap
    base_url: https://cheap.example/v1
    api_key: ${env:NOT_SET_HERE}
    models:
      - {model: a/b, price: {prompt: 0.08, completion: 0.3}}
`

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{dir: t.TempDir(), keys: make(map[string]string)}
	h.config = filepath.Join(h.dir, "hearth.yaml")
	if err := os.WriteFile(h.config, []byte(houseConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(h.dir, "data", "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// key makes a key.
func (h *house) key(t *testing.T, name string) string {
	t.Helper()
	st := h.open(t)
	defer st.Close()
	n := byte(len(h.keys) + 1)
	k := hearth.Key{ID: fmt.Sprintf("key-%026d", n), Hash: hearth.KeyHash{n}, Name: name, Label: "sk-myip-" + name, CreatedAt: time.UnixMilli(int64(n))}
	if err := st.InsertKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	h.keys[name] = k.ID
	return k.ID
}

// record has the records written as a gateway does.
func (h *house) record(t *testing.T, list ...*hearth.Generation) {
	t.Helper()
	st := h.open(t)
	defer st.Close()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(h.dir, "data", "journal"), MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	l, err := ledger.Open(t.Context(), j, st, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if err := l.Record(g); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// hearth runs a command with the house's configuration.
func (h *house) hearth(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(append(args, "-c", h.config), streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// must is hearth for a command that goes well and has nothing to say.
func (h *house) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := h.hearth(args...)
	if code != 0 || errs != "" {
		t.Fatalf("hearth %v: %d\n%s%s", args, code, out, errs)
	}
	return out
}

var seoul = time.FixedZone("KST", 9*3600)

// answered is the record of an answer: 1000 prompt tokens and 100 completion tokens.
func answered(id, key, slug, model string, at time.Time) *hearth.Generation {
	list, rate, margin, in := price("30", "150"), decimal.NewFromInt(1), decimal.Zero, "KRW"
	cost, prompt, up := hearth.Nano(45_000_000), hearth.Nano(30_000_000), "0.045"
	endpoint := slug + ":" + model
	if slug == "acme" { // (0.1 × 1000 + 0.4 × 100) / 1,000,000 USD × 1000 × 1.05
		list, rate, margin, in = price("0.1", "0.4"), decimal.NewFromInt(1000), decimal.New(5, -2), "USD"
		cost, prompt, up = 147_000_000, 105_000_000, "0.00014"
	} else {
		endpoint = "local-gpu/gpu-1:" + model
	}
	return &hearth.Generation{
		ID: id, KeyID: key, APIType: "completions", CreatedAt: at, Requested: []string{model}, Estimate: 1200,
		Attempts: []hearth.Attempt{{Model: model, Provider: slug, Slug: slug, Endpoint: endpoint, Status: 200, Verdict: hearth.Served}},
		Model:    model, Slug: slug, Provider: slug, Endpoint: endpoint, FinishReason: "stop",
		Usage: hearth.Usage{PromptTokens: 1000, CompletionTokens: 100, Reported: true},
		Bill: hearth.Bill{Cost: cost, PromptCost: prompt, CompletionCost: cost - prompt, Currency: "KRW", List: &list, ListIn: in,
			Rate: rate, Margin: margin, Upstream: decimal.RequireFromString(up)},
		HTTP: 200, FirstToken: 1_500_000, Duration: 2_000_000_000, Generating: 1_900_000_000,
	}
}

func price(prompt, completion string) hearth.Price {
	p, c := decimal.RequireFromString(prompt), decimal.RequireFromString(completion)
	return hearth.Price{Prompt: p, Completion: c, CacheRead: p, CacheWrite: p, Reasoning: c}
}

func TestExport(t *testing.T) {
	h := newHouse(t)
	job, other := h.key(t, "nightly job"), h.key(t, "other")
	night := time.Date(2026, 11, 30, 23, 59, 59, 0, seoul)
	odd := answered("gen-3", other, "local-gpu", "a/b", night.Add(time.Second))
	odd.Title, odd.Referer, odd.UserAgent, odd.Images = `=HYPERLINK("http://evil.example")`, "https://app.example/, \"x\"\nnext", "-5", 2
	h.record(t, answered("gen-1", job, "local-gpu", "a/b", night.Add(-time.Hour)), answered("gen-2", job, "acme", "c/d", night), odd)

	ids := func(args ...string) string {
		t.Helper()
		var list []string
		for line := range strings.Lines(h.must(t, append([]string{"records", "export"}, args...)...)) {
			v := jsontext.Value(strings.TrimSuffix(line, "\n"))
			if !v.IsValid() {
				t.Fatalf("no JSON: %s", line)
			}
			id, _, _ := strings.Cut(line[len(`{"id":"`):], `"`)
			list = append(list, id)
		}
		return strings.Join(list, " ")
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all":                       {nil, "gen-1 gen-2 gen-3"},
		"a day in the zone":         {[]string{"--from", "2026-11-30", "--to", "2026-11-30"}, "gen-1 gen-2"},
		"the day after":             {[]string{"--from", "2026-12-01"}, "gen-3"},
		"up to an instant":          {[]string{"--to", "2026-11-30T23:59:59+09:00"}, "gen-1"},
		"from an instant elsewhere": {[]string{"--from", "2026-11-30T14:59:59Z"}, "gen-2 gen-3"},
		"of a key by name":          {[]string{"--key", "nightly job"}, "gen-1 gen-2"},
		"of a key by id":            {[]string{"--key", other}, "gen-3"},
		"of a key that is no more":  {[]string{"--key", "key-gone"}, ""},
		"of a model by alias":       {[]string{"--model", "small"}, "gen-1 gen-3"},
		"of a model of before":      {[]string{"--model", "x/y"}, ""},
		"of all three":              {[]string{"--model", "c/d", "--key", job, "--from", "2026-11-30"}, "gen-2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(c.args...); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--from", "yesterday", `"yesterday" is neither a day`},
		{"--from", "2026-11-31", "neither a day"},
		{"--key", "nobody", `no key has the id, name or label "nobody"`},
		{"--format", "xml", "--format must be one of"},
	} {
		t.Run("mistake "+c.value, func(t *testing.T) {
			if code, out, errs := h.hearth("records", "export", c.flag, c.value); code == 0 || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("%d %q %q", code, out, errs)
			}
		})
	}
	t.Run("a time that ends before it begins", func(t *testing.T) {
		if code, _, errs := h.hearth("records", "export", "--from", "2026-12-01", "--to", "2026-11-30"); code == 0 || !strings.Contains(errs, "ends before it begins") {
			t.Errorf("%d %q", code, errs)
		}
	})
	t.Run("csv", func(t *testing.T) {
		rows, err := csv.NewReader(strings.NewReader(h.must(t, "records", "export", "--format", "csv", "--from", "2026-11-30T14:59:59Z"))).ReadAll()
		if err != nil || len(rows) != 3 {
			t.Fatal(rows, err)
		}
		got := make(map[string]string)
		for i, name := range rows[0] {
			got[name] = rows[2][i]
		}
		want := map[string]string{
			"id": "gen-3", "created_at": "2026-12-01T00:00:00+09:00", "key_id": other, "key": "other", "requested": "a/b", "model": "a/b",
			"provider": "local-gpu", "endpoint": "local-gpu/gpu-1:a/b", "streamed": "false", "http": "200", "error": "", "cancelled": "false",
			"finish_reason": "stop", "usage_reported": "true", "prompt_tokens": "1000", "cached_tokens": "0", "cache_write_tokens": "0",
			"completion_tokens": "100", "reasoning_tokens": "0", "images": "2", "unbilled": "0", "cost": "0.045", "currency": "KRW",
			"upstream_cost": "0.045", "upstream_currency": "KRW", "rate": "1", "margin": "0", "tariff": "", "first_token_s": "0.0015",
			"duration_s": "2", "attempts": "1", "referer": "https://app.example/, \"x\"\nnext", "title": `'=HYPERLINK("http://evil.example")`, "user_agent": "-5",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		for i, name := range rows[0] {
			if rows[1][i] != "0.147" && name == "cost" || rows[1][i] != "0.00014" && name == "upstream_cost" || rows[1][i] != "0.05" && name == "margin" {
				t.Errorf("%s is %s", name, rows[1][i])
			}
		}
	})
	t.Run("into a file, whole or not at all", func(t *testing.T) {
		file := filepath.Join(h.dir, "out.jsonl")
		h.must(t, "records", "export", "-o", file)
		whole, err := os.ReadFile(file)
		if err != nil || strings.Count(string(whole), "\n") != 3 {
			t.Errorf("%q, %v", whole, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if code, _, errs := h.hearth("records", "export", "--key", "nobody", "-o", file); code == 0 || errs == "" {
			t.Errorf("%d %q", code, errs)
		}
		if code, _, errs := h.hearth("records", "export", "-o", filepath.Join(h.dir, "nowhere", "x")); code == 0 || !strings.Contains(errs, "no such file") {
			t.Errorf("%d %q", code, errs)
		}
		st := h.open(t) // a record that cannot be read, in the middle of the way
		broken := store.NewRow(99, answered("gen-99", job, "local-gpu", "a/b", night), []byte(`{"id":`))
		if _, err := st.Apply(t.Context(), "another", 99, []store.Row{broken}); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := h.hearth("records", "export", "-o", file); code == 0 || !strings.Contains(errs, "read record gen-99") {
			t.Errorf("%d %q", code, errs)
		}
		again, _ := os.ReadFile(file)
		left, _ := filepath.Glob(filepath.Join(h.dir, ".out*"))
		if string(again) != string(whole) || left != nil {
			t.Errorf("what failed changed %q, or left %v", again, left)
		}
	})
}

// Before a gateway has run there is nothing to export, and nothing is made.
func TestExport_Nothing(t *testing.T) {
	h := newHouse(t)
	code, _, errs := h.hearth("records", "export")
	if _, err := os.Stat(filepath.Join(h.dir, "data")); code == 0 || !strings.Contains(errs, "there are no records") || err == nil {
		t.Errorf("%d %q, %v", code, errs, err)
	}
}

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "1.5": "1.5", "-1.5": "-1.5", "+3": "+3", "=1+1": "'=1+1", "@sum": "'@sum", "-1+cmd|' /C calc'!A0": "'-1+cmd|' /C calc'!A0",
		"\t=1": "'\t=1", "한국어": "한국어", "-": "'-",
	} {
		if got := cell(text); got != want {
			t.Errorf("cell(%q) = %q, want %q", text, got, want)
		}
	}
}
