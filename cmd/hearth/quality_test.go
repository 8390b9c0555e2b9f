package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hearth quality says to the gateway what was meant, and to people what came of it.
func TestQuality(t *testing.T) {
	var asked string
	answer := ""
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.RequestURI() + " " + string(b)
		_, _ = io.WriteString(w, answer)
	}))
	defer gateway.Close()
	file := filepath.Join(t.TempDir(), "scores.csv")
	if err := os.WriteFile(file, []byte("model,provider,score\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const none, one = `{"data":[]}`, `{"data":[{"endpoint":"acme:x/a","by":"operator","reason":"it\u001b[2J lies"}]}`
	const imported = `{"data":{"flagged":["acme:x/a"],"cleared":["beta:x/a"],"fine":["c:x/a"],"others":2}}`
	for _, tc := range []struct {
		name, args, answer, asked, out string
	}{
		{"no flags", "list", none, "GET /api/v1/quality ", "no endpoint's quality is in doubt\n"},
		{"the list is the default", "", one, "GET /api/v1/quality ", "ENDPOINT  BY        REASON\nacme:x/a  operator  it"},
		{"as JSON", "list --json", one, "GET /api/v1/quality ", one},
		{"a flag", "flag acme:x/a --reason lies", one, `PUT /api/v1/quality {"endpoint":"acme:x/a","flagged":true,"reason":"lies"}`, "acme:x/a  operator"},
		{"taken back", "clear acme:x/a", none, `PUT /api/v1/quality {"endpoint":"acme:x/a","flagged":false}`, "no endpoint"},
		{"a benchmark", "import " + file, imported, "POST /api/v1/quality/benchmark model,provider,score\n", "flagged: acme:x/a\nnot any more: beta:x/a\n1 endpoint as good as usual, 2 scores of what is not here\n"},
		{"what it would do", "import --dry-run -", imported, "POST /api/v1/quality/benchmark?dry=true from stdin", "flagged: acme:x/a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked, answer = "", tc.answer
			var out, errs bytes.Buffer
			args := append([]string{"quality"}, strings.Fields(tc.args)...)
			code := run(append(args, "--url", gateway.URL), streams{strings.NewReader("from stdin"), &out, &errs})
			if code != 0 || asked != tc.asked || !strings.HasPrefix(out.String(), tc.out) && !strings.Contains(out.String(), tc.out) {
				t.Errorf("exit %d, asked %q, printed %q %q", code, asked, out.String(), errs.String())
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Error("a terminal's escape got through")
			}
		})
	}
	t.Run("a flag without a reason", func(t *testing.T) {
		var out bytes.Buffer
		if code := run([]string{"quality", "flag", "acme:x/a", "--url", gateway.URL}, streams{nil, &out, &out}); code != 2 || !strings.Contains(out.String(), "--reason") {
			t.Errorf("exit %d: %s", code, out.String())
		}
	})
}
