package dialect

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// doc is a JSON object as a client sees it.
type doc = map[string]any

func parse(t *testing.T, b []byte) doc {
	t.Helper()
	var o doc
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return o
}

// told is what the caller of a stream gets.
type told struct {
	chunks []doc // the upstream's, rewritten
	last   doc   // the one before [DONE]
	fact   Chunk // what the chunks said, put together as the walk does it
}

func (v *vendor) tell(t *testing.T) told {
	t.Helper()
	s, out := stamp(), told{}
	for _, in := range v.stream {
		b, c, err := s.AppendChunk(nil, []byte(in))
		if err != nil || c.Err != nil {
			t.Fatalf("%v %v in %s", err, c.Err, in)
		}
		out.note(t, b, &c)
	}
	out.last = parse(t, s.AppendFinal(nil, out.fact.Finish, out.fact.Native, out.fact.Usage, hearth.Bill{Currency: "KRW"}))
	return out
}

func (o *told) note(t *testing.T, b []byte, c *Chunk) {
	if !c.Skip {
		o.chunks = append(o.chunks, parse(t, b))
	}
	if c.Usage.Reported {
		o.fact.Usage = c.Usage
	}
	if c.Finish != "" {
		o.fact.Finish, o.fact.Native = c.Finish, c.Native
	}
}

func (v *vendor) answer(t *testing.T) (*Answer, doc) {
	t.Helper()
	a, err := ReadAnswer([]byte(v.whole))
	if err != nil || a.Err != nil {
		t.Fatal(err, a.Err)
	}
	return a, parse(t, a.Append(nil, stamp(), hearth.Bill{Currency: "KRW"}))
}

// asStream is the whole answer as a stream of one chunk.
func (v *vendor) asStream(t *testing.T) told {
	t.Helper()
	s, out := stamp(), told{}
	b, c, err := s.AppendWhole(nil, []byte(v.whole))
	if err != nil || c.Err != nil {
		t.Fatal(err, c.Err)
	}
	out.note(t, b, &c)
	out.last = parse(t, s.AppendFinal(nil, c.Finish, c.Native, c.Usage, hearth.Bill{Currency: "KRW"}))
	return out
}

func has(t *testing.T, o doc, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			t.Errorf("no %s in %v", k, o)
		}
	}
}

func choicesOf(o doc) (list []doc) {
	all, _ := o["choices"].([]any)
	for _, c := range all {
		list = append(list, c.(doc))
	}
	return list
}

// read is what a client makes of deltas or a message: its text and its thoughts, the latter by reasoning_details.
func read(t *testing.T, part doc, text, thought *strings.Builder) {
	t.Helper()
	if c, ok := part["content"]; ok && c != nil {
		text.WriteString(c.(string))
	}
	_, r1 := part["reasoning"].(string)
	_, r2 := part["reasoning_content"].(string)
	details, _ := part["reasoning_details"].([]any)
	if (r1 || r2) && details == nil {
		t.Errorf("reasoning without details: %v", part)
	}
	for _, d := range details {
		d := d.(doc)
		for _, k := range []string{"text", "summary"} {
			s, _ := d[k].(string)
			thought.WriteString(s)
		}
	}
}

// TestAnswers_letter holds what callers are promised of every answer against what every kind of upstream sends.
func TestAnswers_letter(t *testing.T) {
	for i := range vendors {
		v := &vendors[i]
		t.Run(v.name, func(t *testing.T) {
			t.Run("a whole answer has every field", v.wholeFields)
			t.Run("a whole answer says the same", v.wholeSays)
			t.Run("every chunk has every field", func(t *testing.T) { v.chunkFields(t, v.tell(t)) })
			t.Run("the stream says the same", func(t *testing.T) { v.streamSays(t, v.tell(t)) })
			t.Run("the last chunk", func(t *testing.T) { v.lastChunk(t, v.tell(t)) })
			t.Run("a whole answer as a stream", func(t *testing.T) {
				o := v.asStream(t)
				v.chunkFields(t, o)
				v.streamSays(t, o)
				v.lastChunk(t, o)
			})
		})
	}
}

func (v *vendor) wholeFields(t *testing.T) {
	_, o := v.answer(t)
	has(t, o, "id", "object", "created", "model", "provider", "system_fingerprint", "choices", "usage")
	if o["id"] != "gen-1" || o["object"] != "chat.completion" || o["model"] != "a/b" || o["provider"] != "Acme" {
		t.Errorf("not ours: %v", o)
	}
	for _, c := range choicesOf(o) {
		has(t, c, "index", "message", "logprobs", "finish_reason", "native_finish_reason")
		m := c["message"].(doc)
		has(t, m, "role", "content", "refusal")
		calls, given := m["tool_calls"]
		if m["role"] != "assistant" || given && calls == nil {
			t.Errorf("message %v", m)
		}
	}
	usageShape(t, o["usage"].(doc))
}

func (v *vendor) wholeSays(t *testing.T) {
	a, o := v.answer(t)
	c := choicesOf(o)[0]
	var text, thought strings.Builder
	read(t, c["message"].(doc), &text, &thought)
	if text.String() != v.text || thought.String() != v.thought {
		t.Errorf("text %q, thought %q", &text, &thought)
	}
	if c["finish_reason"] != v.finish || a.Finish != v.finish || a.Native != v.native {
		t.Errorf("finish %v, %q, %q", c["finish_reason"], a.Finish, a.Native)
	}
	if d := cmp.Diff(v.usage, a.Usage); d != "" {
		t.Error(d)
	}
}

func (v *vendor) chunkFields(t *testing.T, o told) {
	for _, c := range append(slices.Clip(o.chunks), o.last) {
		has(t, c, "id", "object", "created", "model", "provider", "choices")
		if c["id"] != "gen-1" || c["object"] != "chat.completion.chunk" || c["model"] != "a/b" || c["provider"] != "Acme" {
			t.Errorf("not ours: %v", c)
		}
		if f, ok := c["system_fingerprint"]; ok && f == nil {
			t.Error("system_fingerprint is null")
		}
		if _, ok := c["timings"]; ok {
			t.Error("llama-server's timings are passed on")
		}
		if len(choicesOf(c)) == 0 {
			t.Errorf("no choices: %v", c)
		}
		for _, ch := range choicesOf(c) {
			has(t, ch, "index", "delta", "finish_reason")
			d := ch["delta"].(doc)
			if role, ok := d["role"]; ok && role != "assistant" {
				t.Errorf("role %v", role)
			}
			if calls, ok := d["tool_calls"]; ok && calls == nil {
				t.Error("tool_calls is null")
			}
		}
	}
	for _, c := range o.chunks {
		if _, ok := c["usage"]; ok {
			t.Error("the upstream's usage is passed on in the middle of a stream")
		}
	}
}

func (v *vendor) streamSays(t *testing.T, o told) {
	var text, thought strings.Builder
	for _, c := range o.chunks {
		read(t, choicesOf(c)[0]["delta"].(doc), &text, &thought)
	}
	if text.String() != v.text || thought.String() != v.thought {
		t.Errorf("text %q, thought %q", &text, &thought)
	}
	if d := cmp.Diff(v.usage, o.fact.Usage); d != "" {
		t.Error(d)
	}
}

func (v *vendor) lastChunk(t *testing.T, o told) {
	list := choicesOf(o.last)
	if len(list) != 1 || len(list[0]["delta"].(doc)) != 0 || list[0]["finish_reason"] != v.finish {
		t.Errorf("%v", o.last)
	}
	if n := list[0]["native_finish_reason"]; n != v.native && (n != nil || v.native != "") {
		t.Errorf("native finish reason %v", n)
	}
	usageShape(t, o.last["usage"].(doc))
	if n := o.last["usage"].(doc)["completion_tokens"]; n != float64(v.usage.CompletionTokens) {
		t.Errorf("%v tokens", n)
	}
}

// usageShape: the cost is a number, and details are complete.
func usageShape(t *testing.T, u doc) {
	t.Helper()
	has(t, u, "prompt_tokens", "completion_tokens", "total_tokens", "cost", "is_byok", "cost_details")
	if _, ok := u["cost"].(float64); !ok {
		t.Errorf("cost %v", u["cost"])
	}
	has(t, u["prompt_tokens_details"].(doc), "cached_tokens", "cache_write_tokens", "audio_tokens", "video_tokens")
	has(t, u["completion_tokens_details"].(doc), "reasoning_tokens", "image_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")
	has(t, u["cost_details"].(doc), "upstream_inference_cost", "upstream_inference_prompt_cost", "upstream_inference_completions_cost")
}
