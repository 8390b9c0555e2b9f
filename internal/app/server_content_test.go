package app_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// echo is a provider that says what it was told, in pieces of three bytes, after a thought; asked to call, it calls a tool
// with it; asked to fail, it refuses.
func echo(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Stream   bool `json:"stream"`
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
		}
		if err := json.UnmarshalRead(r.Body, &in); err != nil || len(in.Messages) == 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		said := in.Messages[len(in.Messages)-1].Content
		quoted, _ := json.Marshal(said)
		switch {
		case strings.HasPrefix(said, "fail"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"no such luck","code":400}}`)
		case !in.Stream:
			message := fmt.Sprintf(`{"role":"assistant","content":%s,"reasoning":"thought of %s"}`, quoted, quoted[1:len(quoted)-1])
			if strings.HasPrefix(said, "call") {
				args, _ := json.Marshal(fmt.Sprintf(`{"text":%s}`, quoted))
				message = fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"dial","arguments":%s}}]}`, args)
			}
			fmt.Fprintf(w, `{"id":"x","choices":[{"index":0,"message":%s,"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"another"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, message)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, field := range []string{"reasoning", "content"} {
				for rest := said; rest != ""; {
					n := min(3, len(rest))
					piece, _ := json.Marshal(rest[:n])
					fmt.Fprintf(w, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"%s\":%s}}]}\n\n", field, piece)
					rest = rest[n:]
				}
			}
			if strings.HasPrefix(said, "break") {
				return
			}
			io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n")
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// startEcho starts a world with the provider echo; settings stand in records.content.
func startEcho(t *testing.T, settings string) *world {
	t.Helper()
	return startWorld(t, "records: {content: {"+settings+"}}", "  - slug: beta",
		"  - slug: echo\n    base_url: "+echo(t)+"/v1\n    api_key: echo-secret\n    models: [{model: echo/model, price: {prompt: 0.06, completion: 0.24}}]\n  - slug: beta")
}

// say sends a text to echo and returns the id of the generation.
func (w *world) say(t *testing.T, key, text, more string, status int) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	r := w.call("POST", "/api/v1/chat/completions", fmt.Sprintf(`{"model":"echo/model","messages":[{"role":"user","content":%s}]%s}`, quoted, more), "Authorization: Bearer "+key)
	if r.status != status {
		t.Fatalf("%s: %d %s", text, r.status, r.body)
	}
	return r.header.Get("X-Generation-Id")
}

func (w *world) content(id, key string) reply {
	w.t.Helper()
	return w.call("GET", "/api/v1/generation/content?id="+id, "", "Authorization: Bearer "+key)
}

// found says in which files of the data directory a text is.
func (w *world) found(t *testing.T, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(w.cfg.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files = append(files, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestServer_ContentOff(t *testing.T) {
	t.Parallel()
	w := startEcho(t, "log: off")
	id := w.say(t, w.user, "UNMISTAKABLE-WORDS", "", 200)
	w.say(t, w.user, "UNMISTAKABLE-WORDS", `,"stream":true`, 200)
	w.say(t, w.user, "break UNMISTAKABLE-WORDS", `,"stream":true`, 200)
	w.say(t, w.user, "fail UNMISTAKABLE-WORDS", "", 400)
	r := w.content(id, w.user)
	if e := r.fault(t); r.status != 404 || !strings.Contains(e.Error.Message, "records.content.log") {
		t.Errorf("%d %s", r.status, r.body)
	}
	w.end()
	if files := w.found(t, id); len(files) == 0 {
		t.Error("the search finds not even the record")
	}
	if files := w.found(t, "UNMISTAKABLE"); len(files) > 0 {
		t.Errorf("the prompt or the answer is in %v", files)
	}
	if strings.Contains(w.log.String(), "UNMISTAKABLE") {
		t.Error("the prompt or the answer is in the log")
	}
	if _, err := os.Stat(filepath.Join(w.cfg.DataDir, "content.db")); err == nil {
		t.Error("there is a file for contents")
	}
}

func TestServer_Content(t *testing.T) {
	t.Parallel()
	w := startEcho(t, "log: on, max_bytes: 1KiB, redact: ['FALCON-[0-9]+']")
	const secret = "mail SECRET@example.com about FALCON-77, card 4111 1111 1111 1111"
	const safe = "mail [redacted:email] about [redacted], card [redacted:card]"
	messages := func(text string) string { return `[{"content":"` + text + `","role":"user"}]` }
	null := `null`
	for _, c := range []struct {
		name, text, more          string
		status                    int
		input, completion, reason string
		rest                      string
	}{
		{"a whole answer", secret, "", 200, messages(safe), `"` + safe + `"`, `"thought of ` + safe + `"`, `"error":null,"truncated":false`},
		{"a stream in small pieces", secret, `,"stream":true`, 200, messages(safe), `"` + safe + `"`, `"` + safe + `"`, `"error":null,"truncated":false`},
		{"a tool call", "call " + secret, "", 200, messages("call " + safe), null, null, `"tool_calls":[{"name":"dial","arguments":"{\"text\":\"call ` + safe + `\"}"}]`},
		{"a refusal", "fail " + secret, "", 400, messages("fail " + safe), null, null, `"provider_name":"echo","status":400,"raw":null,"previous_errors":[]`},
		{"a stream that breaks off", "break " + secret, `,"stream":true`, 200, messages("break " + safe), `"break ` + safe + `"`, `"break ` + safe + `"`, `"status":200,"raw":null,"previous_errors":[]`},
		{"a long prompt", strings.Repeat("long ", 1000) + secret, "", 200, "", "", "", `"truncated":true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := w.say(t, w.user, c.text, c.more, c.status)
			r := w.content(id, w.user)
			if r.status != 200 || r.header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%d %s", r.status, r.body)
			}
			data := r.document(t)["data"].(map[string]any)
			in, out := data["input"].(map[string]any), data["output"].(map[string]any)
			if c.input != "" {
				for _, p := range []struct {
					want string
					got  any
				}{{c.input, in["messages"]}, {c.completion, out["completion"]}, {c.reason, out["reasoning"]}} {
					got, err := json.Marshal(p.got, json.Deterministic(true))
					if err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(p.want, string(got)); d != "" {
						t.Error(d)
					}
				}
			}
			if !bytes.Contains(r.body, []byte(c.rest)) {
				t.Errorf("no %s in %s", c.rest, r.body)
			}
			if bytes.Contains(r.body, []byte("SECRET")) || bytes.Contains(r.body, []byte("FALCON")) || bytes.Contains(r.body, []byte("4111")) {
				t.Errorf("not redacted: %s", r.body)
			}
		})
	}
	w.end()
	for _, text := range []string{"SECRET", "FALCON", "4111 1111"} {
		if files := w.found(t, text); len(files) > 0 {
			t.Errorf("%q is in %v", text, files)
		}
		if strings.Contains(w.log.String(), text) {
			t.Errorf("%q is in the log", text)
		}
	}
	if d := cmp.Diff([]string{"content.db"}, w.found(t, "mail [redacted:email] about [redacted]")); d != "" {
		t.Error(d)
	}
}

func TestServer_ContentOfWhom(t *testing.T) {
	t.Parallel()
	w := startEcho(t, "log: on, keys: [first user key, never, local]")
	key := func(k hearth.Key) string {
		plain, _, err := w.app.Accounts.Create(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		return plain
	}
	never, other := key(hearth.Key{Name: "never", NoContent: true}), key(hearth.Key{Name: "other"})
	mine := w.say(t, w.user, "hello", "", 200)
	for _, k := range []string{w.user, w.admin} {
		if r := w.content(mine, k); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if r := w.content(mine, other); r.status != 404 || r.fault(t).Error.Type != "not_recorded" {
		t.Errorf("another key gets %d %s", r.status, r.body)
	}
	if r := w.call("GET", "/api/v1/generation/content?id="+mine, ""); r.status != 401 {
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
	if r := w.content("", w.user); r.status != 400 {
		t.Errorf("without an id: %d %s", r.status, r.body)
	}
	for name, k := range map[string]string{"a key that forbids it": never, "a key that is not named": other} {
		if r := w.content(w.say(t, k, "hello", "", 200), k); r.status != 404 || !strings.Contains(string(r.body), "its key forbids it") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if _, err := w.app.Accounts.Change(t.Context(), "never", hearth.KeyChange{NoContent: new(false)}); err != nil {
		t.Fatal(err)
	}
	if r := w.content(w.say(t, never, "hello", "", 200), never); r.status != 200 {
		t.Errorf("the key does not forbid it any more: %d %s", r.status, r.body)
	}
}

func TestReload_Content(t *testing.T) {
	t.Parallel()
	w := startEcho(t, "log: off")
	before := w.say(t, w.user, "hello", "", 200)
	w.reload("log: off", "log: on")
	during := w.say(t, w.user, "hello", "", 200)
	if r := w.content(during, w.user); r.status != 200 {
		t.Errorf("on: %d %s", r.status, r.body)
	}
	w.reload()
	after := w.say(t, w.user, "hello", "", 200)
	for name, c := range map[string]struct {
		id   string
		want int
	}{"before": {before, 404}, "what was kept stays for its time": {during, 200}, "after": {after, 404}} {
		if r := w.content(c.id, w.user); r.status != c.want {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
