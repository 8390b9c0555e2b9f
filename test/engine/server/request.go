package server

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"myip.co.kr/hearth/test/engine/llm"
)

// maxBody bounds a request body in bytes.
const maxBody = 64 << 20

// number is a member that may have the wrong type; it is as good as absent then, as in llama-server.
type number[T any] struct{ v *T }

func (n *number[T]) UnmarshalJSON(b []byte) error {
	v := new(T)
	if json.Unmarshal(b, v) == nil && string(b) != "null" {
		n.v = v
	}
	return nil
}

// or is the number, or what stands for it.
func (n number[T]) or(v T) T {
	if n.v != nil {
		return *n.v
	}
	return v
}

// request is a chat request.
type request struct {
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Choice   json.RawMessage `json:"tool_choice"`
	Format   struct {
		Type string `json:"type"`
	} `json:"response_format"`

	Stream  bool `json:"stream"`
	Options struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Timed bool `json:"timings_per_token"`

	MaxTokens     number[int]     `json:"max_tokens"`
	MaxCompletion number[int]     `json:"max_completion_tokens"`
	Predict       number[int]     `json:"n_predict"`
	Stop          json.RawMessage `json:"stop"`
	N             int             `json:"n"`
	IgnoreEnd     bool            `json:"ignore_eos"`

	Temperature number[float32] `json:"temperature"`
	TopP        number[float32] `json:"top_p"`
	MinP        number[float32] `json:"min_p"`
	TopK        number[int32]   `json:"top_k"`
	Seed        number[int64]   `json:"seed"`
}

// message is one turn.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readJSON decodes a body as llama-server does: what cannot be parsed is a fault of the server, what has the wrong
// type is not there.
func readJSON(r *http.Request, v any) *failure {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return invalid("the body cannot be read: %v", err)
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(body, v); err != nil && !errors.As(err, &wrong) {
		return broken("[json.exception.parse_error.101] parse error: %v", err)
	}
	return nil
}

func readRequest(r *http.Request, slots int) (*request, *failure) {
	q := new(request)
	if f := readJSON(r, q); f != nil {
		return nil, f
	}
	switch {
	case len(q.Messages) == 0:
		return nil, invalid("'messages' is required")
	case q.N > slots:
		return nil, invalid("n_cmpl cannot be greater than the number of slots, please increase -np")
	case q.N > 1:
		return nil, unsupported("this server makes one answer for a request")
	case q.Format.Type != "" && q.Format.Type != "text":
		return nil, unsupported("this server does not hold an answer to a grammar")
	}
	return q, nil
}

// limit is the number of tokens that the client allows, -1 = no limit.
func (q *request) limit() int {
	for _, n := range []number[int]{q.Predict, q.MaxCompletion, q.MaxTokens} {
		if n := n.or(-1); n >= 0 {
			return n
		}
	}
	return -1
}

// stops are the texts that end an answer.
func (q *request) stops() []string {
	var one string
	var many []string
	if json.Unmarshal(q.Stop, &many) != nil && json.Unmarshal(q.Stop, &one) == nil {
		many = []string{one}
	}
	var out []string
	for _, s := range many {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (q *request) sampling() llm.Sampling {
	c := llm.Sampling{Temperature: q.Temperature.or(0.8), TopP: q.TopP.or(0.95), MinP: q.MinP.or(0.05), TopK: q.TopK.or(40),
		Seed: rand.Uint32(), IgnoreEnd: q.IgnoreEnd}
	if seed := q.Seed.or(-1); seed >= 0 {
		c.Seed = uint32(seed)
	}
	return c
}

// tools says whether the answer may call one.
func (q *request) tools() bool {
	var list []json.RawMessage
	return json.Unmarshal(q.Tools, &list) == nil && len(list) > 0 && string(q.Choice) != `"none"`
}

// turns are the messages as the model's template with tools renders them: the C library knows no tools.
func (q *request) turns() ([]llm.Message, *failure) {
	var out []llm.Message
	for _, m := range q.Messages {
		text, f := plain(m.Content)
		if f != nil {
			return nil, f
		}
		switch m.Role {
		case "tool":
			out = append(out, llm.Message{Role: "user", Content: "<tool_response>\n" + text + "\n</tool_response>"})
		default:
			for _, c := range m.Calls {
				text += "\n<tool_call>\n{\"name\": \"" + c.Function.Name + "\", \"arguments\": " + c.Function.Arguments + "}\n</tool_call>"
			}
			out = append(out, llm.Message{Role: m.Role, Content: text})
		}
	}
	if q.tools() {
		system := ""
		if len(out) > 0 && out[0].Role == "system" {
			system, out = out[0].Content+"\n", out[1:]
		}
		out = append([]llm.Message{{Role: "system", Content: system + q.toolText()}}, out...)
	}
	return out, nil
}

func (q *request) toolText() string {
	var list []json.RawMessage
	_ = json.Unmarshal(q.Tools, &list) // it was asked before whether this is a list
	var b strings.Builder
	b.WriteString("<tools>")
	for _, t := range list {
		b.WriteString("\n" + string(t))
	}
	b.WriteString("\n</tools>\nAnswer with <tool_call>\n{\"name\": <name>, \"arguments\": <args>}\n</tool_call>")
	return b.String()
}

// plain is the text of a message's content: a string, nothing, or a list of parts.
func plain(content json.RawMessage) (string, *failure) {
	if len(content) == 0 || string(content) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return "", invalid("Expected 'content' to be a string or an array")
	}
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "image_url":
			return "", broken("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj")
		case "input_audio":
			return "", broken("audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj")
		default:
			return "", invalid("unsupported content[].type")
		}
	}
	return strings.Join(texts, "\n"), nil
}
