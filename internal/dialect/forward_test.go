package dialect

import (
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

func TestAppendForward(t *testing.T) {
	all := Target{Model: "up", StreamUsage: true, UserSalt: []byte("salt")}
	for _, tt := range []struct {
		name, body string
		target     Target
		want       string
	}{
		{"unknown keys, number spelling, order and inner white space survive",
			"{ \"z\" : 1.0e+02 ,\"model\":\"a\", " + msgs + " , \"seed\":12345678901234567890, \"a\": { \"b\" :\t[ 1 , -0 ], \"b\":\"\xff\\ud800\" }, \"temperature\":0.70 }", all,
			"{\"z\" : 1.0e+02,\"model\":\"up\"," + msgs + ",\"seed\":12345678901234567890,\"a\": { \"b\" :\t[ 1 , -0 ], \"b\":\"\xff\\ud800\" },\"temperature\":0.70}"},
		{"model is put in", `{` + msgs + `}`, all, `{` + msgs + `,"model":"up"}`},
		{"model is escaped", `{"model":"a",` + msgs + `}`, Target{Model: "a\"b\\c한"}, `{"model":"a\"b\\c한",` + msgs + `}`},
		{"escaped model key", `{"mod\u0065l":"a",` + msgs + `}`, all, `{"model":"up",` + msgs + `}`},
		{"keys of the house go", `{"models":["a"],"route":"fallback","provider":{},` + msgs + `,"plugins":[],"transforms":[],"preset":"p","usage":{"include":true},"session_id":"s","trace":{},"metadata":{},"debug":{},"x":1,"pr\u0065set2":1}`, all,
			`{` + msgs + `,"x":1,"pr\u0065set2":1,"model":"up"}`},
		{"only keys of the house around", `{"models":["a"],` + msgs + `,"debug":{}}`, all, `{` + msgs + `,"model":"up"}`},
		{"usage is asked for", `{"stream":true,` + msgs + `}`, all, `{"stream":true,` + msgs + `,"model":"up","stream_options":{"include_usage":true}}`},
		{"stream options are kept", `{"stream":true,"stream_options":{"include_obfuscation": false},` + msgs + `}`, all, `{"stream":true,"stream_options":{"include_obfuscation":false,"include_usage":true},` + msgs + `,"model":"up"}`},
		{"include_usage false is turned", `{"stream":true,"stream_options":{"include_usage":false,"x":1,"include_us\u0061ge":false},` + msgs + `}`, all, `{"stream":true,"stream_options":{"include_usage":true,"x":1},` + msgs + `,"model":"up"}`},
		{"stream options null", `{"stream":true,"stream_options":null,` + msgs + `}`, all, `{"stream":true,"stream_options":{"include_usage":true},` + msgs + `,"model":"up"}`},
		{"stream options refused", `{"stream":true,"stream_options":{"include_usage":true},` + msgs + `}`, Target{Model: "up"}, `{"stream":true,` + msgs + `,"model":"up"}`},
		{"stream options without a stream", `{"stream_options":{"include_usage":true},` + msgs + `}`, all, `{` + msgs + `,"model":"up"}`},
		{"user is hashed", `{"user":"kim@example.com",` + msgs + `}`, all, `{"user":"419f12167fe9d39bd7920edc24a598e0",` + msgs + `,"model":"up"}`},
		{"user without a salt", `{"user":"kim@example.com",` + msgs + `}`, Target{Model: "up"}, `{` + msgs + `,"model":"up"}`},
		{"output cap is renamed", `{"max_tokens": 9,` + msgs + `}`, Target{Model: "up", MaxTokensKey: "max_completion_tokens"}, `{"max_completion_tokens":9,` + msgs + `,"model":"up"}`},
		{"output cap is left", `{"max_tokens":9,"max_completion_tokens":8,` + msgs + `}`, Target{Model: "up"}, `{"max_tokens":9,"max_completion_tokens":8,` + msgs + `,"model":"up"}`},
		{"of two caps the one named so", `{"max_tokens":9,"max_completion_tokens":8,` + msgs + `}`, Target{Model: "up", MaxTokensKey: "max_tokens"}, `{"max_tokens":9,` + msgs + `,"model":"up"}`},
		{"of two caps the one named so, behind", `{"max_completion_tokens":8,"max_tokens":9,` + msgs + `}`, Target{Model: "up", MaxTokensKey: "max_tokens"}, `{"max_tokens":9,` + msgs + `,"model":"up"}`},
		{"of two caps not the null", `{"max_tokens":null,"max_completion_tokens":8,` + msgs + `}`, Target{Model: "up", MaxTokensKey: "max_tokens"}, `{"max_tokens":8,` + msgs + `,"model":"up"}`},
		{"of two caps the newer counts", `{"max_tokens":9,"max_completion_tokens":800,` + msgs + `}`, Target{Model: "up", MaxTokens: 512}, `{"max_tokens":9,"max_completion_tokens":512,` + msgs + `,"model":"up"}`},
		{"cap is lowered in its place", `{"max_tokens": 900 ,` + msgs + `}`, Target{Model: "up", MaxTokens: 512}, `{"max_tokens":512,` + msgs + `,"model":"up"}`},
		{"cap is lowered and renamed", `{"max_tokens":900,` + msgs + `}`, Target{Model: "up", MaxTokens: 512, MaxTokensKey: "max_completion_tokens"}, `{"max_completion_tokens":512,` + msgs + `,"model":"up"}`},
		{"a smaller cap stays", `{"max_tokens": 5,` + msgs + `}`, Target{Model: "up", MaxTokens: 512}, `{"max_tokens": 5,` + msgs + `,"model":"up"}`},
		{"the same cap stays", `{"max_tokens":512,` + msgs + `}`, Target{Model: "up", MaxTokens: 512}, `{"max_tokens":512,` + msgs + `,"model":"up"}`},
		{"both caps too large", `{"max_tokens":901,` + msgs + `,"max_completion_tokens":900}`, Target{Model: "up", MaxTokens: 512}, `{` + msgs + `,"max_completion_tokens":512,"model":"up"}`},
		{"both caps too large, one key known", `{"max_tokens":901,` + msgs + `,"max_completion_tokens":900}`, Target{Model: "up", MaxTokens: 512, MaxTokensKey: "max_tokens"}, `{"max_tokens":512,` + msgs + `,"model":"up"}`},
		{"the other cap null", `{"max_tokens":901,` + msgs + `,"max_completion_tokens":null}`, Target{Model: "up", MaxTokens: 512}, `{"max_tokens":512,` + msgs + `,"model":"up"}`},
		{"caps under other names", `{"max_tokens":5,"n_predict":9,"Max_New_Tokens":-1,"num_predict":7,"max_output_tokens":8,` + msgs + `}`, Target{Model: "up", MaxTokens: 8},
			`{"max_tokens":5,"n_predict":8,"Max_New_Tokens":8,"num_predict":7,"max_output_tokens":8,` + msgs + `,"model":"up"}`},
		{"caps under other names, no limit", `{"n_predict":-1,` + msgs + `}`, Target{Model: "up"}, `{"n_predict":-1,` + msgs + `,"model":"up"}`},
		{"a cap of 0 is none", `{"max_tokens":0,` + msgs + `}`, Target{Model: "up", MaxTokens: 8}, `{"max_tokens":8,` + msgs + `,"model":"up"}`},
		{"a cap of 0, no limit", `{"max_tokens":0,` + msgs + `}`, Target{Model: "up"}, `{"max_tokens":0,` + msgs + `,"model":"up"}`},
		{"no cap given", `{` + msgs + `}`, Target{Model: "up", MaxTokens: 512}, `{` + msgs + `,"model":"up","max_tokens":512}`},
		{"no cap given, one key known", `{"max_tokens":null,` + msgs + `}`, Target{Model: "up", MaxTokens: 512, MaxTokensKey: "max_completion_tokens"}, `{` + msgs + `,"model":"up","max_completion_tokens":512}`},
		{"a null cap stays without a limit", `{"max_tokens":null,` + msgs + `}`, Target{Model: "up"}, `{"max_tokens":null,` + msgs + `,"model":"up"}`},
		{"a cap among the options", `{"options":{"num_predict": -1 , "top_k" : 5,"NUM_PREDICT":7,"num_predict":"9"},` + msgs + `}`, Target{Model: "up", MaxTokens: 8},
			`{"options":{"num_predict":8,"top_k" : 5,"NUM_PREDICT":7,"num_predict":8},` + msgs + `,"model":"up","max_tokens":8}`},
		{"options without a cap", `{"options": { "top_k" : 5 },` + msgs + `}`, Target{Model: "up", MaxTokens: 8}, `{"options": { "top_k" : 5 },` + msgs + `,"model":"up","max_tokens":8}`},
		{"nested key", `{"options" : { "num_ctx": 1 , "top_k" : [ 5 ] ,"x":{"num_ctx":2}},"x":{"num_ctx":3},` + msgs + `}`, Target{Model: "up", Drop: []string{"options.num_ctx"}},
			`{"options" : {"top_k" : [ 5 ],"x":{"num_ctx":2}},"x":{"num_ctx":3},` + msgs + `,"model":"up"}`},
		{"nested key alone", `{"options":{"num_ctx":1},` + msgs + `}`, Target{Model: "up", Drop: []string{"options.num_ctx"}}, `{"options":{},` + msgs + `,"model":"up"}`},
		{"nested key many times", `{"options":{"num_ctx":1,"a":1,"num_ctx":2,"Num_Ctx":3,"num\u005fctx":4},"OPTIONS":{"num_ctx":5},` + msgs + `}`, Target{Model: "up", Drop: []string{"options.num_ctx"}},
			`{"options":{"a":1},"OPTIONS":{},` + msgs + `,"model":"up"}`},
		{"nothing nested", `{"options": { "a" : 1 },` + msgs + `}`, Target{Model: "up", Drop: []string{"options.num_ctx"}}, `{"options": { "a" : 1 },` + msgs + `,"model":"up"}`},
		{"nested in no object", `{"options":"num_ctx=1","Options":[{"num_ctx":1}],` + msgs + `}`, Target{Model: "up", Drop: []string{"options.num_ctx"}}, `{` + msgs + `,"model":"up"}`},
		{"deny list in any case", `{"ID_SLOT":1,"Lora":[],"\u006eum":2,` + msgs + `}`, Target{Model: "up", Drop: []string{"id_slot", "lora", "NUM"}}, `{` + msgs + `,"model":"up"}`},
		{"what cannot be dropped", `{"stream":true,` + msgs + `}`, Target{Model: "up", Drop: []string{"stream", "messages", "model"}}, `{"stream":true,` + msgs + `,"model":"up"}`},
		{"owned keys can be dropped", `{"stream":true,"max_tokens":1,"user":"x","stream_options":{},"tools":[],` + msgs + `}`, Target{Model: "up", UserSalt: []byte("s"), Drop: []string{"max_tokens", "user", "stream_options", "tools"}}, `{"stream":true,` + msgs + `,"model":"up"}`},
		{"deny list", `{"id_slot":1,"lor\u0061":[],"x":2,` + msgs + `}`, Target{Model: "up", Drop: []string{"id_slot", "lora", "model"}}, `{"x":2,` + msgs + `,"model":"up"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat([]byte(tt.body), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(c.AppendForward([]byte("pre"), tt.target)); got != "pre"+tt.want {
				t.Errorf("got  %s\nwant pre%s", got, tt.want)
			}
		})
	}
}

// prompt is a body of about n bytes: Korean and English in turn, a tool, some parameters.
func prompt(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"google/gemma-4-26b-a4b","temperature":0.7,"stream":true,"max_tokens":512,"messages":[{"role":"system","content":"You are helpful."}`)
	for b.Len() < n-300 {
		b.WriteString(`,{"role":"user","content":"안녕하세요. 지난주에 말씀드린 작업을 시작합니다.\nThis is a line of prose with \"quotes\", as people write it, and then some more of it to make it a paragraph. 감사합니다."}`)
	}
	b.WriteString(`],"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}],"user":"u1"}`)
	return []byte(b.String())
}

func BenchmarkChat(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1KB", 1 << 10}, {"4KB", 4 << 10}, {"100KB", 100 << 10}} {
		raw := prompt(size.n)
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			var out []byte
			t := Target{Model: "gemma", StreamUsage: true}
			for b.Loop() {
				c, err := DecodeChat(raw, bytesCount)
				if err != nil {
					b.Fatal(err)
				}
				out = c.AppendForward(out[:0], t)
			}
		})
	}
}

// BenchmarkForward makes the bodies for targets that want the same request in different ways.
func BenchmarkForward(b *testing.B) {
	vllm, _ := hearth.EngineOf("vllm")
	ollama, _ := hearth.EngineOf("ollama")
	c, err := DecodeChat(prompt(4<<10), bytesCount)
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name   string
		target Target
	}{
		{"plain", Target{Model: "gemma", StreamUsage: true}},
		{"vllm", Target{Model: "gemma", StreamUsage: true, Drop: vllm.Deny, MaxTokens: 256}},
		{"ollama", Target{Model: "gemma", StreamUsage: true, Drop: ollama.Deny}},
		{"strict", Target{Model: "gemma", StreamUsage: true, Allow: true}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				out = c.AppendForward(out[:0], bb.target)
			}
		})
	}
}

// BenchmarkMedia reads a request with an image of 1 MiB as data, and one with ten addresses.
func BenchmarkMedia(b *testing.B) {
	for name, raw := range map[string][]byte{
		"data":      partsBody(`{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 1<<18) + `"}}`),
		"addresses": partsBody(addresses(10, 0)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeChat(raw, bytesCount); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
