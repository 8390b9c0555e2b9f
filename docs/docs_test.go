package docs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBlocks(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a heading can be linked to":  {"## Two words_here", "<h2 id=\"two-words_here\">Two words_here</h2>\n"},
		"paragraphs":                  {"one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>\n"},
		"nothing is taken for a tag":  {"a <b> & `<i>`", "<p>a &lt;b&gt; &amp; <code>&lt;i&gt;</code></p>\n"},
		"code keeps what it says":     {"`**a** [b](c.md)`", "<p><code>**a** [b](c.md)</code></p>\n"},
		"emphasis and links":          {"**a** *b* [c](errors.md#timeout)", "<p><strong>a</strong> <em>b</em> <a href=\"errors#timeout\">c</a></p>\n"},
		"links elsewhere are no tags": {"[c](javascript:x)", "<p>[c](javascript:x)</p>\n"},
		"between fences":              {"x\n```json\n{\"a\": <1>}\n\n- b\n```\ny", "<p>x</p>\n<pre><code>{&#34;a&#34;: &lt;1&gt;}\n\n- b</code></pre>\n<p>y</p>\n"},
		"a table": {"| a | `b` |\n| --- | --- |\n| 1 |  |\nafter", "<table>\n<tr><th>a</th><th><code>b</code></th></tr>\n" +
			"<tr><td>1</td><td></td></tr>\n</table>\n<p>after</p>\n"},
		"lists": {"- a\n  b\n- c\n\nd", "<ul>\n<li><p>a\nb</p>\n</li>\n<li><p>c</p>\n</li>\n</ul>\n<p>d</p>\n"},
		"a table in a list": {"1. a\n\n   | b |\n   | --- |\n   | c |\n\n2. d", "<ol>\n<li><p>a</p>\n<table>\n<tr><th>b</th></tr>\n<tr><td>c</td></tr>\n</table>\n</li>\n" +
			"<li><p>d</p>\n</li>\n</ol>\n"},
		"a picture that is not there": {"a\n\n![b](c.svg)", "<p>a</p>\n"},
		"a comment":                   {"<!-- a -->\n| b |\n| --- |\n<!-- c -->", "<table>\n<tr><th>b</th></tr>\n</table>\n"},
		"nothing":                     {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			blocks(&b, strings.Split(c.text, "\n"))
			if d := cmp.Diff(c.want, b.String()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestBlocks_Picture(t *testing.T) {
	var b strings.Builder
	blocks(&b, []string{"![what it shows](slots-turn.svg)"})
	if text := b.String(); !strings.HasPrefix(text, "<p><svg ") || !strings.HasSuffix(text, "</svg>\n</p>\n") {
		t.Errorf("%.40q", text)
	}
}

// TestPages: nothing of Markdown is left over, and every element is closed in order.
func TestPages(t *testing.T) {
	pages := Pages()
	if len(pages) != 8 {
		t.Errorf("%d pages", len(pages))
	}
	for name, b := range pages {
		text := string(b)
		for _, left := range []string{"\n## ", "```", "| ---", "**", "](", "<p>- ", "<p>|"} {
			if strings.Contains(text, left) {
				t.Errorf("%s: %q is left over", name, left)
			}
		}
		var open []string
		for _, tag := range strings.Split(text, "<")[1:] {
			tag, _, _ = strings.Cut(tag, ">")
			word, _, _ := strings.Cut(tag, " ")
			switch {
			case word == "!doctype" || word == "meta" || strings.HasSuffix(tag, "/"):
			case !strings.HasPrefix(word, "/"):
				open = append(open, word)
			case len(open) == 0 || open[len(open)-1] != word[1:]:
				t.Fatalf("%s: %s closes nothing that is open: %v", name, word, open)
			default:
				open = open[:len(open)-1]
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: not closed: %v", name, open)
		}
	}
}
