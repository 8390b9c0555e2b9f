// Package docs holds the pages for callers, so that the gateway itself can show what its errors mean.
package docs

import (
	"embed"
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	//go:embed errors.md
	errors string
	//go:embed faults.md
	faults string
	//go:embed chain.md
	chain string
	//go:embed money.md
	money string
	//go:embed slots.md
	slots string
	//go:embed metrics.md
	metrics string
	//go:embed routing.md
	routing string
	//go:embed replay.md
	replay string
	//go:embed slots-*.svg routing-*.svg
	pictures embed.FS
)

// Pages returns the pages as HTML, by name: errors, faults, chain, slots, routing, replay, money and metrics. A heading's id is its text in small letters, with
// hyphens for spaces; on the page of errors, that is the error's type. They are made when they are asked for first; nobody may change them.
func Pages() map[string][]byte { return made() }

var made = sync.OnceValue(func() map[string][]byte {
	pages := make(map[string][]byte)
	for name, text := range map[string]string{"errors": errors, "faults": faults, "chain": chain, "slots": slots, "routing": routing, "replay": replay, "money": money, "metrics": metrics} {
		pages[name] = []byte(page(text))
	}
	return pages
})

const style = `body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:16px/1.55 system-ui,sans-serif;color:#1b1b1b;background:#fff}
nav a{margin-right:1rem}code,pre{font:.9em ui-monospace,monospace;background:#f3f3f3}code{padding:.1em .25em}pre{padding:.8rem;overflow-x:auto}
pre code{padding:0;font-size:1em}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3rem .6rem;text-align:left;vertical-align:top}
:target{background:#fff3bf}svg{max-width:100%;height:auto}@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}code,pre{background:#262626}td,th{border-color:#444}
a{color:#8ab4f8}:target{background:#5c4a00}}`

func page(text string) string {
	title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>` +
		html.EscapeString(title) + ` – Hearth</title><style>` + style + `</style></head><body><nav><a href="errors">Errors</a><a href="faults">When things break</a>` +
		`<a href="chain">The chain</a><a href="slots">Local GPU models</a><a href="routing">Routing cost</a><a href="replay">Replay</a><a href="money">Costs</a><a href="metrics">Metrics</a></nav>` + "\n")
	blocks(&b, strings.Split(text, "\n"))
	b.WriteString("</body></html>\n")
	return b.String()
}

// image is a line that is nothing but a picture of this directory.
var image = regexp.MustCompile(`^!\[[^\]]*\]\(([a-z-]+\.svg)\)$`)

// picture writes a picture into the page itself: it says what it shows by its title.
func picture(b *strings.Builder, name string) {
	if svg, err := pictures.ReadFile(name); err == nil {
		b.WriteString("<p>")
		b.Write(svg)
		b.WriteString("</p>\n")
	}
}

// item begins an entry of a list.
var item = regexp.MustCompile(`^(- |\d+\. )`)

// blocks writes the part of Markdown that the pages use: headings, paragraphs, code between fences, tables, and lists
// whose entries are blocks again.
func blocks(b *strings.Builder, lines []string) {
	for len(lines) > 0 {
		n, line := 1, lines[0]
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "<!--"): // a comment is one line
		case strings.HasPrefix(line, "```"):
			n = fence(lines)
			b.WriteString("<pre><code>" + html.EscapeString(strings.Join(lines[1:max(1, n-1)], "\n")) + "</code></pre>\n")
		case image.MatchString(line):
			picture(b, image.FindStringSubmatch(line)[1])
		case strings.HasPrefix(line, "#"):
			heading(b, line)
		case strings.HasPrefix(line, "|"):
			n = run(lines, func(l string) bool { return strings.HasPrefix(l, "|") })
			table(b, lines[:n])
		case item.MatchString(line):
			n = run(lines, func(l string) bool { return l == "" || strings.HasPrefix(l, "  ") || item.MatchString(l) })
			list(b, lines[:n])
		default:
			n = run(lines, func(l string) bool {
				return l != "" && !strings.HasPrefix(l, "```") && !strings.HasPrefix(l, "|") && !item.MatchString(l)
			})
			b.WriteString("<p>" + inline(strings.Join(lines[:n], "\n")) + "</p>\n")
		}
		lines = lines[n:]
	}
}

// run is how many lines from the first on belong together.
func run(lines []string, belongs func(string) bool) int {
	if i := slices.IndexFunc(lines[1:], func(l string) bool { return !belongs(l) }); i >= 0 {
		return 1 + i
	}
	return len(lines)
}

// fence is how many lines a piece of code has, both fences included.
func fence(lines []string) int {
	return min(len(lines), 1+run(lines, func(l string) bool { return !strings.HasPrefix(l, "```") }))
}

func heading(b *strings.Builder, line string) {
	text := strings.TrimLeft(line, "#")
	level := string(rune('0' + min(6, len(line)-len(text))))
	text = strings.TrimSpace(text)
	id := html.EscapeString(strings.ReplaceAll(strings.ToLower(text), " ", "-"))
	b.WriteString("<h" + level + ` id="` + id + `">` + inline(text) + "</h" + level + ">\n")
}

func table(b *strings.Builder, lines []string) {
	b.WriteString("<table>\n")
	for i, line := range lines {
		if i == 1 { // the line between head and rows
			continue
		}
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		b.WriteString("<tr>")
		for text := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			b.WriteString("<" + cell + ">" + inline(strings.TrimSpace(text)) + "</" + cell + ">")
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n")
}

func list(b *strings.Builder, lines []string) {
	kind := "ol"
	if strings.HasPrefix(lines[0], "- ") {
		kind = "ul"
	}
	b.WriteString("<" + kind + ">\n")
	for len(lines) > 0 {
		n := run(lines, func(l string) bool { return !item.MatchString(l) })
		indent := len(item.FindString(lines[0]))
		inner := []string{lines[0][indent:]}
		for _, l := range lines[1:n] {
			inner = append(inner, l[min(indent, len(l)-len(strings.TrimLeft(l, " "))):])
		}
		b.WriteString("<li>")
		blocks(b, inner)
		b.WriteString("</li>\n")
		lines = lines[n:]
	}
	b.WriteString("</" + kind + ">\n")
}

var (
	link   = regexp.MustCompile(`\[([^\]]+)\]\(([a-z-]+)\.md(#[a-z-]+)?\)`)
	strong = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	em     = regexp.MustCompile(`\*([^*]+)\*`)
)

// inline writes text with code, links to other pages, and emphasis.
func inline(text string) string {
	parts := strings.Split(html.EscapeString(text), "`")
	for i, p := range parts {
		if i%2 == 1 {
			parts[i] = "<code>" + p + "</code>"
			continue
		}
		p = link.ReplaceAllString(p, `<a href="$2$3">$1</a>`)
		p = strong.ReplaceAllString(p, "<strong>$1</strong>")
		parts[i] = em.ReplaceAllString(p, "<em>$1</em>")
	}
	return strings.Join(parts, "")
}
