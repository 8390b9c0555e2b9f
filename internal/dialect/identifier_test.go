package dialect

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestIdentifier(t *testing.T) {
	for s, want := range map[string]string{
		"chatcmpl-9aZ_0.1:2/3+4=5@6~7|8": "chatcmpl-9aZ_0.1:2/3+4=5@6~7|8",
		"":                               "",
		"two words":                      "",
		"a\x00b":                         "",
		"a\nb":                           "",
		"\u202eabc":                      "",
		"가나다":                            "",
		"\xff":                           "",
		`a"b`:                            "",
		strings.Repeat("a", 128):         strings.Repeat("a", 128),
		strings.Repeat("a", 129):         "",
		"sk-proj-0123456789abcdef0123456789abcdef": "",
	} {
		if got := identifier(s, 128); got != want {
			t.Errorf("identifier(%q) = %q", s, got)
		}
	}
}

// TestHostileWords: whatever an upstream says for its id and its finish reason, what is kept of it is short and plain, and
// OpenAI's word is one of OpenAI's.
func TestHostileWords(t *testing.T) {
	ours := map[string]bool{"stop": true, "length": true, "tool_calls": true, "content_filter": true, "error": true}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"stop", "MAX_TOKENS", "my password is hunter2", "x\u0000y", "\u202e", strings.Repeat("a", 300)}))
		quoted := func(name string) string {
			b, err := jsontext.AppendQuote(nil, word.Draw(t, name))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		doc := `{"id":` + quoted("id") + `,"choices":[{"index":0,"%":{"content":"hi"},"finish_reason":` + quoted("finish") + `,"native_finish_reason":` + quoted("native") + `}]}`
		kept := func(id, native, finish string) {
			t.Helper()
			for _, s := range []string{id, native} {
				if len(s) > 128 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
					t.Fatalf("kept %q of %s", s, doc)
				}
			}
			if finish != "" && !ours[finish] {
				t.Fatalf("finish reason %q of %s", finish, doc)
			}
		}
		s := Stamp{ID: "gen-1", Model: "m", Provider: "p"}
		if _, c, err := s.AppendChunk(nil, []byte(strings.Replace(doc, "%", "delta", 1))); err == nil {
			kept(c.UpstreamID, c.Native, c.Finish)
		}
		s = Stamp{ID: "gen-1", Model: "m", Provider: "p"}
		if a, err := s.ReadAnswer([]byte(strings.Replace(doc, "%", "message", 1))); err == nil {
			kept(a.UpstreamID, a.Native, a.Finish)
		}
	})
}
