package dialect

import "strings"

// finishWords are the finish reasons of the vendors, in lower case, in OpenAI's words.
var finishWords = map[string]string{
	"stop": "stop", "eos": "stop", "eos_token": "stop", "end_turn": "stop", "stop_sequence": "stop", "end": "stop",
	"complete": "stop", "completed": "stop", "finished": "stop",
	"length": "length", "max_tokens": "length", "max_output_tokens": "length", "model_length": "length",
	"model_context_window_exceeded": "length", "max_completion_tokens": "length", "max_new_tokens": "length",
	"max_length": "length", "limit": "length", "context_length_exceeded": "length",
	"tool_calls": "tool_calls", "function_call": "tool_calls", "tool_use": "tool_calls", "tool_call": "tool_calls",
	"content_filter": "content_filter", "content_filtered": "content_filter", "safety": "content_filter",
	"refusal": "content_filter", "recitation": "content_filter", "sensitive": "content_filter",
	"prohibited_content": "content_filter", "blocklist": "content_filter", "spii": "content_filter",
	"image_safety": "content_filter", "error_toxic": "content_filter", "guardrail_intervened": "content_filter",
	"error": "error", "abort": "error", "network_error": "error", "server_error": "error",
	"insufficient_system_resource": "error", "malformed_function_call": "error",
}

// finishReason is OpenAI's word for a vendor's; an unknown one is a stop.
func finishReason(native string) string {
	if w, ok := finishWords[native]; ok { // lower case, nearly always
		return w
	}
	if w, ok := finishWords[strings.ToLower(native)]; ok {
		return w
	}
	return "stop"
}

// reason is a finish reason in OpenAI's words and in the upstream's.
type reason struct{ ours, native string }

// finish writes both finish reasons of a choice and notes them. finish and native are what the upstream gave. A whole
// answer always has one.
func (r *rewriter) finish(dst, finish, native []byte, choice int) []byte {
	given := text(finish) && len(finish) <= 128 && string(finish) != `"null"`
	if r.bad || !given && !r.whole {
		dst = append(comma(dst), `"finish_reason":null`...)
		if native != nil {
			dst = append(dst, `,"native_finish_reason":null`...)
		}
		return dst
	}
	var said reason
	if given {
		said.native = r.stamp.word(finish)
	}
	said.ours = r.stamp.ended(choice, said.native)
	if text(native) && len(native) <= 128 {
		said.native = r.stamp.word(native)
	}
	if said.ours == "tool_calls" && r.chunk {
		dst = r.fillArguments(dst, choice)
	}
	dst = appendFinish(comma(dst), said.ours, said.native)
	if !given {
		r.silent = said
		return dst
	}
	if said.ours == "error" && r.fact.Err == nil {
		r.fact.Err = &UpstreamError{Code: 502, Message: "the upstream ended its answer with an error"}
	}
	if choice == 0 {
		r.stamp.first = said
	} else if r.stamp.first.ours != "" { // the answer's finish reason is that of its first choice
		said = r.stamp.first
	}
	if r.fact.Finish == "" {
		r.fact.Finish, r.fact.Native = said.ours, said.native
	}
	return dst
}

// ended is the finish reason of a choice for which the upstream gave this one, "" = none.
func (s *Stamp) ended(choice int, native string) string {
	ours := finishReason(native)
	if choice < 0 || choice >= 64 {
		return ours
	}
	switch ours {
	case "stop", "tool_calls":
		if s.called&(1<<choice) != 0 {
			return "tool_calls"
		}
	default:
		s.cut |= 1 << choice
	}
	return ours
}

// maxReason is how long a finish reason may be to be kept, in bytes.
const maxReason = 64

// word is the text of a JSON string that is a finish reason, "" if it cannot be one, without an allocation where it is a well-known word or the last one seen.
func (s *Stamp) word(v []byte) string {
	switch string(v) {
	case `"stop"`:
		return "stop"
	case `"length"`:
		return "length"
	case `"tool_calls"`:
		return "tool_calls"
	}
	if u := unquote(v); string(u) != s.vendor {
		s.vendor = identifier(string(u), maxReason)
	}
	return s.vendor
}
