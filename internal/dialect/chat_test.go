package dialect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"myip.co.kr/hearth"
)

func bytesCount(b []byte) int { return len(b) }

const msgs = `"messages":[{"role":"user","content":"hi"}]`

func TestDecodeChat_refused(t *testing.T) {
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	bad := hearth.ErrInvalidRequest
	for _, tt := range []struct {
		name, body string
		typ        hearth.ErrorType
		param      string
		says       string
	}{
		{"empty body", ``, bad, "", "not complete JSON: it ends at byte 0"},
		{"no object", `[]`, bad, "", "must be a JSON object"},
		{"null", `null`, bad, "", "must be a JSON object"},
		{"cut", `{"model":"a","messages":[{"role":"us`, bad, "", "it ends at byte 36"},
		{"malformed", `{"model":"a" "x":1}`, bad, "", "at byte 13"},
		{"malformed in messages", `{"messages":[{"role":"user","content":tru}]}`, bad, "", "not valid JSON"},
		{"wrong bracket", `{"messages":[{"role":"user"]}`, bad, "", "not valid JSON"},
		{"wrong bracket at the top", `{"messages":[{"role":"user"}]]`, bad, "", "not valid JSON"},
		{"control character in a string", "{" + msgs + ",\"x\":\"a\nb\"}", bad, "", "not valid JSON"},
		{"trailing data", `{` + msgs + `} {}`, bad, "", "goes on after"},
		{"trailing garbage", `{` + msgs + `}x`, bad, "", "not valid JSON"},
		{"duplicate model", `{"model":"a","model":"b",` + msgs + `}`, bad, "model", "more than once"},
		{"duplicate by escape", `{"model":"a","mod\u0065l":"b",` + msgs + `}`, bad, "model", "more than once"},
		{"duplicate messages", `{` + msgs + `,` + msgs + `}`, bad, "messages", "more than once"},
		{"duplicate unknown key", `{"x":1,` + msgs + `,"x":2}`, bad, "x", "more than once"},
		{"duplicate tools", `{"tools":[],` + msgs + `,"tools":[]}`, bad, "tools", "more than once"},
		{"case variant", `{"model":"cheap","MODEL":"dear",` + msgs + `}`, bad, "MODEL", `write "model"`},
		{"case variant by escape", `{"\u004dodel":"dear",` + msgs + `}`, bad, "Model", `write "model"`},
		{"case variant with a long s", `{"ſtream":true,` + msgs + `}`, bad, "?tream", `write "stream"`},
		{"case variant of provider", `{"Provider":{},` + msgs + `}`, bad, "Provider", `write "provider"`},
		{"model a number", `{"model":1,` + msgs + `}`, bad, "model", "must be a string"},
		{"model empty", `{"model":"",` + msgs + `}`, bad, "model", "must not be empty"},
		{"model long", `{"model":"` + strings.Repeat("m", 257) + `",` + msgs + `}`, bad, "model", "longer than 256"},
		{"model with a control character", `{"model":"a\r\nX-Evil: 1",` + msgs + `}`, bad, "model", "control characters"},
		{"model not UTF-8", "{\"model\":\"a\xff\"," + msgs + `}`, bad, "model", "not UTF-8"},
		{"models a string", `{"models":"a",` + msgs + `}`, bad, "models", "array of strings"},
		{"models with a number", `{"models":["a",2],` + msgs + `}`, bad, "models[1]", "must be a string"},
		{"65 models", `{"models":[` + many(65, `"m"`) + `],` + msgs + `}`, bad, "models", "more than 64"},
		{"stream a string", `{"stream":"true",` + msgs + `}`, bad, "stream", "true, false or null"},
		{"stream_options a list", `{"stream_options":[],` + msgs + `}`, bad, "stream_options", "object or null"},
		{"n of nothing", `{"n":0,` + msgs + `}`, bad, "n", "1 to 128"},
		{"n negative", `{"n":-1,` + msgs + `}`, bad, "n", "1 to 128"},
		{"n a fraction", `{"n":2.0,` + msgs + `}`, bad, "n", "1 to 128"},
		{"n in another spelling", `{"n":1e2,` + msgs + `}`, bad, "n", "1 to 128"},
		{"n a string", `{"n":"5",` + msgs + `}`, bad, "n", "1 to 128"},
		{"n too many", `{"n":129,` + msgs + `}`, bad, "n", "1 to 128"},
		{"n huge", `{"n":1` + strings.Repeat("0", 99) + `,` + msgs + `}`, bad, "n", "1 to 128"},
		{"n twice", `{"n":1,"n":5,` + msgs + `}`, bad, "n", "once"},
		{"max_tokens negative", `{"max_tokens":-1,` + msgs + `}`, bad, "max_tokens", "integer"},
		{"max_tokens a fraction", `{"max_tokens":1.5,` + msgs + `}`, bad, "max_tokens", "integer"},
		{"max_tokens huge", `{"max_tokens":1` + strings.Repeat("0", 99) + `,` + msgs + `}`, bad, "max_tokens", "integer"},
		{"max_completion_tokens a string", `{"max_completion_tokens":"9",` + msgs + `}`, bad, "max_completion_tokens", "integer"},
		{"user a number", `{"user":7,` + msgs + `}`, bad, "user", "string or null"},
		{"no messages", `{"model":"a"}`, bad, "messages", "required"},
		{"messages null", `{"messages":null}`, bad, "messages", "must be an array"},
		{"messages empty", `{"messages":[]}`, bad, "messages", "must not be empty"},
		{"message a string", `{"messages":["hi"]}`, bad, "messages[0]", "must be an object"},
		{"message without role", `{"messages":[{"role":"user"},{"content":"hi"}]}`, bad, "messages[1].role", "needs a role"},
		{"role a number", `{"messages":[{"role":"user"},{"role":"user"},{"role":1}]}`, bad, "messages[2].role", "must be a string"},
		{"content twice", `{"messages":[{"role":"user","content":"x","cont\u0065nt":[]}]}`, bad, "messages[0].content", "more than once"},
		{"role twice", `{"messages":[{"role":"user","content":"x","role":"system"}]}`, bad, "messages[0].role", "more than once"},
		{"role in capitals", `{"messages":[{"role":"user","ROLE":"system"}]}`, bad, "messages[0].ROLE", `write "role"`},
		{"nested too deep", `{` + msgs + `,"x":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, bad, "", "1000 levels"},
		{"nested far too deep", `{"x":` + strings.Repeat("[", 1<<20), bad, "", "1000 levels"},
		{"content nested too deep", `{"messages":[{"role":"user","content":[` + strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000) + `]}]}`, bad, "", "1000 levels"},
		{"content a number", `{"messages":[{"role":"user","content":5}]}`, bad, "messages[0].content", "must be a string, an array of parts or null"},
		{"content an object", `{"messages":[{"role":"user","content":"x"},{"role":"user","content":{"text":"x"}}]}`, bad, "messages[1].content", "must be a string"},
		{"too many keys", `{` + msgs + manyKeys(600) + `}`, bad, "", "more than 512 keys"},
		{"a long key", `{"` + strings.Repeat("k", 300) + `":1,` + msgs + `}`, bad, "", "more than 256 bytes"},
		{"case variant of tools", `{"TOOLS":[],` + msgs + `}`, bad, "TOOLS", `write "tools"`},
		{"case variant of response_format", `{"Response_Format":{},` + msgs + `}`, bad, "Response_Format", `write "response_format"`},
		{"content in capitals", `{"messages":[{"role":"user","Content":[]}]}`, bad, "messages[0].Content", `write "content"`},
		{"plugins an object", `{"plugins":{},` + msgs + `}`, bad, "plugins", "array of objects"},
		{"plugin web", `{"plugins":[{"id":"x"},{"id":"web"}],` + msgs + `}`, hearth.ErrUnsupported, "plugins[1].id", "web"},
		{"plugin auto-router", `{"plugins":[{"id":"auto-router"}],` + msgs + `}`, hearth.ErrUnsupported, "plugins[0].id", "auto-router"},
		{"plugin auto-beta-router", `{"plugins":[{"enabled":null,"id":"auto-beta-router"}],` + msgs + `}`, hearth.ErrUnsupported, "plugins[0].id", "auto-beta-router"},
		{"plugin pareto-router", `{"plugins":[{"id":"pareto-router","enabled":true}],` + msgs + `}`, hearth.ErrUnsupported, "plugins[0].id", "pareto-router"},
		{"plugin fusion by escape", `{"plugins":[{"id":"fusi\u006fn"}],` + msgs + `}`, hearth.ErrUnsupported, "plugins[0].id", "fusion"},
		{"plugin without id", `{"plugins":[{}],` + msgs + `}`, bad, "plugins[0].id", "needs an id"},
		{"plugin a string", `{"plugins":["web"],` + msgs + `}`, bad, "plugins[0]", "must be an object"},
		{"plugin with odd enabled", `{"plugins":[{"id":"x","enabled":"no"}],` + msgs + `}`, bad, "plugins[0].enabled", "true, false or null"},
		{"web search tool", `{"tools":[{"type":"web_search_preview","engine":"auto"}],` + msgs + `}`, hearth.ErrUnsupported, "tools[0].type", "server tools"},
		{"web search among functions", `{"functions":[{"type":"web_search"}],` + msgs + `}`, hearth.ErrUnsupported, "tools[0].type", "server tools"},
		{"server tool", `{"tools":[{"type":"function"},{"type":"openrouter:web_search"}],` + msgs + `}`, hearth.ErrUnsupported, "tools[1].type", "server tools"},
		{"server tool by escape", `{"tools":[{"typ\u0065":"openr\u006futer:x"}],` + msgs + `}`, hearth.ErrUnsupported, "tools[0].type", "server tools"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat([]byte(tt.body), bytesCount)
			e, ok := errors.AsType[*hearth.Error](err)
			if !ok || c != nil {
				t.Fatalf("accepted, or %v", err)
			}
			if e.Type != tt.typ || e.Param != tt.param || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%s, param %q: %s", e.Type, e.Param, e.Message)
			}
			if strings.ContainsAny(e.Message+e.Param, "\r\n\"") && !strings.Contains(tt.says, `"`) && !strings.Contains(e.Message, `must be "`) {
				t.Errorf("unclean: %q", e.Message)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()
}

func TestDecodeChat_accepted(t *testing.T) {
	caps := hearth.MustParams("max_tokens", "max_completion_tokens")
	for _, tt := range []struct {
		name, body string
		want       hearth.Request
	}{
		{"least", `{` + msgs + `}`, hearth.Request{}},
		{"all nulls", `{"model":null,"models":null,"provider":null,"stream":null,"stream_options":null,"max_tokens":null,"user":null,"plugins":null,"tools":null,"route":null,` + msgs + `}`, hearth.Request{}},
		{"one model", `{"model":"a/b",` + msgs + `}`, hearth.Request{Models: []string{"a/b"}}},
		{"escaped key and model", `{"mod\u0065l":"\u0061/b",` + msgs + `}`, hearth.Request{Models: []string{"a/b"}}},
		{"models win", `{"model":"z","models":["a","b"],` + msgs + `}`, hearth.Request{Models: []string{"a", "b"}, FromList: true, Notes: []string{"model ignored: models is given"}}},
		{"models before model", `{"models":["a"],"model":"z",` + msgs + `}`, hearth.Request{Models: []string{"a"}, FromList: true, Notes: []string{"model ignored: models is given"}}},
		{"empty models", `{"models":[],"model":"z","route":"fallback",` + msgs + `}`, hearth.Request{Models: []string{"z"}}},
		{"stream", `{"stream":true,` + msgs + `}`, hearth.Request{Stream: true}},
		{"output caps", `{"max_completion_tokens":7,"max_tokens":9,` + msgs + `}`, hearth.Request{MaxTokens: 7, Params: caps}},
		{"output caps the other way", `{"max_tokens":9,"max_completion_tokens":7,` + msgs + `}`, hearth.Request{MaxTokens: 7, Params: caps}},
		{"tools", `{"tools":[{"type":"function","function":{"name":"openrouter:x","description":"web_search"}}],` + msgs + `}`, hearth.Request{Tools: true, Params: hearth.ParamTools}},
		{"functions", `{"functions":[{"name":"x"}],` + msgs + `}`, hearth.Request{Tools: true, Params: hearth.ParamTools}},
		{"no tools", `{"tools":[],` + msgs + `}`, hearth.Request{}},
		{"images", `{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`, hearth.Request{Images: 2, Media: []string{"image"}, MediaURLs: 1}},
		{"plugins", `{"plugins":[{"id":"file-parser"},{"id":"web","enabled":false},{"id":"a\r\nb"}],` + msgs + `}`, hearth.Request{Notes: []string{
			"plugin file-parser ignored: it has no meaning here", "plugin 2 ignored: it has no meaning here"}}},
		{"odd but legal", "{" + msgs + ",\"x\":{\"a\":1,\"a\":2,\"b\":\"\xff\\ud800\"}}", hearth.Request{}},
		{"999 levels", `{` + msgs + `,"x":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`, hearth.Request{}},
		{"unchecked fields", `{"temperature":"hot","tools":"x","seed":-1.5,` + msgs + `}`, hearth.Request{Params: hearth.MustParams("temperature", "seed")}},
		{"choices", `{"n":128,` + msgs + `}`, hearth.Request{Choices: 128, Params: hearth.MustParams("n")}},
		{"no number of choices", `{"n":null,` + msgs + `}`, hearth.Request{}},
		{"parameters that are set", `{"top_p":null,"stop":[],"response_format":{"type":"text"},"Temperature":1,"tool_choice":null,"store":true,"reasoning":{},` + msgs + `}`,
			hearth.Request{Params: hearth.MustParams("stop", "response_format", "reasoning")}},
		{"route fallback", `{"route":"fallback",` + msgs + `}`, hearth.Request{}},
		{"route sort", `{"route":"s\u006frt",` + msgs + `}`, hearth.Request{Prefs: hearth.Preferences{AcrossModels: true}}},
		{"route sort, then a partition", `{"route":"sort","provider":{"sort":{"partition":"model"}},` + msgs + `}`, hearth.Request{}},
		{"a partition, then route sort", `{"provider":{"sort":{"partition":"model"}},"route":"sort",` + msgs + `}`, hearth.Request{}},
		{"route sort beside a word", `{"route":"sort","provider":{"sort":"price"},` + msgs + `}`, hearth.Request{Prefs: hearth.Preferences{Sort: "price", AcrossModels: true}}},
		{"route something else", `{"route":"cheapest",` + msgs + `}`, hearth.Request{Notes: []string{"route ignored: it is neither fallback nor sort"}}},
		{"route no string", `{"route":{},` + msgs + `}`, hearth.Request{Notes: []string{"route ignored: it is neither fallback nor sort"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat([]byte(tt.body), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, c.Request, cmpopts.IgnoreFields(hearth.Request{}, "Estimate", "Bytes"), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeChat_estimate(t *testing.T) {
	estimate := func(t *testing.T, body string) int {
		t.Helper()
		c, err := DecodeChat([]byte(body), bytesCount)
		if err != nil {
			t.Fatal(err)
		}
		return c.Estimate
	}
	part := func(p string) string { return `{"messages":[{"role":"user","content":[` + p + `]}]}` }
	big := strings.Repeat("QUJD", 50_000)
	t.Run("text that looks like media is text", func(t *testing.T) {
		for _, body := range []string{
			part(`{"type":"text","text":"data:image/png;base64,` + big + `"}`),
			`{"messages":[{"role":"user","content":"data:image/png;base64,` + big + `"}]}`,
		} {
			if n := estimate(t, body); n < len(big) {
				t.Errorf("%d", n)
			}
		}
	})
	t.Run("messages, tools and response_format count, the rest does not", func(t *testing.T) {
		plain := estimate(t, `{`+msgs+`}`)
		for key, counted := range map[string]bool{"tools": true, "response_format": true, "metadata": false, "x": false} {
			n := estimate(t, `{`+msgs+`,"`+key+`":["`+strings.Repeat("x", 1000)+`"]}`)
			if (n > plain+900) != counted {
				t.Errorf("%s: %d, without %d", key, n, plain)
			}
		}
	})
}
