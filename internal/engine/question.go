package engine

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bodyMax bounds a request body in bytes.
const bodyMax = 64 << 20

// failure is an error answer in llama-server's shape.
type failure struct {
	Code         int    `json:"code"`
	Message      string `json:"message"`
	Type         string `json:"type"`
	PromptTokens int    `json:"n_prompt_tokens,omitzero"`
	Context      int    `json:"n_ctx,omitzero"`
}

func (f *failure) Error() string { return f.Message }

func invalid(format string, args ...any) *failure {
	return &failure{Code: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Type: "invalid_request_error"}
}

func overflow(tokens, context int) *failure {
	f := invalid("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", tokens, context)
	f.Type, f.PromptTokens, f.Context = "exceed_context_size_error", tokens, context
	return f
}

func writeError(w http.ResponseWriter, f *failure) {
	writeJSON(w, f.Code, map[string]*failure{"error": f})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client left: there is nobody to tell
}

// readJSON decodes a request body, leniently where real engines are lenient.
func readJSON(r *http.Request, v any) *failure {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, bodyMax))
	if err != nil {
		return invalid("the body cannot be read: %v", err)
	}
	return decodeJSON(body, v)
}

func decodeJSON(body []byte, v any) *failure {
	if err := json.Unmarshal(body, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return invalid("the body is not the expected JSON: %v", err)
	}
	return nil
}

// question is what a simulation needs to know of a chat request.
type question struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	} `json:"messages"`
	Tools         jsontext.Value `json:"tools"`
	Stream        bool           `json:"stream"`
	MaxTokens     *int64         `json:"max_tokens"`
	MaxCompletion *int64         `json:"max_completion_tokens"`
	IgnoreEOS     bool           `json:"ignore_eos"` // go on until a limit ends the answer
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"` // as in vLLM
	} `json:"stream_options"`
	TimingsPerToken bool `json:"timings_per_token"` // as in llama-server

	tokens int  // of the prompt, template included
	hangul bool // the prompt holds Hangul
}

func readQuestion(r *http.Request) (*question, *failure) {
	q := new(question)
	if f := readJSON(r, q); f != nil {
		return nil, f
	}
	return q, q.check()
}

func (q *question) check() *failure {
	if len(q.Messages) == 0 {
		return invalid("'messages' is required")
	}
	prompt := q.template()
	q.tokens = countTokens(prompt)
	q.hangul = strings.ContainsFunc(prompt, func(r rune) bool { return unicode.Is(unicode.Hangul, r) })
	return nil
}

// limit is the number of tokens that the client allows, -1 = no limit.
func (q *question) limit() int64 {
	for _, n := range []*int64{q.MaxCompletion, q.MaxTokens} {
		if n != nil && *n >= 0 {
			return *n
		}
	}
	return -1
}

// template is the prompt in ChatML.
func (q *question) template() string {
	var b strings.Builder
	if q.Tools.Kind() == '[' {
		b.WriteString("<|im_start|>system\n# Tools\n" + string(q.Tools) + "<|im_end|>\n")
	}
	for _, m := range q.Messages {
		b.WriteString("<|im_start|>" + m.Role + "\n" + contentText(m.Content) + "<|im_end|>\n")
	}
	b.WriteString("<|im_start|>assistant\n")
	return b.String()
}

// contentText is the text of a message's content: a string, or the text parts of a list.
func contentText(v jsontext.Value) string {
	lenient := []json.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	switch v.Kind() {
	case '"':
		var s string
		if json.Unmarshal(v, &s, lenient...) == nil {
			return s
		}
	case '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(v, &parts, lenient...) == nil {
			var b strings.Builder
			for _, p := range parts {
				b.WriteString(p.Text)
			}
			return b.String()
		}
	}
	return ""
}

// countTokens counts as a tokenizer of today's models roughly does: a word of Latin letters is a token for every
// five of them, three digits are one, and every other character is one; the blank before a word is part of it,
// and so is the text of a control token.
func countTokens(s string) int {
	n, letters, digits := 0, 0, 0
	for _, mark := range []string{"<|im_start|>", "<|im_end|>"} {
		n += strings.Count(s, mark)
		s = strings.ReplaceAll(s, mark, "")
	}
	for _, r := range s {
		switch {
		case r == ' ':
			letters, digits = 0, 0
		case unicode.Is(unicode.Latin, r):
			if digits = 0; letters%5 == 0 {
				n++
			}
			letters++
		case unicode.IsDigit(r):
			if letters = 0; digits%3 == 0 {
				n++
			}
			digits++
		default:
			letters, digits = 0, 0
			n++
		}
	}
	return n
}
