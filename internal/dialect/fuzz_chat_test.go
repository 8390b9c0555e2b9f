package dialect

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// members reads the top level of a body with jsontext: keys without escapes, values raw.
func members(t *testing.T, body []byte) (keys []string, vals [][]byte) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		key := name.String()
		val, err := dec.ReadValue()
		if err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		keys, vals = append(keys, key), append(vals, bytes.Clone(val))
	}
	return keys, vals
}

func FuzzDecodeChat(f *testing.F) {
	for _, s := range []string{
		`{"model":"a","messages":[{"role":"user","content":"hi"}]}`,
		`{"mod\u0065l":"a","stream":true,"stream_options":{"include_usage":false,"a":1},"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"input_audio","input_audio":{"data":"data:;base64,AAAA"}}]}],"user":"u","max_tokens":5,"max_completion_tokens":null}`,
		`{"models":["a","b"],"provider":{"only":["x"],"sort":{"by":"price"}},"plugins":[{"id":"x"}],"tools":[{"type":"function"}],"messages":[{"role":"tool","x":{}}],"lora":1,"z":1e9}`,
		`{"MODEL":"a","messages":[]}`, `{"messages":[{"role":1}]}`, `[`, `{"a":[[[[`,
		`{"provider":{"zdr":true,"data_collection":"deny","quantizations":["fp8"],"max_price":{"prompt":"1.5","image":0},"preferred_max_latency":{"p90":1}},"route":"sort","messages":[{"role":"x"}]}`,
		`{"options":{"num_ctx":1,"num_predict":-1,"a":[]},"OPTIONS":"x","Lora":[],"max_completion_tokens":9,"max_tokens":4,"messages":[{"role":"user","content":[{"image_url":"http:\/\/x"},{"type":"input_audio","input_audio":{"data":"https://y"}},{"x":{"url":"file:///"}}],"images":[{"image_url":{"url":"http://x"}}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		c, err := DecodeChat(raw, bytesCount)
		if !bytes.Equal(raw, before) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			e, ok := errors.AsType[*hearth.Error](err)
			if !ok || e.Message == "" || len(e.Message) > 400 || e.HTTPStatus() >= 500 || c != nil {
				t.Fatalf("error %#v", err)
			}
			return
		}
		checkRequest(t, c)
		usual := Target{Model: "up/\"model", StreamUsage: true, MaxTokensKey: "max_tokens", Drop: []string{"lora"}, UserSalt: []byte("s")}
		strict := usual
		strict.Allow = true
		all := Target{
			Model: usual.Model, Drop: []string{"lora", "options.num_ctx"}, MaxTokens: 7, Media: map[string]string{},
			Provider: &c.Prefs, Rate: decimal.New(1540, 0),
		}
		for _, url := range c.MediaURLs() {
			all.Media[url] = "data:,x"
		}
		for _, target := range []Target{usual, strict, all} {
			checkForward(t, c, raw, target)
		}
		// With every address replaced, nothing is left that anybody could fetch.
		again, err := DecodeChat(c.AppendForward(nil, all), bytesCount)
		if len(c.members) < maxTopKeys-4 && (err != nil || again.Request.MediaURLs != 0) {
			t.Fatalf("%v, or addresses left, in %q", err, c.AppendForward(nil, all))
		}
	})
}

// checkRequest holds what was read against what can be true of any request.
func checkRequest(t *testing.T, c *Chat) {
	t.Helper()
	urls := c.MediaURLs()
	if len(urls) > maxMediaURLs || len(urls) > c.Request.MediaURLs || (len(urls) == 0) != (c.Request.MediaURLs == 0) {
		t.Fatalf("%d addresses of %d", len(urls), c.Request.MediaURLs)
	}
	for _, url := range urls {
		if low := strings.ToLower(url); !strings.HasPrefix(low, "http://") && !strings.HasPrefix(low, "https://") {
			t.Fatalf("address %q", url)
		}
	}
	if c.Bytes != c.Estimate || c.Bytes < 0 || c.Tools != (c.Params&hearth.ParamTools != 0) || len(c.Notes) > maxNotes {
		t.Fatalf("%+v", c.Request)
	}
}

// checkForward holds a forwarded body against the one it was made from.
func checkForward(t *testing.T, c *Chat, raw []byte, target Target) {
	t.Helper()
	out := c.AppendForward(nil, target)
	if !jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		t.Fatalf("forwarded %q", out)
	}
	ours := slices.DeleteFunc(slices.Clone(fieldNames[:fieldDebug-fieldModel+1]), func(s string) bool { return s == "messages" || s == "stream" })
	lost := func(key string) bool {
		_, known := knownKeys[key]
		return slices.Contains(ours, key) || strings.EqualFold(key, "lora") || target.Allow && !known ||
			len(target.Media) > 0 && key == "messages" || target.MaxTokens > 0 && (strings.EqualFold(key, "options") || isCap([]byte(key)))
	}
	strip := func(keys []string, vals [][]byte) (all []byte) {
		for i, k := range keys {
			if !lost(k) {
				all = append(append(append(all, k...), 0), vals[i]...)
			}
		}
		return all
	}
	inKeys, inVals := members(t, raw)
	outKeys, outVals := members(t, out)
	if a, b := strip(inKeys, inVals), strip(outKeys, outVals); !bytes.Equal(a, b) {
		t.Fatalf("other members changed:\n%q\n%q", a, b)
	}
	count := map[string]int{}
	for i, key := range outKeys {
		if count[key]++; count[key] > 1 {
			t.Fatalf("%s stands twice in %q", key, out)
		}
		switch key {
		case "model":
			if string(outVals[i]) != `"up/\"model"` {
				t.Fatalf("model %s", outVals[i])
			}
		case "max_tokens", "max_completion_tokens":
			if n, err := strconv.Atoi(string(outVals[i])); target.MaxTokens > 0 && (err != nil || n > target.MaxTokens) {
				t.Fatalf("%s %s", key, outVals[i])
			}
		case "provider":
			if target.Provider == nil {
				t.Fatal("provider was forwarded")
			}
		case "stream_options", "user", "messages", "stream":
		default:
			if slices.Contains(ours, key) || strings.EqualFold(key, "lora") || target.Allow && lost(key) {
				t.Fatalf("%s was forwarded", key)
			}
			if n, err := strconv.Atoi(string(outVals[i])); target.MaxTokens > 0 && isCap([]byte(key)) && (err != nil || n < 1 || n > target.MaxTokens) {
				t.Fatalf("%s %s", key, outVals[i])
			}
			if strings.EqualFold(key, "options") && target.MaxTokens > 0 {
				checkOptions(t, outVals[i], target.MaxTokens)
			}
		}
	}
	if count["model"] != 1 {
		t.Fatalf("%d models in %q", count["model"], out)
	}
}

// checkOptions looks for what must not stand in the options of an engine's own API.
func checkOptions(t *testing.T, val []byte, limit int) {
	t.Helper()
	if val[0] != '{' {
		t.Fatalf("options %s", val)
	}
	keys, vals := members(t, val)
	for i, key := range keys {
		if n, err := strconv.Atoi(string(vals[i])); strings.EqualFold(key, "num_ctx") || strings.EqualFold(key, "num_predict") && (err != nil || n < 0 || n > limit) {
			t.Fatalf("options.%s is %s", key, vals[i])
		}
	}
}
