package content

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func TestRules_Wants(t *testing.T) {
	kim := &hearth.Key{ID: "key-1", Name: "kim"}
	for _, c := range []struct {
		name  string
		rules *Rules
		key   *hearth.Key
		want  bool
	}{
		{"logging is off", nil, kim, false},
		{"all keys", &Rules{}, kim, true},
		{"by name", &Rules{Keys: []string{"lee", "kim"}}, kim, true},
		{"by id", &Rules{Keys: []string{"key-1"}}, kim, true},
		{"another key", &Rules{Keys: []string{"lee"}}, kim, false},
		{"a key that forbids it", &Rules{}, &hearth.Key{ID: "key-1", NoContent: true}, false},
		{"a key that forbids it and is named", &Rules{Keys: []string{"key-1"}}, &hearth.Key{ID: "key-1", NoContent: true}, false},
		{"a key that never leaves the house is as any other", &Rules{}, &hearth.Key{LocalOnly: true}, true},
		{"no key", &Rules{}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.rules.Wants(c.key); got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// document is a rendered draft.
type document struct {
	Input struct {
		Messages jsontext.Value `json:"messages"`
	} `json:"input"`
	Output struct {
		Completion *string `json:"completion"`
		Reasoning  *string `json:"reasoning"`
		Calls      []struct {
			Name      *string `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"tool_calls"`
	} `json:"output"`
	Error     *string `json:"error"`
	Truncated bool    `json:"truncated"`
}

// rendered keeps messages and an answer in at most so many bytes each.
func rendered(t interface {
	Helper()
	Fatalf(string, ...any)
}, most int, messages string, a Answer) (d document, raw string) {
	t.Helper()
	red, err := NewRedactor(nil, true, "sk-myip-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	rules := &Rules{MaxBytes: most, Redactor: red}
	draft := &Draft{rules: rules, out: a}
	draft.input, draft.cut = appendMessages(nil, []byte(messages), most+margin)
	b := draft.render()
	if err := json.Unmarshal(b, &d, jsontext.AllowDuplicateNames(true)); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return d, string(b)
}

func TestDraft_Render(t *testing.T) {
	image := strings.Repeat("iVBORw0KGgo+/A", 60) + "=="
	for _, c := range []struct {
		name, messages, want string
		cut                  bool
	}{
		{"as it is", `[{"role":"user","content":"hi \"there\"\n"},{"role":"assistant","content":null}]`, `[{"role":"user","content":"hi \"there\"\n"},{"role":"assistant","content":null}]`, false},
		{"blanks go", "[ {\"role\" : \"user\",\n\"n\":[1, -2.50e3 ,true,false,{},[]]} ]", `[{"role":"user","n":[1,-2.50e3,true,false,{},[]]}]`, false},
		{"texts are redacted", `[{"content":"mail kim@example.com"}]`, `[{"content":"mail [redacted:email]"}]`, false},
		{"texts in escapes too", `[{"content":"mail kim\u0040example.com, \u0073k-myip-0123456789"}]`, `[{"content":"mail [redacted:email], [redacted:api-key]"}]`, false},
		{"parts, tools and names too", `[{"content":[{"type":"text","text":"010-1234-5678"}],"kim@example.com":1,"tool_calls":[{"function":{"arguments":"{\"card\":\"4111 1111 1111 1111\"}"}}]}]`,
			`[{"content":[{"type":"text","text":"[redacted:phone]"}],"[redacted:email]":1,"tool_calls":[{"function":{"arguments":"{\"card\":\"[redacted:card]\"}"}}]}]`, false},
		{"numbers too", `[{"card":4111111111111111}]`, `[{"card":"[redacted:card]"}]`, false},
		{"data of an image is not kept", `[{"image_url":{"url":"data:image/png;base64,` + image + `"}},"behind"]`, `[{"image_url":{"url":"[image/png, 842 bytes of base64, not kept]"}},"behind"]`, false},
		{"nor of sound", `[{"input_audio":{"data":"` + image + `","format":"wav"}}]`, `[{"input_audio":{"data":"[842 bytes of base64, not kept]","format":"wav"}}]`, false},
		{"a text that begins like it is", `["data:` + strings.Repeat("a b", 300) + `"]`, `["data:` + strings.Repeat("a b", 300) + `"]`, false},
		{"names that stand twice", `[{"a":1,"a":2}]`, `[{"a":1,"a":2}]`, false},
		{"characters that are none", "[\"a\xffb\\ud800c\"]", "[\"a\uFFFDb\uFFFDc\"]", false},
		{"nothing", `[]`, `[]`, false},
		{"no list", `null`, `null`, false},
		{"missing", ``, `null`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, raw := rendered(t, 2000, c.messages, Answer{})
			if got := string(d.Input.Messages); got != c.want || d.Truncated != c.cut {
				t.Errorf("got %s, want %s; truncated %v", got, c.want, d.Truncated)
			}
			if d.Output.Completion != nil || d.Output.Reasoning != nil || d.Error != nil || !strings.Contains(raw, `"reasoning":null`) || !strings.Contains(raw, `"completion":null`) {
				t.Errorf("output of nothing: %s", raw)
			}
		})
	}
}

func TestDraft_RenderAnswer(t *testing.T) {
	d, _ := rendered(t, 2000, `[]`, Answer{
		Completion: []byte(`write to kim\u0040example.com\n`), Reasoning: []byte(`it is 010-1234-`), Error: "no answer for kim@example.com",
		Calls: []Call{{[]byte("dial"), []byte(`{\"number\":\"010-1234-5678\"}`)}, {nil, nil}},
	})
	if d.Output.Completion == nil || *d.Output.Completion != "write to [redacted:email]\n" || *d.Output.Reasoning != "it is 010-1234-" || *d.Error != "no answer for [redacted:email]" {
		t.Errorf("%+v", d.Output)
	}
	if len(d.Output.Calls) != 2 || *d.Output.Calls[0].Name != "dial" || *d.Output.Calls[0].Arguments != `{"number":"[redacted:phone]"}` || d.Output.Calls[1].Name != nil {
		t.Errorf("%+v", d.Output.Calls)
	}
	if d.Truncated {
		t.Error("said to be truncated")
	}
}

// TestDraft_Cut cuts a secret at every place: whatever is kept, it is not the half of one.
func TestDraft_Cut(t *testing.T) {
	const most = 1000
	for at := range 80 {
		fill := strings.Repeat("word ", most/5+10)
		fill = fill[:most-60+at]
		in := fill + " sk-myip-SECRETSECRETSECRETSECRET kim@SECRET.example.com " + strings.Repeat("word ", 3000)
		d, raw := rendered(t, most, `[{"role":"user","content":"`+in+`"}]`, Answer{Completion: []byte(in[:most+margin]), Cut: true})
		if strings.Contains(raw, "SECRET") || strings.Contains(raw, "kim@") {
			t.Fatalf("at %d: %s", at, raw)
		}
		if !d.Truncated || len(*d.Output.Completion) > most || len(*d.Output.Completion) < most-60 || !strings.HasPrefix(*d.Output.Completion, fill[:most-100]) {
			t.Fatalf("at %d: truncated %v, %d bytes kept", at, d.Truncated, len(*d.Output.Completion))
		}
		if n := len(d.Input.Messages); n > most+margin || n < most-60 {
			t.Fatalf("at %d: %d bytes of the messages are kept", at, n)
		}
	}
}

// TestDraft_RenderProperties: whatever JSON, wherever it is cut, what is kept is JSON, within the bound, and without
// secrets.
func TestDraft_RenderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var gen func(depth int) any
		gen = func(depth int) any {
			text := rapid.Custom(func(t *rapid.T) string {
				s := rapid.StringMatching(`[a-z가-힣"\\\n ]{0,30}`).Draw(t, "text")
				if rapid.Bool().Draw(t, "has a secret") {
					s += " , " + rapid.SampledFrom(secrets).Draw(t, "secret") + " , "
				}
				return s
			})
			switch k := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case k <= 2 || depth == 0:
				return text.Draw(t, "string")
			case k == 3:
				return rapid.IntRange(-1000, 1000).Draw(t, "number")
			case k == 4:
				list := []any{}
				for range rapid.IntRange(0, 4).Draw(t, "len") {
					list = append(list, gen(depth-1))
				}
				return list
			}
			m := map[string]any{}
			for range rapid.IntRange(0, 4).Draw(t, "len") {
				m[text.Draw(t, "name")] = gen(depth - 1)
			}
			return m
		}
		raw, err := json.Marshal([]any{gen(3), gen(3), gen(2)})
		if err != nil {
			t.Fatal(err)
		}
		answer := raw[1 : len(raw)-1]
		if rapid.Bool().Draw(t, "escaped") {
			raw = bytes.ReplaceAll(raw, []byte("k"), []byte(`\u006b`))
		}
		most := rapid.IntRange(1, 600).Draw(t, "most")
		answer = bytes.ReplaceAll(bytes.ReplaceAll(answer, []byte(`\`), []byte(`\\`)), []byte(`"`), []byte(`\"`))
		cut := rapid.IntRange(0, len(answer)).Draw(t, "cut")
		d, doc := rendered(t, most, string(raw), Answer{Completion: answer[:cut], Cut: cut < len(answer)})
		for _, s := range secrets {
			if strings.Contains(doc, bare(s)) {
				t.Fatalf("%q is left of %s", s, raw)
			}
		}
		if d.Output.Completion != nil && len(*d.Output.Completion) > most {
			t.Fatalf("%d bytes are kept, %d may be", len(*d.Output.Completion), most)
		}
		if !jsontext.Value(doc).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("no JSON: %s", doc)
		}
		if len(d.Input.Messages) > 8*most+2000 {
			t.Fatalf("%d bytes are kept of the messages, %d may be", len(d.Input.Messages), most)
		}
	})
}

func TestStringEnd(t *testing.T) {
	for in, want := range map[string]int{
		`""x`: 2, `"a"`: 3, `"\""x`: 4, `"\\"x`: 4, `"\\\""x`: 6, `"a\\\\"x`: 7, `"open`: 5, `"open\"`: 7, `"`: 1,
	} {
		if got := stringEnd([]byte(in)); got != want {
			t.Errorf("%s: %d, want %d", in, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		``: "", `abc`: "abc", `a\nb`: "a\nb", `\ud83d\ude00`: "😀", `a\`: "a", `a\u`: "a", `a\u00`: "a", `a\u006`: "a", `a\\`: `a\`, "a\xed\x95": "a\uFFFD\uFFFD", `a\ud83d\`: "a", `a\ud83d\ude0`: "a",
	} {
		if got := unescape([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func BenchmarkRender(b *testing.B) {
	msg := fmt.Sprintf(`[{"role":"user","content":%q}]`, strings.Repeat("The quick brown fox jumps over the lazy dog, 12 times. ", 70))
	red, err := NewRedactor(nil, true, "sk-myip-")
	if err != nil {
		b.Fatal(err)
	}
	d := &Draft{rules: &Rules{MaxBytes: 64 << 10, Redactor: red}, out: Answer{Completion: []byte(msg[24 : len(msg)-3])}}
	d.input, d.cut = appendMessages(nil, []byte(msg), 64<<10)
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		d.render()
	}
}

// TestDraft_CutBehindSecrets: where what was redacted has made room, a text is kept up to where it was cut off. A card's number
// that is cut there cannot be recognised any more, so what stands there is not kept.
func TestDraft_CutBehindSecrets(t *testing.T) {
	const most = 1000
	for at := range 20 {
		text := "Bearer " + strings.Repeat("a1", 2300)
		text += strings.Repeat(" word", (most+margin-len(text))/5+1)
		text = text[:most+margin-at] + " 4111 1111 1111 1111 "[:at]
		d, raw := rendered(t, most, `[]`, Answer{Completion: []byte(text), Cut: true})
		if strings.Contains(raw, "411") || !d.Truncated {
			t.Fatalf("at %d: %s", at, raw)
		}
	}
}
