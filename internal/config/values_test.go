package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
	"pgregory.net/rapid"
)

// parse reads text that must be right.
func parse(t *testing.T, text string, env map[string]string) *Config {
	t.Helper()
	c, err := Parse("hearth.yaml", []byte(text), only(env), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDecimals(t *testing.T) {
	for _, tc := range []struct{ written, want string }{
		{"0.1", "0.1"}, {`"0.1"`, "0.1"}, {"30", "30"}, {"030", "30"}, {"+2.50", "2.5"},
		{"0.000000001", "0.000000001"},
		{"123456789012345678.123456789012345678", "123456789012345678.123456789012345678"},
		{"9007199254740993", "9007199254740993"}, // 2⁵³ + 1: a float cannot hold it
	} {
		t.Run(tc.written, func(t *testing.T) {
			c := parse(t, "exchange_rates: {EUR: "+tc.written+"}", nil)
			if got := c.ExchangeRates["EUR"]; got.String() != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestDecimalsAreExact writes any decimal, quoted or not, and reads the same one.
func TestDecimalsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,18}(\.[0-9]{1,18})?`).Draw(rt, "text")
		written := text
		if rapid.Bool().Draw(rt, "quoted") {
			written = `"` + text + `"`
		}
		c, err := Parse("x", []byte("providers: [{slug: a, base_url: 'https://a.example', models: [{model: a/b, price: {prompt: "+written+", completion: 0}}]}]"), nil, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if got := c.Providers[0].Models[0].Price.Prompt; !got.Equal(decimal.RequireFromString(text)) {
			rt.Fatalf("%s was read as %s", text, got)
		}
	})
}

func TestMargins(t *testing.T) {
	for written, want := range map[string]string{"5%": "0.05", "0.05": "0.05", `"5 %"`: "0.05", "0": "0", "1": "1", "150%": "1.5", "-10%": "-0.1", "-100%": "-1", "10000%": "100", "7.25%": "0.0725"} {
		t.Run(written, func(t *testing.T) {
			if got := parse(t, "margin: "+written, nil).Margin; got.String() != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestDurationsAndSizes(t *testing.T) {
	c := parse(t, `
shutdown: {grace: 1m30s, lame_duck: 0}
request: {max_body: 2 MiB, max_body_total: 3MB}
records: {max_journal: "1048576", max_age: 400d, max_size: 20GiB}
`, nil)
	if c.Records.MaxAge != 400*24*time.Hour || c.Records.MaxSize != 20<<30 {
		t.Errorf("records %+v", c.Records)
	}
	if c.Shutdown.Grace != 90*time.Second || c.Shutdown.LameDuck != 0 {
		t.Errorf("shutdown %+v", c.Shutdown)
	}
	if c.Request.MaxBody != 2<<20 || c.Request.MaxBodyTotal != 3_000_000 || c.Records.MaxJournal != 1<<20 {
		t.Errorf("sizes %+v %+v", c.Request, c.Records)
	}
}

// TestPricesAndRates computes 0.1 USD × 1390 × 1.05 without a float anywhere.
func TestPricesAndRates(t *testing.T) {
	c := parse(t, `
currency: KRW
exchange_rates: {USD: 1390.1}
margin: 5%
providers:
  - slug: acme
    base_url: https://acme.example/v1/
    models:
      - {model: google/gemma, price: {prompt: 0.1, completion: 0.4, cache_read: 0.025, image: 0.001, request: 0.0001}}
      - {model: google/gemma, variant: fp8, price: {prompt: 0.1, completion: 0.4, cache_write: 0.2, reasoning: 1}}
      - {model: google/gemma, variant: own, margin: 0%, price: {prompt: 0.1, completion: 0.4, steps: [{above: 5, prompt: 1}]}}
  - slug: won
    base_url: https://won.example
    currency: KRW
    margin: 0%
    models: [{model: google/gemma, price: {prompt: 40, completion: 200}}]
`, nil)
	cat, err := c.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	n := decimal.RequireFromString
	factor := n("1459.605")
	want := map[string]hearth.Price{
		"acme:google/gemma":     hearth.Price{Prompt: n("0.1"), Completion: n("0.4"), CacheRead: n("0.025"), CacheWrite: n("0.1"), Reasoning: n("0.4"), Image: n("0.001"), Request: n("0.0001")}.Times(factor),
		"acme/fp8:google/gemma": hearth.Price{Prompt: n("0.1"), Completion: n("0.4"), CacheRead: n("0.1"), CacheWrite: n("0.2"), Reasoning: n("1")}.Times(factor),
		"acme/own:google/gemma": hearth.Price{Prompt: n("0.1"), Completion: n("0.4"), CacheRead: n("0.1"), CacheWrite: n("0.1"), Reasoning: n("0.4")}.Times(n("1390.1")),
		"won:google/gemma":      {Prompt: n("40"), Completion: n("200"), CacheRead: n("40"), CacheWrite: n("40"), Reasoning: n("200")},
	}
	got := map[string]hearth.Price{}
	for _, e := range cat.Endpoints {
		got[e.ID] = e.Price
	}
	if d := cmp.Diff(want, got, cmp.Comparer(decimalsEqual)); d != "" {
		t.Errorf("prices (-want +got):\n%s", d)
	}
	for i, want := range []string{"0.05", "0.05", "0", "0"} {
		if e := cat.Endpoints[i]; !e.Margin.Equal(n(want)) {
			t.Errorf("%s has the margin %s, want %s", e.ID, e.Margin, want)
		}
	}
	if got := cat.Endpoints[2].TariffAt(6, time.Time{}).Price.Prompt; !got.Equal(n("1390.1")) {
		t.Errorf("the step of an offer with a margin of its own is at %s", got)
	}
	if got := cat.Providers[0].BaseURL; got != "https://acme.example/v1" {
		t.Errorf("base URL %q keeps its final slash", got)
	}
}

func TestAnchors(t *testing.T) {
	c := parse(t, `
nodes:
  - name: gpu-1
    slots:
      - &base
        name: a
        model: x/a
        command: &command [engine, --port, "${port}"]
        wait: 7s
        price: &price {prompt: 1, completion: 2}
      - {<<: *base, name: b, model: x/b, wait: 8s}
      - {name: c, model: x/c, command: *command, price: {<<: *price, completion: 3}}
`, nil)
	a, b, last := c.Nodes[0].Slots[0], c.Nodes[0].Slots[1], c.Nodes[0].Slots[2]
	if b.Name != "b" || b.Wait != 8*time.Second || !b.Price.Completion.Equal(a.Price.Completion) || cmp.Diff(a.Command, b.Command) != "" {
		t.Errorf("merged slot %+v", b)
	}
	if last.Wait != 90*time.Second || !last.Price.Completion.Equal(decimal.New(3, 0)) || !last.Price.Prompt.Equal(decimal.New(1, 0)) {
		t.Errorf("slot with a merged price %+v", last)
	}
}

func TestEnvironment(t *testing.T) {
	// What a variable holds is never read as YAML and never expanded again.
	nasty := "a: b\n- {x}#${env:OTHER}"
	c := parse(t, `
data_dir: ${env:BASE}/data
nodes:
  - name: gpu-1
    slots:
      - name: a
        model: x/a
        command: ["${env:BASE}/engine", --port, "${port}", "${model}"]
        env: {NASTY: "${env:NASTY}", NOTHING: "${env:NOTHING}", BOTH: "${env:BASE}:${port}"}
providers:
  - {slug: p, base_url: "https://${env:HOST}/v1", api_key: "${env:KEY}", headers: {X-Team: "t-${env:KEY}"}}
`, map[string]string{"BASE": "/opt", "NASTY": nasty, "NOTHING": "", "HOST": "api.example", "KEY": "sk-1"})
	s, p := c.Nodes[0].Slots[0], c.Providers[0]
	if c.DataDir != "/opt/data" || p.BaseURL != "https://api.example/v1" || p.APIKey != "sk-1" || p.Headers["X-Team"] != "t-sk-1" {
		t.Errorf("data dir %q, provider %q %q %q", c.DataDir, p.BaseURL, p.APIKey.Reveal(), p.Headers["X-Team"].Reveal())
	}
	if d := cmp.Diff([]string{"/opt/engine", "--port", "${port}", "${model}"}, s.Command); d != "" {
		t.Errorf("command (-want +got):\n%s", d)
	}
	if s.Env["NASTY"].Reveal() != nasty || s.Env["NOTHING"] != "" || s.Env["BOTH"].Reveal() != "/opt:${port}" {
		t.Errorf("env %q", []string{s.Env["NASTY"].Reveal(), s.Env["NOTHING"].Reveal(), s.Env["BOTH"].Reveal()})
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("key", "\n sk-file \r\n")
	config := func(file string) string {
		return write("hearth.yaml", "providers: [{slug: p, base_url: 'https://p.example', api_key_file: "+file+"}]")
	}
	t.Run("trimmed, relative to the file", func(t *testing.T) {
		c, err := Load(config("key"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Providers[0].APIKey.Reveal(); got != "sk-file" {
			t.Errorf("key %q", got)
		}
		if shown := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(shown, "sk-file") {
			t.Errorf("a printed Config shows the key: %s", shown)
		}
	})
	t.Run("too large", func(t *testing.T) {
		write("big", strings.Repeat("k", maxSecretFile+1))
		_, err := Load(config("big"), nil)
		wantProblem(t, err, "providers[0].api_key_file", "names a file larger than 64 KiB")
	})
	t.Run("not allowed", func(t *testing.T) {
		_, err := Parse("x", []byte("providers: [{slug: p, base_url: 'https://p.example', api_key_file: k}]"), nil,
			func(string) ([]byte, error) { return nil, &os.PathError{Op: "open", Path: "k", Err: os.ErrPermission} })
		wantProblem(t, err, "providers[0].api_key_file", "cannot be read: permission denied")
	})
	t.Run("without a reader", func(t *testing.T) {
		_, err := Parse("x", []byte("providers: [{slug: p, base_url: 'https://p.example', api_key_file: k}]"), nil, nil)
		wantProblem(t, err, "providers[0].api_key_file", "cannot be read here")
	})
	t.Run("no configuration at all", func(t *testing.T) {
		_, err := Load(filepath.Join(dir, "nowhere.yaml"), nil)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

// wantProblem wants exactly one problem.
func wantProblem(t *testing.T, err error, path, message string) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Path != path || problems[0].Message != message {
		t.Errorf("got  %v\nwant %s: %s", err, path, message)
	}
}

// TestDefault is what an empty group of everything means.
func TestDefault(t *testing.T) {
	c, err := Parse("hearth.yaml", []byte("records:\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := Default()
	if diff := cmp.Diff(d.Local, c.Local); diff != "" {
		t.Errorf("local (-default +read):\n%s", diff)
	}
	if !cmp.Equal(c.Records, d.Records) || c.Shutdown != d.Shutdown || c.Request != d.Request || c.Listen != d.Listen || c.Currency != d.Currency {
		t.Errorf("read %+v, default %+v", c, d)
	}
	if d.Local.Limits.FirstByte != 180*time.Second || d.Request.MaxBodyTotal != 256<<20 || d.Records.MaxJournal != 1<<30 || !d.PublicCatalog || d.Shutdown.Grace != 25*time.Second {
		t.Errorf("defaults %+v", d)
	}
}
