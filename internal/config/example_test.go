package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
)

const exampleFile = "../../hearth.example.yaml"

// only returns an environment that has exactly the given variables.
func only(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func loadExample(t *testing.T) *Config {
	t.Helper()
	c, err := Load(exampleFile, only(map[string]string{"OPENROUTER_API_KEY": "sk-or-test"}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func decimalsEqual(a, b decimal.Decimal) bool { return a.Equal(b) }

func TestExampleCatalog(t *testing.T) {
	c := loadExample(t)
	cat, err := c.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	n := decimal.RequireFromString
	type row struct {
		ID, Provider string
		Priority     int
		Context      int
		Prompt, Out  decimal.Decimal
		Upstream     string
	}
	var got []row
	for _, e := range cat.Endpoints {
		got = append(got, row{e.ID, e.Provider.Name, e.Priority, e.Context, e.Price.Prompt, e.Price.Completion, e.UpstreamModel})
	}
	want := []row{
		{"local-gpu/gpu-1:google/gemma-4-26b-a4b", "MyIP Local GPU", 0, 32768, n("30"), n("150"), "google/gemma-4-26b-a4b"},
		{"local-gpu/gpu-1:lgai/exaone-4.0-32b", "MyIP Local GPU", 0, 32768, n("30"), n("150"), "lgai/exaone-4.0-32b"},
		{"openrouter:google/gemma-4-26b-a4b", "OpenRouter", 50, 131072, n("189.735"), n("583.8"), "google/gemma-4-26b-a4b-it"},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(decimalsEqual)); d != "" {
		t.Errorf("endpoints (-want +got):\n%s", d)
	}
	if len(cat.Nodes) != 1 || !cat.Nodes[0].Exclusive || cat.Nodes[0].Turn != 10*time.Second || cat.Nodes[0].MinResident != 5*time.Second {
		t.Errorf("nodes: %+v", cat.Nodes)
	}
	if m := cat.Resolve("gpt-4o-mini"); m == nil || m.ID != cat.DefaultModel || m.Name != "Gemma 4 26B A4B" {
		t.Errorf("alias gpt-4o-mini leads to %+v", m)
	}
	if loc, err := c.Location(); err != nil || loc.String() != "Asia/Seoul" {
		t.Errorf("location %v, %v", loc, err)
	}
	if got, want := c.DataDir, filepath.Join("..", "..", "hearth-data"); got != want {
		t.Errorf("data_dir %q, want %q: relative to the file", got, want)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("the example has warnings:\n%v", Problems(w))
	}
}

func TestExampleSlotsAndLimits(t *testing.T) {
	cat, err := loadExample(t).Catalog()
	if err != nil {
		t.Fatal(err)
	}
	want := []*hearth.Slot{{
		Index: 0, Name: "gemma", Driver: "exec", Engine: "llama-server", OnExit: "stop", Context: 32768, Probe: "/health", Concurrency: 1, Queue: 64,
		Wait: 90 * time.Second, QueueWait: 10 * time.Second, ExpectedLoad: 30 * time.Second,
		StartTimeout: 10 * time.Minute, StopGrace: 10 * time.Second, DrainMax: 10 * time.Minute, IdleSleep: 30 * time.Minute,
		Command: []string{"llama-server", "--model", "/srv/models/gemma-4-26b-a4b-Q4_K_M.gguf", "--alias", "${model}", "--host", "127.0.0.1",
			"--port", "${port}", "--ctx-size", "32768", "--parallel", "1", "--n-gpu-layers", "999"},
		Env: map[string]hearth.Secret{"LLAMA_API_KEY": "${api_key}"},
	}, {
		Index: 1, Name: "exaone", Driver: "exec", Engine: "llama-server", OnExit: "stop", Context: 32768, Probe: "/health", Concurrency: 1, Queue: 64,
		Wait: 90 * time.Second, QueueWait: 10 * time.Second, ExpectedLoad: 30 * time.Second,
		StartTimeout: 10 * time.Minute, StopGrace: 10 * time.Second, DrainMax: 10 * time.Minute, IdleSleep: 30 * time.Minute,
		Command: []string{"llama-server", "--model", "/srv/models/EXAONE-4.0-32B-Q4_K_M.gguf", "--alias", "${model}", "--host", "127.0.0.1",
			"--port", "${port}", "--ctx-size", "32768", "--parallel", "1", "--n-gpu-layers", "999"},
		Env: map[string]hearth.Secret{"LLAMA_API_KEY": "${api_key}"},
	}}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { f := p.Last().String(); return f == ".Node" || f == ".Model" }, cmp.Ignore())
	if d := cmp.Diff(want, cat.Slots, ignore); d != "" {
		t.Errorf("slots (-want +got):\n%s", d)
	}
	local, external := cat.Providers[0], cat.Providers[1]
	if local.Slug != hearth.LocalSlug || local.Kind != hearth.Local || !local.Margin.IsZero() {
		t.Errorf("local provider: %+v", local)
	}
	limits := hearth.Limits{Connect: 5 * time.Second, FirstByte: 180 * time.Second, Answer: 600 * time.Second, Idle: time.Minute, Total: 30 * time.Minute}
	if d := cmp.Diff(limits, local.Limits); d != "" {
		t.Errorf("local limits (-want +got):\n%s", d)
	}
	limits.FirstByte = 30 * time.Second
	if d := cmp.Diff(limits, external.Limits); d != "" {
		t.Errorf("external limits (-want +got):\n%s", d)
	}
	if external.APIKey.Reveal() != "sk-or-test" || external.BaseURL != "https://openrouter.ai/api/v1" || external.Margin.String() != "0.05" {
		t.Errorf("external provider: key %q, base %q, margin %s", external.APIKey.Reveal(), external.BaseURL, external.Margin)
	}
}

func TestExampleWithoutItsVariable(t *testing.T) {
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	line := 1 + strings.Count(string(data[:strings.Index(string(data), "api_key: ")]), "\n")
	_, err = Load(exampleFile, only(nil))
	want := fmt.Sprintf("%s:%d: providers[0].api_key: needs the environment variable OPENROUTER_API_KEY, which is not set; export OPENROUTER_API_KEY=… or use api_key_file", exampleFile, line)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestExamplesOfEngines reads every file under docs/examples and every whole configuration in the README.
func TestExamplesOfEngines(t *testing.T) {
	env := only(map[string]string{"OPENROUTER_API_KEY": "sk-or-test", "VLLM_API_KEY": "sk-vllm-test", "GPU_2_TOKEN": "0123456789abcdef0123"})
	files, err := filepath.Glob("../../docs/examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %v, %v", files, err)
	}
	texts := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(f)] = string(data)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if strings.Contains("\n"+block[1], "\nnodes:") || strings.Contains("\n"+block[1], "\nproviders:") {
			texts[fmt.Sprintf("README block %d", i+1)] = block[1]
		}
	}
	drivers := map[string]bool{}
	defer func() {
		for _, d := range []string{"exec", "command", "http", "docker", "always"} {
			if !drivers[d] {
				t.Errorf("no example of driver %s", d)
			}
		}
	}()
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(name, []byte(text), env, nil)
			if err != nil {
				t.Fatal(err)
			}
			if cat, err := c.Catalog(); err != nil || cat.Resolve(c.DefaultModel) == nil || len(cat.Endpoints) == 0 {
				t.Errorf("catalog %+v, %v", cat, err)
			}
			for _, n := range c.Nodes {
				for _, s := range n.Slots {
					drivers[s.Driver] = true
				}
			}
			for _, w := range c.Warnings() {
				if w.Path != "nodes" && w.Path != "providers" { // one of the two is left out in a short example
					t.Errorf("warning: %s", w)
				}
			}
		})
	}
}
