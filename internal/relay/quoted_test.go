package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

// quoting refuses each request and quotes it, in part and escaped.
func quoting(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	answer, _ := json.Marshal(map[string]any{"error": map[string]any{"message": "cannot read " + string(body), "code": "bad_words"}})
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write(answer)
}

// holdsPrompt says whether a piece of chat's question is anywhere in a record.
func holdsPrompt(g *hearth.Generation) bool {
	all := fmt.Sprintf("%+v", *g)
	return strings.Contains(all, "secret") || strings.Contains(all, "question")
}

// What upstreams repeat of a request goes to its caller, and into no record.
func TestRecord_HoldsNoPrompt(t *testing.T) {
	t.Run("of a chain that failed", func(t *testing.T) {
		w := newWorld(t, setup{upstream: http.HandlerFunc(quoting)})
		w.fault(t, w.backup, engine.Control{Fault: engine.F500})
		a := w.post(t, chat(""))
		g := w.record(t, a)
		if m := g.Attempts[0].Message; holdsPrompt(g) || !strings.HasPrefix(m, "provider answered 500 Internal Server Error: cannot read ") || !strings.Contains(m, "[prompt]") {
			t.Errorf("recorded: %q", m)
		}
		if g.Attempts[1].Message == "" {
			t.Error("the second attempt lost its message")
		}
	})
	t.Run("and its caller is told", func(t *testing.T) {
		w := newWorld(t, setup{upstream: http.HandlerFunc(quoting)})
		a := w.post(t, chat(`,"provider":{"only":["primary"]}`))
		if !strings.Contains(a.body, "a secret question") || holdsPrompt(w.record(t, a)) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	for _, mode := range []string{"", `,"stream":true`} {
		t.Run("of an attempt before the one that answered"+mode, func(t *testing.T) {
			w := newWorld(t, setup{upstream: http.HandlerFunc(quoting)})
			a := w.post(t, chat(mode))
			if g := w.record(t, a); a.status != 200 || holdsPrompt(g) || !strings.Contains(g.Attempts[0].Message, "[prompt]") {
				t.Errorf("%d %+v", a.status, g.Attempts)
			}
		})
	}
	t.Run("of a stream that failed in its middle", func(t *testing.T) {
		w := newWorld(t, setup{upstream: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, word("a")+`data: {"error":{"message":"cannot go on with: a secret question","code":"bad_words"}}`+"\n\n")
		})})
		a := w.post(t, chat(`,"stream":true`))
		g := w.record(t, a)
		if holdsPrompt(g) || g.Attempts[0].Message != "provider answered with an error (bad_words)" || !strings.Contains(a.body, "a secret question") {
			t.Errorf("%q\n%s", g.Attempts[0].Message, a.body)
		}
	})
	t.Run("of a request that is too large to be looked through", func(t *testing.T) {
		w := newWorld(t, setup{maxBody: 16 << 20, upstream: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(rw, `{"error":{"message":"cannot read: a secret question"}}`)
		})})
		a := w.post(t, chat(`,"metadata":{"long":"`+strings.Repeat("much ", 1<<20)+`"}`))
		if g := w.record(t, a); holdsPrompt(g) || g.Attempts[0].Message != "provider answered 500 Internal Server Error" {
			t.Errorf("%d %q", a.status, g.Attempts[0].Message)
		}
	})
}

// What is kept of a request that failed says what its caller was told.
func TestContent_OfAFailure(t *testing.T) {
	w := newWorld(t, setup{upstream: http.HandlerFunc(quoting)})
	l := w.keepContents(t)
	a := w.post(t, chat(`,"provider":{"only":["primary"]}`))
	told, _ := at(object(t, a.body), "error", "message").(string)
	if got, _ := at(object(t, kept(t, l, a)), "error").(string); told == "" || got != told {
		t.Errorf("kept %q, told %q", got, told)
	}
}
