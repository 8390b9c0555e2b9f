package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// badBody is a body that must not be accepted. type is invalid_request with status 400 unless it says otherwise.
type badBody struct {
	name, body string
	param      string
	says       string // part of the message
	status     int
	typ        string
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

// with is a body for Qwen, whose every endpoint is external, with one more key.
func with(more string) string { return `{"model":"` + qwen + `",` + hi + `,` + more + `}` }

var syntaxErrors = []badBody{
	{name: "empty body", body: "", says: "not complete JSON"},
	{name: "white space only", body: " \n\t ", says: "not complete JSON"},
	{name: "not JSON", body: "model=x&messages=y", says: "not valid JSON at byte 0"},
	{name: "cut in the middle", body: `{"model":"` + qwen + `","mess`, says: "not complete JSON"},
	{name: "no closing brace", body: `{` + hi, says: "not complete JSON"},
	{name: "comma at the end", body: `{` + hi + `,}`, says: "not valid JSON at byte"},
	{name: "single quotes", body: `{'model':'x'}`, says: "not valid JSON at byte 1"},
	{name: "comment", body: `{/* x */` + hi + `}`, says: "not valid JSON at byte"},
	{name: "NaN", body: with(`"temperature":NaN`), says: "not valid JSON at byte"},
	{name: "number with a leading zero", body: with(`"seed":01`), says: "not valid JSON at byte"},
	{name: "raw control character in a string", body: with("\"x\":\"a\x01b\""), says: "not valid JSON at byte"},
	{name: "NUL bytes", body: "\x00\x00\x00\x00", says: "not valid JSON at byte 0"},
	{name: "NUL behind the object", body: `{` + hi + "}\x00", says: "not valid JSON at byte"},
	{name: "byte order mark", body: "\ufeff{" + hi + "}", says: "not valid JSON at byte 0"},
	{name: "UTF-16", body: "\xff\xfe{\x00}\x00", says: "not valid JSON at byte 0"},
	{name: "two objects", body: `{` + hi + `}{` + hi + `}`, says: "goes on after its JSON object ended"},
	{name: "rubbish behind the object", body: `{` + hi + `} x`, says: "not valid JSON at byte"},
	{name: "array", body: `[{` + hi + `}]`, says: "must be a JSON object"},
	{name: "string", body: `"hi"`, says: "must be a JSON object"},
	{name: "number", body: `1`, says: "must be a JSON object"},
	{name: "null", body: `null`, says: "must be a JSON object"},
	{name: "nested too deep in messages", body: `{"messages":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, says: "object", param: "messages[0]"},
	{name: "nested too deep in a key of others", body: with(`"x":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)), says: "nests more than 1000 levels"},
	{name: "nested too deep in content", body: `{"messages":[{"role":"user","content":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}]}`, says: "nests more than 1000 levels"},
	{name: "nested and never closed", body: `{"x":` + strings.Repeat("[", 200_000), says: "nests more than 1000 levels"},
	{name: "a thousand keys", body: with(manyKeys(1000)), says: "more than 512 keys"},
	{name: "a key of a kilobyte", body: with(`"` + strings.Repeat("k", 1024) + `":1`), says: "key of more than 256 bytes"},
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

var fieldErrors = []badBody{
	{name: "model twice", body: `{"model":"a",` + hi + `,"model":"b"}`, param: "model", says: "more than once"},
	{name: "model twice, once escaped", body: `{"model":"a",` + hi + `,"mode\u006c":"b"}`, param: "model", says: "more than once"},
	{name: "MODEL beside model", body: with(`"MODEL":"dear"`), param: "MODEL", says: `write "model"`},
	{name: "Model alone", body: `{"Model":"` + qwen + `",` + hi + `}`, param: "Model", says: `write "model"`},
	{name: "ſtream with a long s", body: with(`"ſtream":true`), says: `write "stream"`, param: "?tream"},
	{name: "Provider", body: with(`"Provider":{}`), param: "Provider", says: `write "provider"`},
	{name: "messages twice", body: `{` + hi + `,` + hi + `}`, param: "messages", says: "more than once"},
	{name: "a key of others twice", body: with(`"seed":1,"seed":2`), param: "seed", says: "more than once"},
	{name: "model of a wrong type", body: `{"model":7,` + hi + `}`, param: "model", says: "must be a string"},
	{name: "model empty", body: `{"model":"",` + hi + `}`, param: "model", says: "must not be empty"},
	{name: "model as a list", body: `{"model":["` + qwen + `"],` + hi + `}`, param: "model", says: "must be a string"},
	{name: "model with NUL", body: `{"model":"a\u0000b",` + hi + `}`, param: "model", says: "control characters"},
	{name: "model with a line break", body: `{"model":"a\r\nX-Evil: 1",` + hi + `}`, param: "model", says: "control characters"},
	{name: "model not UTF-8", body: "{\"model\":\"a\xff\"," + hi + `}`, param: "model", says: "UTF-8"},
	{name: "model too long", body: `{"model":"` + strings.Repeat("m", 300) + `",` + hi + `}`, param: "model", says: "longer than 256"},
	{name: "models of a wrong type", body: `{"models":"` + qwen + `",` + hi + `}`, param: "models", says: "array of strings"},
	{name: "models with a number", body: `{"models":["` + qwen + `",3],` + hi + `}`, param: "models[1]", says: "must be a string"},
	{name: "10,000 models", body: `{"models":[` + strings.TrimSuffix(strings.Repeat(`"a/b",`, 10_000), ",") + `],` + hi + `}`, param: "models", says: "more than 64"},
	{name: "no messages", body: `{"model":"` + qwen + `"}`, param: "messages", says: "required"},
	{name: "empty messages", body: `{"messages":[]}`, param: "messages", says: "must not be empty"},
	{name: "messages null", body: `{"messages":null}`, param: "messages", says: "must be an array"},
	{name: "messages as a string", body: `{"messages":"hi"}`, param: "messages", says: "must be an array"},
	{name: "a message as a string", body: `{"messages":["hi"]}`, param: "messages[0]", says: "must be an object"},
	{name: "a message without a role", body: `{"messages":[{"role":"user","content":"a"},{"content":"b"}]}`, param: "messages[1].role", says: "needs a role"},
	{name: "a role of a wrong type", body: `{"messages":[{"role":1,"content":"b"}]}`, param: "messages[0].role", says: "must be a string"},
	{name: "a role twice", body: `{"messages":[{"role":"user","role":"system","content":"b"}]}`, param: "messages[0].role", says: "more than once"},
	{name: "ROLE", body: `{"messages":[{"ROLE":"user","content":"b"}]}`, param: "messages[0].ROLE", says: `write "role"`},
	{name: "stream of a wrong type", body: with(`"stream":"true"`), param: "stream", says: "true, false or null"},
	{name: "stream as a number", body: with(`"stream":1`), param: "stream", says: "true, false or null"},
	{name: "stream_options of a wrong type", body: with(`"stream_options":true`), param: "stream_options", says: "object or null"},
	{name: "negative max_tokens", body: with(`"max_tokens":-1`), param: "max_tokens", says: "integer from 0"},
	{name: "max_tokens with a fraction", body: with(`"max_tokens":1.5`), param: "max_tokens", says: "integer from 0"},
	{name: "max_tokens as a string", body: with(`"max_tokens":"100"`), param: "max_tokens", says: "integer from 0"},
	{name: "huge max_tokens", body: with(`"max_tokens":99999999999999999999999999`), param: "max_tokens", says: "integer from 0"},
	{name: "max_tokens beyond every float", body: with(`"max_tokens":1e400`), param: "max_tokens", says: "integer from 0"},
	{name: "negative max_completion_tokens", body: with(`"max_completion_tokens":-5`), param: "max_completion_tokens", says: "integer from 0"},
	{name: "user of a wrong type", body: with(`"user":{"id":1}`), param: "user", says: "string or null"},
	{name: "user too long", body: with(`"user":"` + strings.Repeat("u", 5000) + `"`), param: "user", says: "longer than 4096"},
	{name: "provider as a string", body: with(`"provider":"acme"`), param: "provider", says: "must be an object"},
	{name: "provider.only as a string", body: with(`"provider":{"only":"acme"}`), param: "provider.only", says: "array of strings"},
	{name: "provider.ignore with a number", body: with(`"provider":{"ignore":["acme",null]}`), param: "provider.ignore[1]", says: "must be a string"},
	{name: "provider.order with 65 names", body: with(`"provider":{"order":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 65), ",") + `]}`), param: "provider.order", says: "more than 64"},
	{name: "provider.onky", body: with(`"provider":{"onky":["local-gpu"]}`), param: "provider.onky", says: `did you mean "only"`},
	{name: "provider.only twice", body: with(`"provider":{"only":["acme"],"only":["local-gpu"]}`), param: "provider.only", says: "more than once"},
	{name: "provider.allow_fallbacks as a string", body: with(`"provider":{"allow_fallbacks":"no"}`), param: "provider.allow_fallbacks", says: "true, false"},
	{name: "provider.sort by whim", body: with(`"provider":{"sort":"whim"}`), param: "provider.sort", says: "known are price"},
	{name: "provider.zdr that nobody keeps", body: with(`"provider":{"zdr":true}`), says: "nothing is retained", status: 404, typ: "no_endpoints_found"},
	{name: "provider.data_collection that nobody keeps", body: with(`"provider":{"data_collection":"deny"}`), says: "not collected", status: 404, typ: "no_endpoints_found"},
	{name: "provider.max_price that nobody keeps", body: with(`"provider":{"max_price":{"prompt":1}}`), says: "provider.max_price", status: 404, typ: "no_endpoints_found"},
	{name: "provider.zdr as a string", body: with(`"provider":{"zdr":"true"}`), param: "provider.zdr", says: "true, false"},
	{name: "provider.data_collection by whim", body: with(`"provider":{"data_collection":"some"}`), param: "provider.data_collection", says: "deny"},
	{name: "provider.max_price of a wrong type", body: with(`"provider":{"max_price":5}`), param: "provider.max_price", says: "object"},
	{name: "plugins of a wrong type", body: with(`"plugins":"web"`), param: "plugins", says: "array"},
	{name: "the web plugin", body: with(`"plugins":[{"id":"web"}]`), param: "plugins[0].id", says: "web", typ: "unsupported"},
	{name: "unknown model", body: `{"model":"google/gemma-4-26b-a4",` + hi + `}`, param: "model", says: "did you mean " + gemma, status: 404, typ: "model_not_found"},
	{name: "auto router", body: `{"model":"openrouter/auto",` + hi + `}`, param: "model", says: "there is no model", status: 404, typ: "model_not_found"},
	{name: "model in another case", body: `{"model":"Google/Gemma-4-26B-A4B",` + hi + `}`, param: "model", says: gemma, status: 404, typ: "model_not_found"},
	{name: "a list of unknown models", body: `{"models":["a/b","c/d"],` + hi + `}`, says: "no such model", status: 404, typ: "no_endpoints_found"},
	{name: "a provider that is none", body: with(`"provider":{"only":["nobody"]}`), says: "provider.only", status: 404, typ: "no_endpoints_found"},
}

func TestServer_BadInput(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for _, c := range slices.Concat(syntaxErrors, fieldErrors) {
		t.Run(c.name, func(t *testing.T) {
			for _, route := range []string{"/api/v1/chat/completions", "/v1/chat/completions"} {
				c.check(t, w, w.call("POST", route, c.body, "Authorization: Bearer "+w.user, "Content-Type: application/json"))
			}
			// Explain takes the same body and refuses the same ones, but for those whose chain is only empty, and those
			// that lack only the messages.
			explained := c.typ == "no_endpoints_found" || c.name == "no messages"
			if r := w.call("POST", "/v1/chain", c.body, "Authorization: Bearer "+w.user); !explained && r.status != c.want() {
				t.Errorf("/chain: %d %s", r.status, r.body)
			}
		})
	}
	w.untouched(t)
}

func (c *badBody) want() int {
	if c.status == 0 {
		return http.StatusBadRequest
	}
	return c.status
}

func (c *badBody) check(t *testing.T, w *world, r reply) {
	t.Helper()
	e := r.fault(t)
	typ := c.typ
	if typ == "" {
		typ = "invalid_request"
	}
	if r.status != c.want() || e.Error.Type != typ || e.Error.Param != c.param {
		t.Errorf("%d %s, param %q; want %d %s, param %q", r.status, e.Error.Type, e.Error.Param, c.want(), typ, c.param)
	}
	if !strings.Contains(e.Error.Message, c.says) {
		t.Errorf("message %q does not say %q", e.Error.Message, c.says)
	}
	if len(r.body) > 4000 || !jsontext.Value(r.body).IsValid() {
		t.Errorf("the error is too long or no JSON: %.300q", r.body)
	}
	if got := r.header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("X-Should-Retry = %q", got)
	}
	rec := w.generation(r.header.Get("X-Generation-Id"), w.user)
	if (r.status == 400 || r.status == 413) && (rec.status != 404 || rec.fault(t).Error.Type != "not_recorded") {
		t.Errorf("the id of a %d answers %d %s", r.status, rec.status, rec.body)
	}
}

// untouched checks that nothing was forwarded, and that the gateway still serves.
func (w *world) untouched(t *testing.T) {
	t.Helper()
	if n := w.acme.Seen().Requests + w.beta.Seen().Requests; n != 0 {
		t.Errorf("%d bad requests were forwarded", n)
	}
	for _, model := range []string{gemma, exaone, broken} {
		if got := w.statuses(model)[0]; got != `"status":-2` {
			t.Errorf("bad input woke %s: %s", model, got)
		}
	}
	if r := w.chat(ask(qwen, "")); r.status != 200 {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	if log := w.log.String(); strings.Contains(log, "panic") {
		t.Errorf("something panicked: %s", log)
	}
}

func TestServer_BodySize(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "request: {max_body: 64KiB}")
	big := with(`"x":"` + strings.Repeat("y", 64<<10) + `"`)
	want := badBody{says: "request.max_body", status: 413, typ: "payload_too_large"}
	t.Run("with Content-Length", func(t *testing.T) {
		want.check(t, w, w.chat(big))
	})
	t.Run("chunked", func(t *testing.T) {
		want.check(t, w, w.send("POST", "/v1/chat/completions", io.MultiReader(strings.NewReader(big)), "Authorization: Bearer "+w.user))
	})
	t.Run("a promise of a terabyte", func(t *testing.T) {
		raw := w.raw(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+w.user+"\r\nContent-Length: 1099511627776\r\n\r\n")
		if !strings.HasPrefix(raw, "HTTP/1.1 413 ") || !strings.Contains(raw, "payload_too_large") {
			t.Error(raw)
		}
	})
	t.Run("cut short", func(t *testing.T) {
		conn := dial(t, w)
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: 5000\r\n\r\n{\"mo", w.user)
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 400 ")) || !bytes.Contains(b, []byte("Content-Length")) {
			t.Errorf("%s %v", b, err)
		}
	})
	t.Run("just small enough", func(t *testing.T) {
		head := with(`"x":""`)
		if r := w.call("POST", "/v1/chain", with(`"x":"`+strings.Repeat("y", 64<<10-len(head))+`"`), "Authorization: Bearer "+w.user); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
	w.untouched(t)
}

// TestServer_OddButGood are bodies that look bad and must go through as they are.
func TestServer_OddButGood(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for _, c := range []struct{ name, body, forwarded string }{
		{"lone surrogate in content", `{"model":"` + qwen + `","messages":[{"role":"user","content":"\ud800"}]}`, `"content":"\ud800"`},
		{"escaped NUL in content", `{"model":"` + qwen + `","messages":[{"role":"user","content":"a\u0000b"}]}`, `"content":"a\u0000b"`},
		{"duplicate keys in a schema", with(`"response_format":{"type":"x","type":"y"}`), `"response_format":{"type":"x","type":"y"}`},
		{"numbers keep their spelling", with(`"seed":12345678901234567890,"temperature":0.10`), `"seed":12345678901234567890,"temperature":0.10`},
		{"white space", " \r\n" + with(`"top_p":1`) + "\n\n", `"top_p":1`},
		{"a case variant below the top level", with(`"x":{"MODEL":1,"Model":2}`), `"x":{"MODEL":1,"Model":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := w.chat(c.body); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
			if got := w.acme.LastBody(); !bytes.Contains(got, []byte(c.forwarded)) {
				t.Errorf("forwarded %s", got)
			}
		})
	}
}
