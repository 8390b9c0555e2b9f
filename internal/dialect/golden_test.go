package dialect

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestAppendForward_golden sends one request, which sets everything at once, to every kind of upstream. The files in
// testdata/forward show what each of them gets.
func TestAppendForward_golden(t *testing.T) {
	raw, err := os.ReadFile("testdata/forward/request.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := DecodeChat(raw, bytesCount)
	if err != nil {
		t.Fatal(err)
	}
	engine := func(name string) Target {
		e, ok := hearth.EngineOf(name)
		if !ok {
			t.Fatalf("no engine %s", name)
		}
		return Target{Model: "local", StreamUsage: true, Running: e.Running, Drop: e.Deny, UserSalt: []byte("salt")}
	}
	lowered := engine("vllm")
	lowered.MaxTokens = 512
	fetched := engine("llama-server")
	fetched.Media = map[string]string{
		"https://example.com/cat.png": "data:image/png;base64,Y2F0", "https://example.com/meow.mp3": "data:audio/mpeg;base64,bWVvdw==", "https://example.com/other": "data:,no",
	}
	for name, target := range map[string]Target{
		"external":       {Model: "acme-large", StreamUsage: true, UserSalt: []byte("salt")},
		"one_cap_known":  {Model: "acme-large", MaxTokensKey: "max_tokens"},
		"openrouter":     {Model: "google/gemma-4-26b-a4b", StreamUsage: true, UserSalt: []byte("salt"), Provider: &c.Prefs, Rate: decimal.RequireFromString("1540")},
		"llama-server":   engine("llama-server"),
		"vllm":           engine("vllm"),
		"vllm_lowered":   lowered,
		"sglang":         engine("sglang"),
		"ollama":         engine("ollama"),
		"ollama_lowered": {Model: "local", StreamUsage: true, Drop: engine("ollama").Drop, MaxTokens: 512},
		"strict":         {Model: "local", StreamUsage: true, Allow: true, UserSalt: []byte("salt")},
		"media_fetched":  fetched,
	} {
		t.Run(name, func(t *testing.T) {
			// One top-level key a line, for the reader.
			got := bytes.ReplaceAll(c.AppendForward(nil, target), []byte(`,"`), []byte(",\n\""))
			file := filepath.Join("testdata", "forward", name+".golden")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAppendForward_provider(t *testing.T) {
	for _, tt := range []struct{ name, provider, rate, want string }{
		{"nothing asked", `{}`, "1", ``},
		{"what the gateway does itself", `{"only":["a"],"order":["b"],"sort":"price","allow_fallbacks":false,"preferred_max_latency":1,"data_collection":"allow","zdr":false}`, "1", ``},
		{"data policies", `{"zdr":true,"data_collection":"deny"}`, "1", `{"data_collection":"deny","zdr":true}`},
		{"parameters", `{"require_parameters":true}`, "1", `{"require_parameters":true}`},
		{"quantizations", `{"quantizations":["FP8"]}`, "1", `{"quantizations":["fp8"]}`},
		{"an exact price", `{"max_price":{"prompt":3080,"completion":"0.77"}}`, "1540", `{"max_price":{"prompt":"2","completion":"0.0005"}}`},
		{"a price rounded down", `{"max_price":{"image":"2","request":1}}`, "3", `{"max_price":{"image":"0.666666666666","request":"0.333333333333"}}`},
		{"a price of nothing", `{"max_price":{"prompt":0}}`, "1540", `{"max_price":{"prompt":"0"}}`},
		{"a price below what can be said", `{"max_price":{"prompt":"0.000000000001"}}`, "2", `{"max_price":{"prompt":"0"}}`},
		{"a large price", `{"max_price":{"prompt":1e32}}`, "0.1", `{"max_price":{"prompt":"1000000000000000000000000000000000"}}`},
		{"a price without a rate", `{"max_price":{"prompt":1},"zdr":true}`, "0", `{"zdr":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat([]byte(`{`+msgs+`,"provider":`+tt.provider+`}`), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			got := string(c.AppendForward(nil, Target{Model: "up", Provider: &c.Prefs, Rate: decimal.RequireFromString(tt.rate)}))
			want := `{` + msgs + `,"model":"up"}`
			if tt.want != "" {
				want = `{` + msgs + `,"model":"up","provider":` + tt.want + `}`
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestAppendForward_media(t *testing.T) {
	const a, b = `{"type":"image_url","image_url":{"url":"http:\/\/x\/a"}}`, `{"type":"image_url","image_url":"http://x/b"}`
	body := partsBody(a + `,` + b + `,` + a + `,{"type":"text","text":"http://x/a"},{"type":"input_audio","input_audio":{"data":"http://x/c"}}`)
	c, err := DecodeChat(body, bytesCount)
	if err != nil {
		t.Fatal(err)
	}
	with := func(a, b, c string) string {
		image := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
		return string(partsBody(image(a) + `,{"type":"image_url","image_url":"` + b + `"},` + image(a) + `,{"type":"text","text":"http://x/a"},{"type":"input_audio","input_audio":{"data":"` + c + `"}}`))
	}
	const same = `http:\/\/x\/a`
	for _, tt := range []struct {
		name  string
		media map[string]string
		want  string
	}{
		{"nothing fetched", nil, with(same, "http://x/b", "http://x/c")},
		{"another address", map[string]string{"http://x": "data:,no"}, with(same, "http://x/b", "http://x/c")},
		{"one, twice", map[string]string{"http://x/a": "data:image/png;base64,QQ=="}, with("data:image/png;base64,QQ==", "http://x/b", "http://x/c")},
		{"one in the middle", map[string]string{"http://x/b": "data:image/png;base64,QQ=="}, with(same, "data:image/png;base64,QQ==", "http://x/c")},
		{"sound is bare", map[string]string{"http://x/c": "data:audio/wav;base64,QQ=="}, with(same, "http://x/b", "QQ==")},
		{"quoted", map[string]string{"http://x/b": "data:\"\n"}, with(same, `data:\"\n`, "http://x/c")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(c.AppendForward(nil, Target{Model: "up", Media: tt.media}))
			if want := tt.want[:len(tt.want)-1] + `,"model":"up"}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
