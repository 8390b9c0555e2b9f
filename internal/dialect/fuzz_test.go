package dialect

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

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
