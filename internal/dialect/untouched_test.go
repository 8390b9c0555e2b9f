package dialect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// foreign lists every member of an answer that is not ours to change, in order, with its bytes.
func foreign(t *testing.T, body []byte) (list []string) {
	t.Helper()
	keys, vals := members(t, body)
	choices := false
	for i, k := range keys {
		switch k {
		case "id", "model", "provider", "object", "created", "system_fingerprint", "usage", "timings", "error":
		case "choices":
			if vals[i][0] == '[' && !choices {
				for _, c := range elements(t, vals[i]) {
					choices = true
					list = append(list, foreignInChoice(t, c)...)
				}
			}
		default:
			list = append(list, k+"="+string(vals[i]))
		}
	}
	return list
}

func foreignInChoice(t *testing.T, choice []byte) (list []string) {
	keys, vals := members(t, choice)
	body := false
	for i, k := range keys {
		switch k {
		case "index", "finish_reason", "native_finish_reason", "usage", "error":
		case "logprobs":
			if !olderLogprobs(vals[i]) && !isNull(vals[i]) {
				list = append(list, "choice."+k+"="+string(vals[i]))
			}
		case "delta", "message":
			if vals[i][0] == '{' && !body {
				list = append(list, foreignInBody(t, vals[i])...)
			}
			body = true
		default:
			list = append(list, "choice."+k+"="+string(vals[i]))
		}
	}
	return list
}

func foreignInBody(t *testing.T, body []byte) (list []string) {
	keys, vals := members(t, body)
	for i, k := range keys {
		v := vals[i]
		switch {
		case k == "role", k == "reasoning_details", isNull(v) && leftOut([]byte(k)), k == "content" && isNull(v), k == "refusal" && isNull(v):
		case k == "content" && v[0] == '[':
			list = append(list, inParts)
		case k == "tool_calls":
			if v[0] == '[' {
				list = append(list, foreignInCalls(t, v)...)
			}
		default:
			list = append(list, "body."+k+"="+string(v))
		}
	}
	return list
}

// inParts stands in the list for content given in parts, which becomes text and reasoning.
const inParts = "content in parts"

// sameForeign compares what is not ours to change in what an upstream sent and in what the caller gets.
func sameForeign(t *testing.T, in, out []byte) string {
	t.Helper()
	before, after := foreign(t, in), foreign(t, out)
	if slices.Contains(before, inParts) {
		ours := func(s string) bool {
			return s == inParts || strings.HasPrefix(s, "body.content=") || strings.HasPrefix(s, "body.reasoning=") || strings.HasPrefix(s, "body.images=")
		}
		before, after = slices.DeleteFunc(before, ours), slices.DeleteFunc(after, ours)
	}
	return cmp.Diff(before, after, cmpopts.EquateEmpty())
}

func foreignInCalls(t *testing.T, calls []byte) (list []string) {
	for _, c := range elements(t, calls) {
		keys, vals := members(t, c)
		for i, k := range keys {
			switch k {
			case "index", "id", "type":
			case "function":
				if vals[i][0] != '{' {
					continue
				}
				fk, fv := members(t, vals[i])
				for j, k := range fk {
					if k == "arguments" && fv[j][0] != '"' || k == "arguments" && len(fv[j]) == 2 || k == "name" && isNull(fv[j]) {
						continue
					}
					list = append(list, "function."+k+"="+string(fv[j]))
				}
			default:
				list = append(list, "call."+k+"="+string(vals[i]))
			}
		}
	}
	return list
}

// elements are the objects of an array, raw.
func elements(t *testing.T, array []byte) (list [][]byte) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(array), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			t.Fatalf("%v in %s", err, array)
		}
		if v.Kind() == '{' {
			list = append(list, bytes.Clone(v))
		}
	}
	return list
}

// value draws JSON text with every odd spelling that a decoder would straighten out.
func value(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		leaf := []string{`null`, `1.50`, `-0`, `1E+2`, `1e400`, `12345678901234567890`, `""`, `"a\u0062\/"`, `"한"`, `true`, ` 1`, "{ }", "[ ]"}
		if depth == 0 || rapid.Bool().Draw(t, "leaf") {
			return rapid.SampledFrom(leaf).Draw(t, "value")
		}
		list := rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
		if rapid.Bool().Draw(t, "array") {
			return "[" + strings.Join(list, rapid.SampledFrom([]string{",", " , "}).Draw(t, "comma")) + "]"
		}
		for i, v := range list {
			list[i] = fmt.Sprintf(`"k%d"%s%s`, i, rapid.SampledFrom([]string{":", " : "}).Draw(t, "colon"), v)
		}
		return "{" + strings.Join(list, ",") + "}"
	})
}

// mixed draws an object of the given members, with members nobody knows among them.
func mixed(t *rapid.T, name string, own ...string) string {
	for i := range rapid.IntRange(0, 3).Draw(t, name+" unknown") {
		at := rapid.IntRange(0, len(own)).Draw(t, "place")
		own = slices.Insert(slices.Clone(own), at, fmt.Sprintf(`"%s_%d": %s`, name, i, value(2).Draw(t, "value")))
	}
	return "{" + strings.Join(own, ",") + "}"
}

// TestUntouched: whatever an upstream adds to its answer, at whatever place, reaches the caller byte for byte.
func TestUntouched(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := []string{`"content":"a\u00e9"`}
		if rapid.Bool().Draw(rt, "thinks") {
			body = append(body, `"reasoning_content": "\u0068m"`)
		}
		if rapid.Bool().Draw(rt, "calls") {
			fn := mixed(rt, "fn", `"name":"f"`, `"arguments":"{\"a\":1.0}"`)
			body = append(body, `"tool_calls":[`+mixed(rt, "call", `"index":0`, `"id":"a"`, `"function":`+fn)+`]`)
		}
		if rapid.Bool().Draw(rt, "role") {
			body = append(body, `"role":"assistant"`)
		}
		part := mixed(rt, "body", body...)
		top := func(key string) []byte {
			choice := mixed(rt, "choice", `"index":0`, `"finish_reason":"stop"`, `"`+key+`":`+part, `"logprobs":{"content":[{"token":"a","logprob":-1.50}]}`)
			return []byte(mixed(rt, "top", `"id":"x"`, `"choices":[`+choice+`]`, `"created":5`, `"usage":{"prompt_tokens":1,"completion_tokens":1}`))
		}
		in := top("delta")
		out, _, err := stamp().AppendChunk(nil, in)
		if d := sameForeign(t, in, out); err != nil || d != "" {
			rt.Errorf("%v\n in %s\nout %s\n%s", err, in, out, d)
		}
		if !strings.Contains(part, "tool_calls") && !strings.Contains(part, "reasoning") && !bytes.Contains(out, []byte(`"delta":`+part)) {
			rt.Errorf("a delta that needs no change was written anew:\n in %s\nout %s", in, out)
		}
		in = top("message")
		a, err := ReadAnswer(in)
		if err != nil {
			rt.Fatal(err)
		}
		out = a.Append(nil, stamp(), hearth.Bill{})
		if d := sameForeign(t, in, out); d != "" {
			rt.Errorf("\n in %s\nout %s\n%s", in, out, d)
		}
		out, _, err = stamp().AppendWhole(nil, in)
		if d := sameForeign(t, in, out); err != nil || d != "" {
			rt.Errorf("%v\n in %s\nout %s\n%s", err, in, out, d)
		}
	})
}

// FuzzUntouched holds the same against anything that is JSON.
func FuzzUntouched(f *testing.F) {
	for i := range vendors {
		for _, c := range vendors[i].stream {
			f.Add([]byte(c))
		}
	}
	f.Add([]byte(`{"choices":[{"delta":{"reasoning":null,"content":[{"thinking":"hm"},{"type":"image","x":1}],"images":[ ],"reasoning_details":"x"}}]}`))
	f.Add([]byte(`{"usage": {"prompt_tokens":1,"completion_tokens":2} ,"choices":[{"index":3,"delta":{}}],"timings": {"prompt_n":1,"predicted_n":2} ,"usageMetadata": { "promptTokenCount":1 } ,"eval_count": 3 }`))
	f.Add([]byte(`{"choices":[{"delta":{ "content" : "a" , "x":[ 1 ]},"y":1e400}],"z":{"z":-0}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, c, err := stamp().AppendChunk(nil, in)
		if err != nil || c.Skip {
			return
		}
		if d := sameForeign(t, in, out); d != "" {
			t.Errorf("\n in %s\nout %s\n%s", in, out, d)
		}
		if jsontext.Value(in).IsValid() && !jsontext.Value(out).IsValid() {
			t.Errorf("a key stands twice, or worse:\n in %s\nout %s", in, out)
		}
		asking := stamp()
		asking.Running, asking.PassUsage, asking.PassTimings = hearth.RunningUsage, true, true
		if out, c, err := asking.AppendChunk(nil, in); err == nil && !c.Skip && jsontext.Value(in).IsValid() && !jsontext.Value(out).IsValid() {
			t.Errorf("with counts on the way, a key stands twice, or worse:\n in %s\nout %s", in, out)
		}
		whole := bytes.ReplaceAll(in, []byte(`"delta"`), []byte(`"message"`))
		if a, err := ReadAnswer(whole); err == nil && jsontext.Value(whole).IsValid() {
			if out := a.Append(nil, stamp(), hearth.Bill{}); !jsontext.Value(out).IsValid() {
				t.Errorf("whole: a key stands twice, or worse:\n in %s\nout %s", whole, out)
			}
		}
	})
}
