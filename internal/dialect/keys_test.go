package dialect

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// oddObject draws an object with some of the keys, each at most once, in any order.
func oddObject(t *rapid.T, values map[string]string, keys ...string) string {
	odd := []string{`null`, `""`, `"x"`, `7`, `[]`, `[ ]`, `{}`, `true`}
	var list []string
	for _, k := range rapid.Permutation(keys).Draw(t, "order")[:rapid.IntRange(0, len(keys)).Draw(t, "how many")] {
		v, own := values[k]
		if !own || rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			v = rapid.SampledFrom(odd).Draw(t, k)
		}
		list = append(list, `"`+k+`":`+v)
	}
	return "{" + strings.Join(list, ",") + "}"
}

// TestKeys_StandOnce: whatever an upstream sends in the place of whatever is known, the caller gets valid JSON in which no
// key stands twice, for there are clients that refuse it.
func TestKeys_StandOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fn := oddObject(rt, map[string]string{"name": `"f"`}, "name", "arguments", "x")
		call := oddObject(rt, map[string]string{"function": fn, "index": `0`}, "index", "id", "type", "function", "x")
		part := oddObject(rt, map[string]string{"type": `"image_url"`, "text": `"a"`, "thinking": `"hm"`}, "type", "text", "thinking", "image_url", "refusal")
		body := oddObject(rt, map[string]string{"content": `["b",` + part + `,` + part + `]`, "tool_calls": "[" + call + "," + call + "]", "images": `[{"type":"image"}]`, "reasoning_details": `[{}]`},
			"role", "content", "refusal", "reasoning", "reasoning_content", "reasoning_details", "tool_calls", "images", "audio", "annotations", "function_call", "name", "model", "x")
		for _, key := range []string{"delta", "message"} {
			choice := oddObject(rt, map[string]string{key: body, "index": `0`, "finish_reason": `"stop"`, "logprobs": `{"tokens":[]}`},
				"index", "delta", "message", "finish_reason", "native_finish_reason", "logprobs", "usage", "x")
			in := []byte(oddObject(rt, map[string]string{"choices": "[" + choice + "," + choice + "]"},
				"id", "object", "created", "model", "provider", "system_fingerprint", "usage", "timings", "choices", "x_groq", "service_tier"))
			s := stamp()
			out, c, err := s.AppendChunk(nil, in)
			if err == nil && !c.Skip && !jsontext.Value(out).IsValid() {
				rt.Errorf("chunk:\n in %s\nout %s", in, out)
			}
			if out = s.AppendFinal(nil, c.Finish, c.Native, c.Usage, hearth.Bill{}); !jsontext.Value(out).IsValid() {
				rt.Errorf("final: %s after %s", out, in)
			}
			if out, c, err = stamp().AppendWhole(nil, in); err == nil && !c.Skip && !jsontext.Value(out).IsValid() {
				rt.Errorf("whole as a chunk:\n in %s\nout %s", in, out)
			}
			if a, err := ReadAnswer(in); err == nil {
				if out = a.Append(nil, stamp(), hearth.Bill{}); !jsontext.Value(out).IsValid() {
					rt.Errorf("whole:\n in %s\nout %s", in, out)
				}
			}
		}
	})
}
