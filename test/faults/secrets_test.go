package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	projectSecret = "project-secret-445566" // a header that the primary gets with every request
	engineKey     = "engine-secret-778899"  // of a slot's engine
	insideURL     = "http://10.20.30.40:8080/internal/queue"
)

// quotes are texts in which an upstream repeats what only it and we may know.
var quotes = map[string]string{
	"plain":                     "Incorrect API key provided: " + primaryKey + ".",
	"with a scheme":             "invalid header Authorization: Bearer " + primaryKey,
	"another header":            "unknown project " + projectSecret + " for " + engineKey + " and " + primaryKey,
	"at the end of a long text": strings.Repeat("x", 1000-len(primaryKey)/2) + primaryKey,
	"an address inside":         "cannot reach " + insideURL + " with " + primaryKey + " and " + engineKey,
	"twice":                     primaryKey + engineKey + primaryKey,
}

// known leaves in a text only the secrets that the upstream was given.
func known(text string, slot bool) string {
	if slot {
		return strings.NewReplacer(primaryKey, engineKey, projectSecret, engineKey).Replace(text)
	}
	return strings.ReplaceAll(text, engineKey, projectSecret)
}

// places are the places where upstreams put texts.
var places = map[string]func(status int, text string) script{
	"message":       func(status int, text string) script { return refusal(status, text) },
	"error as text": func(status int, text string) script { return withBody(status, fmt.Sprintf(`{"error":%q}`, text)) },
	"metadata.raw": func(status int, text string) script {
		return withBody(status, fmt.Sprintf(`{"error":{"message":"Provider returned error","code":%d,"metadata":{"raw":%q,"provider_name":"Inner"}}}`, status, `{"error":"`+text+`"}`))
	},
	"escaped": func(status int, text string) script {
		return withBody(status, `{"error":{"message":"`+escaped(text)+`"}}`)
	},
	"type, param and code": func(status int, text string) script {
		return withBody(status, fmt.Sprintf(`{"error":{"message":"no","type":%q,"param":%q,"code":%q}}`, text, text, text))
	},
	"plain body": func(status int, text string) script { return withBody(status, text) },
	"HTML":       func(status int, text string) script { return withBody(status, "<html><title>"+text+"</title></html>") },
	"headers": func(status int, text string) script {
		return refusal(status, "no", "X-Debug: "+strings.ReplaceAll(text, "\n", " "), "Www-Authenticate: "+text, "Set-Cookie: k="+text)
	},
}

// escaped writes every character of a text as JSON's longest form of it.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

// secrets are what must be found nowhere; each by a beginning that is long enough to be of use.
var secrets = []string{primaryKey[:14], projectSecret[:14], engineKey[:14], "10.20.30.40"}

func silent(t *testing.T, where, text string) {
	t.Helper()
	for _, s := range secrets {
		if i := strings.Index(text, s); i >= 0 {
			t.Errorf("%s tells %q: …%s…", where, s, text[max(0, i-100):min(len(text), i+100)])
		}
	}
}

// quiet looks through an answer and its record.
func (g *gateway) quiet(t *testing.T, a *answer) {
	t.Helper()
	silent(t, "the answer", string(a.body))
	silent(t, "a header", fmt.Sprint(a.header))
	silent(t, "the record", string(g.call(t, g.user, "GET", "/api/v1/generation?id="+a.generation(), "").body))
}

// refusedWith is a status and the name of the text that comes with it.
type refusedWith struct {
	status int
	quote  string
}

// cases are all texts, each with two of the statuses or more, and all statuses; -full has every pair.
func cases() (list []refusedWith) {
	for i, status := range []int{400, 401, 402, 403, 422, 429, 500} {
		for j, name := range slices.Sorted(maps.Keys(quotes)) {
			if (i+j)%3 == 0 || *full {
				list = append(list, refusedWith{status, name})
			}
		}
	}
	return list
}

func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	for place, make := range places {
		for _, slot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/slot %v", place, slot), func(t *testing.T) {
				t.Parallel()
				up := serve(t)
				all := cases()
				g := start(t, many(up.url(), 2*len(all), slot))
				for n, c := range all {
					up.set(make(c.status, known(quotes[c.quote], slot))...)
					g.once(t, up, 2*n, "")
					g.once(t, up, 2*n+1, streaming)
					if t.Failed() {
						t.Fatalf("with status %d and %s", c.status, c.quote)
					}
				}
				silent(t, "the log", g.log.String())
			})
		}
	}
}

// numbered is a model of its own for each request: what answers with errors is soon not asked any more.
func numbered(n int) string { return fmt.Sprint("author/m", n) }

// many is n providers at an address, or n slots, each with a model of its own and the secrets of the primary.
func many(url string, n int, slot bool) (s setup) {
	s.backup = "http://127.0.0.1:1"
	for i := range n {
		if slot {
			own := strings.Replace(slotAt(url, `, upstream_model: `+model+`, wait: 5s, api_key: "`+engineKey+`"`), model, numbered(i), 1)
			s.slots += strings.Replace(own, "name: slot", fmt.Sprint("name: s", i), 1) + "\n"
			continue
		}
		s.more += strings.NewReplacer("slug: primary", fmt.Sprint("slug: p", i), "Primary", fmt.Sprint("P", i), model, numbered(i), sister, fmt.Sprint("author/s", i)).
			Replace(fmt.Sprintf(primaryPart, url, primaryKey, ""))
	}
	return s
}

// An error inside an answer is no safer than one before it.
func TestSecretsInBand(t *testing.T) {
	t.Parallel()
	for name, text := range quotes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text = known(text, false)
			ev := fmt.Sprintf(`{"error":{"code":502,"message":%q,"metadata":{"raw":%q}}}`, text, text)
			plays := map[string]script{
				"mid-stream":       {say(begun(8) + parts(ev, "[DONE]") + lastPart)},
				"mid-stream, text": {say(begun(8) + parts(fmt.Sprintf(`{"error":%q}`, text)) + lastPart)},
				"first":            stream(ev, "[DONE]"),
				"whole":            withBody(200, ev),
				"not JSON":         withBody(200, "oh: "+text),
				"malformed":        raw("data: {\"oh\": " + text + "\n\n"),
				"malformed later":  {say(begun(8) + part("data: "+text+"\n\n")), hangUp},
				"status line":      {say("HTTP/1.1 500 " + text + "\r\nContent-Length: 0\r\n\r\n")},
				"not HTTP":         {say(text + "\r\n\r\n"), hangUp},
				"bad header":       {say("HTTP/1.1 200 OK\r\n" + text + "\r\n\r\n"), hangUp},
			}
			up, n := serve(t), 0
			g := start(t, many(up.url(), 2*len(plays), false))
			for place, play := range plays {
				t.Run(place, func(t *testing.T) {
					up.set(play...)
					for _, more := range []string{"", streaming} {
						g.once(t, up, n, more)
						n++
					}
				})
			}
			silent(t, "the log", g.log.String())
		})
	}
}

// once has the upstream asked for the n-th model, for the first time, and looks through what comes of it.
func (g *gateway) once(t *testing.T, up *rogue, n int, more string) {
	t.Helper()
	before := up.chats.Load()
	until(t, "the upstream is asked", func() bool { // a slot may not be ready at once
		a := g.chat(t, strings.Replace(question(more), model, numbered(n), 1))
		_ = a.read()
		g.quiet(t, a)
		return up.chats.Load() > before
	})
}
