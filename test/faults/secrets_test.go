package faults

import (
	"fmt"
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

func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	for place, make := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			for _, slot := range []bool{false, true} {
				up := serve(t)
				s := setup{primary: up.url()}
				if slot {
					s = setup{slots: slotAt(up.url(), `, api_key: "`+engineKey+`"`), backup: "http://127.0.0.1:1"}
				}
				g := start(t, s)
				for _, status := range []int{400, 401, 402, 403, 422, 429, 500} {
					for name, text := range quotes {
						t.Run(fmt.Sprintf("%d/%s/slot %v", status, name, slot), func(t *testing.T) {
							up.set(make(status, known(text, slot))...)
							for _, more := range []string{"", streaming} {
								a := g.chat(t, question(more))
								_ = a.read()
								g.quiet(t, a)
							}
						})
					}
				}
				silent(t, "the log", g.log.String())
			}
		})
	}
}

// An error inside an answer is no safer than one before it.
func TestSecretsInBand(t *testing.T) {
	t.Parallel()
	for name, text := range quotes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text = known(text, false)
			ev := fmt.Sprintf(`{"error":{"code":502,"message":%q,"metadata":{"raw":%q}}}`, text, text)
			for place, play := range map[string]script{
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
			} {
				t.Run(place, func(t *testing.T) {
					up := serve(t, play...)
					g := start(t, setup{primary: up.url(), backup: "http://127.0.0.1:1"})
					for _, more := range []string{"", streaming} {
						a := g.chat(t, question(more))
						_ = a.read()
						g.quiet(t, a)
					}
					silent(t, "the log", g.log.String())
				})
			}
		})
	}
}
