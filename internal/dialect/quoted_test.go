package dialect

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decodeAsk is a request with one message, whose content is JSON.
func decodeAsk(tb rapid.TB, content, more string) *Chat {
	tb.Helper()
	raw := `{"model":"google/gemma-4-26b-a4b-it","messages":[{"role":"user","content":` + content + `}]` + more + `}`
	c, err := DecodeChat([]byte(raw), func(b []byte) int { return len(b) })
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestWithoutPrompt(t *testing.T) {
	t.Parallel()
	const secret = `"the launch code is swordfish\nand \"nobody\" may know"`
	for _, c := range []struct{ name, content, more, text, want string }{
		{"words of its own", secret, "", "provider answered 400 Bad Request: the prompt is too long", "provider answered 400 Bad Request: the prompt is too long"},
		{"whole", secret, "", `bad input: the launch code is swordfish and "nobody" may know, sorry`, "bad input: [prompt], sorry"},
		{"a part of it", secret, "", "bad: 'is swordfish and'", "bad: '[prompt]'"},
		{"the beginning, cut", secret, "", "bad: the launch code is sw…", "bad: [prompt]…"},
		{"as JSON", secret, "", `bad: {"content":"launch code is swordfish\nand \"nobody\" may"}`, `bad: {"content":"[prompt]"}`},
		{"as JSON in JSON", secret, "", `bad: launch code is swordfish\\nand \\\"nobody\\\" may`, `bad: [prompt]`},
		{"in capitals", secret, "", "BAD: LAUNCH CODE IS SWORDFISH!", "BAD: [prompt]!"},
		{"from both ends, as pydantic does", secret, "", "input_value='the launch code i... nobody may know'", "input_value='[prompt]'"},
		{"less than a run", secret, "", "a swordfish is a fish", "a swordfish is a fish"},
		{"less than a run on each of two lines", secret, "", "is sword\nfish and", "is sword\nfish and"},
		{"a short text, whole", `"hunter22"`, "", "cannot tokenize 'hunter22'", "cannot tokenize '[prompt]'"},
		{"a very short one", `"a b c"`, "", "a b c", "a b c"},
		{"a part", `[{"type":"text","text":"900101-1234567"}]`, "", "bad text 900101-1234567.", "bad text [prompt]."},
		{"Korean", `"암호는 황새치입니다"`, "", "거부: 암호는 황새치입니다!", "거부: [prompt]!"},
		{"Korean, escaped by the caller", `"\uc554\ud638\ub294 \ud669\uc0c8\uce58\uc785\ub2c8\ub2e4"`, "", "거부: 암호는 황새치입니다!", "거부: [prompt]!"},
		{"Korean, escaped by the upstream", `"암호는 황새치입니다"`, "", `no: \uc554\ud638\ub294 \ud669\uc0c8\uce58\uc785`, "no: [prompt]"},
		{"Korean, in the bytes of Python", `"암호는 황새치"`, "", `b'\xec\x95\x94\xed\x98\xb8\xeb\x8a\x94 \xed\x99\xa9'`, "b'[prompt]'"},
		{"the model's name", secret, "", "The model google/gemma-4-26b-a4b-it does not exist", "The model google/gemma-4-26b-a4b-it does not exist"},
		{"a key of the request", secret, `,"max_completion_tokens":5`, "unsupported: max_completion_tokens", "unsupported: max_completion_tokens"},
		{"a tool's name", secret, `,"tools":[{"type":"function","function":{"name":"get_current_weather","description":"reads the barometer of the castle"}}]`,
			"get_current_weather is wrong: reads the barometer of the castle", "get_current_weather is wrong: [prompt]"},
		{"two texts on two lines", secret, "", "launch code is swordfish\nand nobody may know", "[prompt]\n[prompt]"},
		{"nothing", secret, "", "", ""},
		{"a lone backslash", `"\\"`, "", `\`, `\`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := decodeAsk(t, c.content, c.more).WithoutPrompt(c.text)
			if !ok || got != c.want {
				t.Errorf("%q, %t, want %q", got, ok, c.want)
			}
		})
	}
}

func TestWithoutPrompt_Size(t *testing.T) {
	t.Parallel()
	image := `[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString(make([]byte, 2*quotedLimit)) + `"}},{"type":"text","text":"the launch code is swordfish"}]`
	if got, ok := decodeAsk(t, image, "").WithoutPrompt("no: code is swordfish"); !ok || got != "no: [prompt]" {
		t.Errorf("behind a large image: %q, %t", got, ok)
	}
	if got, ok := decodeAsk(t, `"`+strings.Repeat("much ", quotedLimit/5+1)+`"`, "").WithoutPrompt("no: code is swordfish"); ok || got != "" {
		t.Errorf("of a request that is too large: %q, %t", got, ok)
	}
}

// Whatever a request holds: no run of its text is left in the words, what is left is text, and words that have nothing to do with
// it stay as they are.
func TestWithoutPrompt_Any(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prompt := rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019 \n\"\\u가나다é😀.-")), 0, 80, -1).Draw(t, "prompt")
		quoted := string(appendQuoted(nil, prompt))
		from := rapid.IntRange(0, len(prompt)).Draw(t, "from")
		part := strings.ToValidUTF8(prompt[from:rapid.IntRange(from, len(prompt)).Draw(t, "to")], "")
		for range rapid.IntRange(0, 2).Draw(t, "escaped") {
			part = string(appendQuoted(nil, part))
		}
		text := clean("Bad Request: "+part+" ;", 1000)
		got, ok := decodeAsk(t, quoted, "").WithoutPrompt(text)
		if !ok || !strings.HasPrefix(got, "Bad Request: ") {
			t.Fatalf("%q of %q", got, text)
		}
		said, left := fold(nil, []byte(prompt), nil), fold(nil, []byte(strings.ReplaceAll(got, quotedMark, "\n")), new([][2]int32))
		rolling(left, func(i int, _ uint64) {
			if bytes.Contains(said, left[i:i+quotedRun]) {
				t.Fatalf("%q of %q still holds %q", got, text, left[i:i+quotedRun])
			}
		})
		if len(fold(nil, []byte(part), nil)) < quotedWhole && got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func BenchmarkWithoutPrompt(b *testing.B) {
	c := decodeAsk(b, string(appendQuoted(nil, strings.Repeat("a long prompt of many words, ", 1<<20/29))), "")
	text := "provider answered 400 Bad Request: " + strings.Repeat("this value is wrong; ", 40)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if got, ok := c.WithoutPrompt(text); !ok || got != text {
			b.Fatal(fmt.Sprint(ok, got))
		}
	}
}
