package dialect

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// members reads the top level of a body with jsontext: keys without escapes, values raw.
func members(t *testing.T, body []byte) (keys []string, vals [][]byte) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		key := name.String()
		val, err := dec.ReadValue()
		if err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		keys, vals = append(keys, key), append(vals, bytes.Clone(val))
	}
	return keys, vals
}

func FuzzDecodeChat(f *testing.F) {
	for _, s := range []string{
		`{"model":"a","messages":[{"role":"user","content":"hi"}]}`,
		`{"mod\u0065l":"a","stream":true,"stream_options":{"include_usage":false,"a":1},"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"input_audio","input_audio":{"data":"data:;base64,AAAA"}}]}],"user":"u","max_tokens":5,"max_completion_tokens":null}`,
		`{"models":["a","b"],"provider":{"only":["x"],"sort":{"by":"price"}},"plugins":[{"id":"x"}],"tools":[{"type":"function"}],"messages":[{"role":"tool","x":{}}],"lora":1,"z":1e9}`,
		`{"MODEL":"a","messages":[]}`, `{"messages":[{"role":1}]}`, `[`, `{"a":[[[[`,
		`{"provider":{"zdr":true},"messages":[{"role":"x"}]}`,
	} {
		f.Add([]byte(s))
	}
	target := Target{Model: "up/\"model", StreamUsage: true, MaxTokensKey: "max_tokens", Drop: []string{"lora"}, UserSalt: []byte("s")}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		c, err := DecodeChat(raw, bytesCount)
		if !bytes.Equal(raw, before) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			e, ok := errors.AsType[*hearth.Error](err)
			if !ok || e.Message == "" || len(e.Message) > 400 || e.HTTPStatus() >= 500 || c != nil {
				t.Fatalf("error %#v", err)
			}
			return
		}
		out := c.AppendForward(nil, target)
		if !jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Fatalf("forwarded %q", out)
		}
		inKeys, inVals := members(t, raw)
		outKeys, outVals := members(t, out)
		ours := append([]string{"lora"}, fieldNames[:fieldDebug-fieldModel+1]...)
		ours = slices.DeleteFunc(ours, func(s string) bool { return s == "messages" || s == "stream" })
		strip := func(keys []string, vals [][]byte) (all []byte) {
			for i, k := range keys {
				if !slices.Contains(ours, k) {
					all = append(append(append(all, k...), 0), vals[i]...)
				}
			}
			return all
		}
		if a, b := strip(inKeys, inVals), strip(outKeys, outVals); !bytes.Equal(a, b) {
			t.Fatalf("other members changed:\n%q\n%q", a, b)
		}
		models := 0
		for i, k := range outKeys {
			switch k {
			case "model":
				if models++; string(outVals[i]) != `"up/\"model"` {
					t.Fatalf("model %s", outVals[i])
				}
			case "max_tokens", "stream_options", "user":
			default:
				if slices.Contains(ours, k) {
					t.Fatalf("%s was forwarded", k)
				}
			}
		}
		if models != 1 {
			t.Fatalf("%d models in %q", models, out)
		}
	})
}

// FuzzScan holds the hand-written scanner against jsontext.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0,1.5e+3,true,false,null,"\u00e9\n",{}],"a":[]}`, `[1,]`, `{"a":1,}`, `{,}`, `[,]`, `01`, `-`, `1.`, `1e`, `"\ud800"`, `"\u12"`, `nul`, ` [ ] `, "\"\xff\"",
		`{"a" : 1 , "b":2 }`, `[[[`, `[1 2]`, `{"a":1 "b":2}`, `{1:2}`, `{"a"}`, "[\f]", `.5`, `+1`, `1e+`, `truex`, `[1]]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := scan{b: in}
		v := s.value()
		ok := !s.bad && s.kind() == 0 && s.i == len(in)
		want := jsontext.Value(in).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if ok != want && len(in) < maxDepth {
			t.Fatalf("%q: valid %v, jsontext says %v", in, ok, want)
		}
		if ok && !bytes.Equal(v, bytes.Trim(in, " \t\r\n")) {
			t.Fatalf("%q: value %q", in, v)
		}
	})
}

// FuzzAnswers feeds upstream bodies: what comes out is valid JSON and says who we are.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"id":"x","choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"id":"a","function":{"arguments":{}}}]},"message":{"content":[{"text":"a"},{"thinking":[{"text":"t"}]}]},"finish_reason":"eos"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"error":{"message":"x","code":"400","metadata":{"raw":{"a":1},"reasons":[]}}}`, `{"error":"x"}`, `null`, `{"choices":null}`, `<html><title>502</title>`,
		`{"choices":[{"message":null}]}`, `{"choices":[{"delta":{"content":[]},"logprobs":{"token_logprobs":[]}}]}`, `[{"error":{"message":"x"}}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		valid := func(b []byte) bool {
			return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		}
		s := stamp()
		want := valid(in)
		out, c, err := s.AppendChunk(nil, in)
		switch {
		case err == nil && !want && len(in) < maxDepth:
			t.Fatalf("malformed chunk %q passed", in)
		case err == nil && c.Skip != (len(out) == 0):
			t.Fatalf("skip %v, %q", c.Skip, out)
		case err == nil && !c.Skip && (!valid(out) || !bytes.HasPrefix(out, []byte(chunkHead))):
			t.Fatalf("chunk %q from %q", out, in)
		case c.Usage.Reported && !c.Usage.Valid():
			t.Fatalf("usage %+v", c.Usage)
		}
		a, err := ReadAnswer(in)
		if err == nil {
			if out := a.Append(nil, s, hearth.Bill{Currency: "KRW"}); !valid(out) {
				t.Fatalf("answer %q from %q", out, in)
			}
		}
		e := ReadError(502, in)
		if e.Message == "" || len(e.Message) > maxMessageBytes || e.Code < 400 || e.Code > 599 || bytes.ContainsAny([]byte(e.Message), "\r\n\x00") {
			t.Fatalf("error %+v", e)
		}
	})
}
