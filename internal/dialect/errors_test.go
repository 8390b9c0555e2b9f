package dialect

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestAppendError(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    *hearth.Error
		want string
	}{
		{"a field", hearth.Invalid("messages[2].role", "role must be a string"),
			`{"error":{"code":400,"message":"role must be a string","type":"invalid_request","param":"messages[2].role","metadata":{"error_type":"invalid_request"}}}`},
		{"unknown model", &hearth.Error{Type: hearth.ErrModelNotFound, Message: "no model \"x\"", Requested: []string{"x", "y\n"}},
			`{"error":{"code":404,"message":"no model \"x\"","type":"model_not_found","param":null,"metadata":{"error_type":"not_found"},"error_type":"not_found","http_status":404,"availability":{"code":"model_not_found","retryable":false,"requested_models":["x","y\n"],"docs_url":"` + docsURL + `model_not_found"}}}`},
		{"slot", &hearth.Error{Type: hearth.ErrModelLoading, Message: "loading", SlotStatus: hearth.SkipLoading, RetryAfter: 1500 * time.Millisecond,
			Attempts: []hearth.Attempt{
				{Model: "m", Provider: "Own GPU", Slug: "local-gpu", Endpoint: "local-gpu/g:m", Skip: hearth.SkipLoading, Latency: 20 * time.Millisecond},
				{Model: "m", Provider: "Acme", Endpoint: "acme:m", Status: 500, Latency: 3 * time.Second, Message: "oops"},
				{Model: "m", Provider: "Beta", Endpoint: "beta:m"},
			}, Err: errors.New("secret")},
			`{"error":{"code":503,"message":"loading","type":"model_loading","param":null,"metadata":{"error_type":"provider_overloaded","slot_status":"slot_loading","previous_errors":[{"provider":"Acme","code":500,"status":500}],"attempts":[` +
				`{"provider":"Own GPU","model":"m","endpoint":"local-gpu/g:m","status":"slot_loading","skip_reason":"slot_loading","latency":20},` +
				`{"provider":"Acme","model":"m","endpoint":"acme:m","status":500,"latency":3000,"message":"oops"},` +
				`{"provider":"Beta","model":"m","endpoint":"beta:m","status":null,"latency":0}]},"error_type":"provider_overloaded","http_status":503,"availability":{"code":"temporarily_unavailable","retryable":true,"retry_after":2,"requested_models":[],"docs_url":"` + docsURL + `model_loading"}}}`},
		{"drops", &hearth.Error{Type: hearth.ErrNoEndpoints, Message: "none left", Drops: []hearth.Drop{{Model: "m", Provider: "acme", Endpoint: "acme:m", Stage: hearth.StageConditions, Reason: "not in only"}, {Model: "x", Stage: hearth.StageUnknown, Reason: "unknown"}}},
			`{"error":{"code":404,"message":"none left","type":"no_endpoints_found","param":null,"metadata":{"error_type":"not_found","dropped":[{"model":"m","provider_slug":"acme","endpoint":"acme:m","stage":"conditions","reason":"not in only"},{"model":"x","stage":"unknown_model","reason":"unknown"}]},"error_type":"not_found","http_status":404,"availability":{"code":"no_endpoints","retryable":false,"requested_models":[],"docs_url":"` + docsURL + `no_endpoints_found"}}}`},
		{"an upstream's rejection", &hearth.Error{Type: hearth.ErrInvalidRequest, Status: 422, Message: "refused", Provider: "Acme", Raw: "bad \xff tool", ProviderCode: "bad_tool"},
			`{"error":{"code":422,"message":"refused","type":"invalid_request","param":null,"metadata":{"error_type":"invalid_request","provider_name":"Acme","is_byok":false,"provider_code":"bad_tool","provider_error_code":"bad_tool","raw":"bad ` + "\uFFFD" + ` tool"}}}`},
		{"the last error is not one before it", &hearth.Error{Type: hearth.ErrTimeout, Attempts: []hearth.Attempt{{Provider: "A", Status: 408, Skip: "x"}, {Provider: "B", Status: 504}}},
			`{"error":{"code":504,"message":"","type":"timeout","param":null,"metadata":{"error_type":"timeout","previous_errors":[{"provider":"A","code":408,"status":408}],"attempts":[` +
				`{"provider":"A","model":"","endpoint":"","status":408,"latency":0},{"provider":"B","model":"","endpoint":"","status":504,"latency":0}]},` +
				`"error_type":"timeout","http_status":504,"availability":{"code":"temporarily_unavailable","retryable":true,"requested_models":[],"docs_url":"` + docsURL + `timeout"}}}`},
		{"internal", &hearth.Error{Type: hearth.ErrInternal, Message: "something broke"},
			`{"error":{"code":500,"message":"something broke","type":"internal","param":null,"metadata":{"error_type":"server"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, string(AppendError(nil, tt.e))); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("in a stream", func(t *testing.T) {
		got := string(stamp().AppendErrorChunk(nil, hearth.Errorf(hearth.ErrProvider, "the provider broke off")))
		want := `{"error":{"code":502,"message":"the provider broke off","type":"provider_error","param":null,"metadata":{"error_type":"provider_unavailable"},` +
			`"error_type":"provider_unavailable","http_status":502,"availability":{"code":"temporarily_unavailable","retryable":true,"requested_models":[],"docs_url":"` + docsURL + `provider_error"}},` + chunkHead[1:] + `,"created":99,"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","native_finish_reason":null}]}`
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
	t.Run("long lists are cut", func(t *testing.T) {
		got := string(AppendError(nil, &hearth.Error{Type: hearth.ErrProvider, Attempts: make([]hearth.Attempt, 5000)}))
		if n := strings.Count(got, `"endpoint"`); n != maxListed {
			t.Errorf("%d attempts shown", n)
		}
		tried := slices.Repeat([]hearth.Attempt{{Status: 500}}, 5000)
		got = string(AppendError(nil, &hearth.Error{Type: hearth.ErrProvider, Attempts: tried, Requested: slices.Repeat([]string{"m"}, 5000)}))
		if n, m := strings.Count(got, `"code":500`), strings.Count(got, `"m"`); n != maxListed || m != maxListed {
			t.Errorf("%d previous errors and %d models shown", n, m)
		}
	})
	t.Run("texts are cut between characters", func(t *testing.T) {
		for _, s := range []string{strings.Repeat("한", 100_000), "x" + strings.Repeat("한", 100_000), strings.Repeat("\x80", 100_000)} {
			got := AppendError(nil, &hearth.Error{Type: hearth.ErrProvider, Message: s, Raw: s, ProviderCode: s})
			if len(got) > 4*3*maxText+1000 || !jsontext.Value(got).IsValid() || s[0] != 0x80 && bytes.Contains(got, []byte("\uFFFD")) {
				t.Errorf("%d bytes: %.80q", len(got), got)
			}
		}
	})
}

// TestDocsURL: what an error points to is there.
func TestDocsURL(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []hearth.ErrorType{
		hearth.ErrInvalidRequest, hearth.ErrContextLength, hearth.ErrUnsupported, hearth.ErrUnauthorized, hearth.ErrInsufficientCredits,
		hearth.ErrNotAllowed, hearth.ErrModelNotFound, hearth.ErrNoEndpoints, hearth.ErrNotFound, hearth.ErrNotRecorded,
		hearth.ErrPayloadTooLarge, hearth.ErrRateLimited, hearth.ErrProvider, hearth.ErrModelLoading, hearth.ErrCoolingDown,
		hearth.ErrOverloaded, hearth.ErrTimeout, hearth.ErrInternal,
	} {
		_, section, found := bytes.Cut(page, []byte("\n## "+string(e)+"\n"))
		section, _, _ = bytes.Cut(section, []byte("\n## "))
		for _, word := range []string{strconv.Itoa(e.Status()), "`" + e.OpenRouter() + "`"} {
			if !found || !bytes.Contains(section, []byte(word)) {
				t.Errorf("%s: no section that says %s", e, word)
			}
		}
	}
}

// TestHostile feeds bodies made to be slow: each must be refused or passed in time that grows with its length only.
func TestHostile(t *testing.T) {
	big := 1 << 20
	for name, body := range map[string]string{
		"brackets":             strings.Repeat("[", big),
		"braces":               strings.Repeat(`{"a":`, big/5),
		"brackets in content":  `{"messages":[{"role":"user","content":` + strings.Repeat("[", big),
		"one key again":        `{` + strings.Repeat(`"a":1,`, big/6),
		"one key of ours":      `{"provider":{` + strings.Repeat(`"only":[],`, big/10),
		"backslashes":          `{"messages":[{"role":"user","content":"` + strings.Repeat(`\\`, big/2) + `"}]}`,
		"quotes":               `{"messages":[{"role":"user","content":"` + strings.Repeat(`\"`, big/2) + `"}]}`,
		"quotes in parts":      `{"messages":[{"role":"user","content":[{"type":"x","x":["` + strings.Repeat(`\"`, big/4) + `",";base64,"]}]}]}`,
		"data URLs":            `{"messages":[{"role":"user","content":[{"x":[` + strings.Repeat(`"data:;base64,",`, big/16) + `1]}]}]}`,
		"messages":             `{"messages":[` + strings.Repeat(`{"role":"u"},`, big/13) + `{"role":"u"}]}`,
		"roles":                `{"messages":[{` + strings.Repeat(`"role":"u",`, big/11),
		"a long number":        `{` + msgs + `,"x":` + strings.Repeat("9", big) + `}`,
		"a long max_tokens":    `{` + msgs + `,"max_tokens":` + strings.Repeat("9", big) + `}`,
		"a long key":           `{"` + strings.Repeat("k", big) + `":1}`,
		"a long escaped key":   `{"` + strings.Repeat(`\u006b`, big/6) + `":1}`,
		"a long provider key":  `{"provider":{"` + strings.Repeat(`k`, big) + `":1},` + msgs + `}`,
		"plugins":              `{"plugins":[` + strings.Repeat(`{"id":"x"},`, big/11) + `{"id":"x"}],` + msgs + `}`,
		"tools":                `{"tools":[` + strings.Repeat(`{"type":"openrouter"},`, big/22) + `{}],` + msgs + `}`,
		"models":               `{"models":[` + strings.Repeat(`"m",`, big/4) + `"m"],` + msgs + `}`,
		"thinking parts":       `{"choices":[{"index":0,"delta":{"content":[` + strings.Repeat(`{"thinking":"a"},`, big/17) + `1]}}]}`,
		"deep thinking":        `{"choices":[{"index":0,"delta":{"content":` + strings.Repeat(`[{"thinking":`, 300) + `"` + strings.Repeat("a", big) + `"` + strings.Repeat(`}]`, 300) + `}}]}`,
		"tool calls":           `{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Repeat(`{"id":"a"},{"index":3},`, big/22) + `{}]}}]}`,
		"choices":              `{"choices":[` + strings.Repeat(`{},`, big/3) + `{}]}`,
		"errors in errors":     strings.Repeat(`{"error":`, big/9),
		"white space":          `{` + strings.Repeat(" ", big) + msgs + `}`,
		"deep and wide":        `{` + msgs + `,"x":[` + strings.Repeat(strings.Repeat("[", 990)+strings.Repeat("]", 990)+",", big/1981) + `1]}`,
		"a long user":          `{"user":"` + strings.Repeat("u", big) + `",` + msgs + `}`,
		"escaped model":        `{"model":"` + strings.Repeat(`\u0061`, big/6) + `",` + msgs + `}`,
		"values of max_price":  `{"provider":{"max_price":{` + strings.Repeat(`"a":1,`, big/6) + `"a":1}},` + msgs + `}`,
		"members of sort":      `{"provider":{"sort":{` + strings.Repeat(`"by":"price",`, big/13) + `"by":"price"}},` + msgs + `}`,
		"stream options again": `{"stream":true,"stream_options":{` + strings.Repeat(`"include_usage":1,`, big/18) + `"a":1},` + msgs + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if c, err := DecodeChat([]byte(body), bytesCount); err == nil {
				c.AppendForward(nil, Target{Model: "m", StreamUsage: true})
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			start = time.Now()
			s := stamp()
			s.AppendChunk(nil, []byte(body))
			ReadAnswer([]byte(body))
			ReadError(500, []byte(body))
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("as an answer: took %v", d)
			}
		})
	}
}
