package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"myip.co.kr/hearth"
)

// TestEngineWords: the words of the file and the engines that something is known of are the same.
func TestEngineWords(t *testing.T) {
	f, _ := reflect.TypeFor[Slot]().FieldByName("Engine")
	words := strings.Fields(f.Tag.Get("enum"))
	for _, w := range words {
		if _, ok := hearth.EngineOf(w); !ok {
			t.Errorf("engine: %s is nothing that is known", w)
		}
	}
	slices.Sort(words)
	if d := cmp.Diff(hearth.EngineNames(), words); d != "" {
		t.Errorf("known engines (-) and words of the file (+):\n%s", d)
	}
}

const declared = `
nodes:
  - name: gpu-1
    slots:
      - name: a
        model: x/a
        command: [engine, --port, "${port}"]
        engine: vllm
        strict_keys: true
        quantization: INT4
        parameters: [max_tokens, tools]
        input: [text, image]
        tool_quality: 0.75
      - {name: b, model: x/b, command: [engine, --port, "${port}"]}
providers:
  - slug: plain
    base_url: https://plain.example/v1
    models: [{model: x/a}, {model: x/b, parameters: [max_tokens, stop], tool_quality: 1}, {model: x/c, zdr: true}]
  - slug: kind
    base_url: https://kind.example/v1
    dialect: openrouter
    max_tokens_key: max_completion_tokens
    data_collection: deny
    models:
      - {model: x/a, parameters: [max_tokens, stop], input: [text, audio], quantization: fp8}
      - {model: x/b, data_collection: allow, parameters: [stop]}
  - slug: strict
    base_url: https://strict.example/v1
    zdr: true
    models: [{model: x/a}, {model: x/b, zdr: false}, {model: x/c, zdr: false, data_collection: deny}]
`

func TestDeclared(t *testing.T) {
	cat, err := parse(t, declared, nil).Catalog()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		ID           string
		Params       []string
		Input        []string
		NoCollection bool
		ZDR          bool
		ToolQuality  float64
		Quantization string
	}
	none := []string{}
	want := []row{
		{"local-gpu/gpu-1:x/a", []string{"max_tokens", "tools"}, []string{"text", "image"}, true, true, 0.75, "int4"},
		{"local-gpu/gpu-1:x/b", none, nil, true, true, 0, ""},
		{"plain:x/a", none, nil, false, false, 0, ""},
		{"plain:x/b", []string{"max_tokens", "stop"}, nil, false, false, 1, ""},
		{"plain:x/c", none, nil, true, true, 0, ""},
		{"kind:x/a", []string{"max_tokens", "max_completion_tokens", "stop"}, []string{"text", "audio"}, true, false, 0, "fp8"},
		{"kind:x/b", []string{"stop"}, nil, false, false, 0, ""},
		{"strict:x/a", none, nil, true, true, 0, ""},
		{"strict:x/b", none, nil, false, false, 0, ""},
		{"strict:x/c", none, nil, true, false, 0, ""},
	}
	var got []row
	for _, e := range cat.Endpoints {
		got = append(got, row{e.ID, e.Params.Names(), e.Input, e.NoCollection, e.ZDR, e.ToolQuality, e.Quantization})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("endpoints (-want +got):\n%s", d)
	}
	if a, b := cat.Slots[0], cat.Slots[1]; a.Engine != "vllm" || !a.StrictKeys || b.Engine != "" || b.StrictKeys {
		t.Errorf("slots %+v, %+v", a, b)
	}
	if p := cat.Providers[1]; p.Dialect != "openai" || p.MaxTokensKey != "" {
		t.Errorf("plain provider: dialect %q, key %q", p.Dialect, p.MaxTokensKey)
	}
	if p := cat.Providers[2]; p.Dialect != "openrouter" || p.MaxTokensKey != "max_completion_tokens" {
		t.Errorf("kind provider: dialect %q, key %q", p.Dialect, p.MaxTokensKey)
	}
}

func TestChainOptions(t *testing.T) {
	d := Default()
	if d.MaxAttempts != 0 || d.EarlyHeaders != 0 || d.KeepAlive != 10*time.Second || d.Cooldown.LastResort ||
		d.Request.MaxAnswerTotal != 256<<20 || d.Local.MediaURLs != "refuse" {
		t.Errorf("defaults %+v", d)
	}
	c := parse(t, `
max_attempts: 3
early_headers: 1s
keep_alive: 5s
cooldown: {last_resort: true}
request: {max_answer_total: 64MiB}
local: {media_urls: fetch}
`, nil)
	if c.MaxAttempts != 3 || c.EarlyHeaders != time.Second || c.KeepAlive != 5*time.Second || !c.Cooldown.LastResort ||
		c.Request.MaxAnswerTotal != 64<<20 || c.Local.MediaURLs != "fetch" {
		t.Errorf("read %+v", c)
	}
}
