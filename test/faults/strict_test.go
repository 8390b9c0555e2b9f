package faults

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// chunk is a chunk of a stream, or a whole answer.
type chunk struct {
	ID       string         `json:"id"`
	Object   string         `json:"object"`
	Created  *int64         `json:"created"`
	Model    string         `json:"model"`
	Provider string         `json:"provider"`
	Choices  []choice       `json:"choices"`
	Usage    *usage         `json:"usage"`
	Error    *faultObject   `json:"error"`
	Print    jsontext.Value `json:"system_fingerprint"`
}

type choice struct {
	Index   *int     `json:"index"`
	Delta   *message `json:"delta"`
	Message *message `json:"message"`
	Finish  *string  `json:"finish_reason"`
}

type message struct {
	Role    *string `json:"role"`
	Content *string `json:"content"`
}

type usage struct {
	Prompt     *int64         `json:"prompt_tokens"`
	Completion *int64         `json:"completion_tokens"`
	Cost       jsontext.Value `json:"cost"`
}

type faultObject struct {
	Code     jsontext.Value `json:"code"`
	Message  string         `json:"message"`
	Type     string         `json:"type"`
	Param    jsontext.Value `json:"param"`
	Metadata struct {
		ErrorType string `json:"error_type"`
		Provider  string `json:"provider_name"`
		Raw       string `json:"raw"`
		Slot      string `json:"slot_status"`
		Attempts  []struct {
			Provider string         `json:"provider"`
			Status   jsontext.Value `json:"status"`
			Message  string         `json:"message"`
		} `json:"attempts"`
	} `json:"metadata"`
}

// reading is an answer as a strict client understands it.
type reading struct {
	id, model, provider string
	text, finish        string
	usage               *usage
	fault               *faultObject
}

// decode reads one JSON document; duplicate keys and broken UTF-8 are errors.
func decode(t testing.TB, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("not JSON: %v in %.500q", err, b)
	}
}

// generation is the id that the headers name.
func (a *answer) generation() string { return a.header.Get("X-Generation-Id") }

// read understands the answer, whichever way it came, or fails the test for what a strict client could not take.
func (a *answer) read() *reading {
	a.t.Helper()
	if a.generation() == "" || a.header.Get("X-Myip-Generation-Id") != a.generation() {
		a.t.Errorf("the headers name no generation: %v", a.header)
	}
	var r *reading
	switch ct := a.header.Get("Content-Type"); {
	case a.status != 200:
		r = a.readFault()
	case ct == "text/event-stream":
		r = a.readStream()
	case ct == "application/json":
		r = a.readWhole()
	default:
		a.t.Fatalf("a 200 of Content-Type %q: %.500q", ct, a.body)
	}
	if a.status == 200 {
		if got := a.header.Get("X-Myip-Provider"); got != r.provider || got == "" {
			a.t.Errorf("X-MyIP-Provider is %q, the body says %q", got, r.provider)
		}
		if got := a.header.Get("X-Myip-Model"); got != r.model || got == "" {
			a.t.Errorf("X-MyIP-Model is %q, the body says %q", got, r.model)
		}
		if r.id != a.generation() {
			a.t.Errorf("the body's id is %q, the header's %q", r.id, a.generation())
		}
	}
	return r
}

// fine checks what every error must have.
func (f *faultObject) fine(t testing.TB, status int) {
	t.Helper()
	digits := len(f.Code) > 0
	for _, c := range f.Code {
		digits = digits && c >= '0' && c <= '9'
	}
	if !digits || f.Message == "" || f.Type == "" || f.Metadata.ErrorType == "" || f.Param == nil {
		t.Errorf("an incomplete error: %+v", *f)
	}
	if status != 0 && string(f.Code) != itoa(status) {
		t.Errorf("error.code is %s in an answer of %d", f.Code, status)
	}
}

func (a *answer) readFault() *reading {
	a.t.Helper()
	var doc struct {
		Error *faultObject `json:"error"`
	}
	decode(a.t, a.body, &doc)
	if doc.Error == nil {
		a.t.Fatalf("%d without an error: %.500q", a.status, a.body)
	}
	doc.Error.fine(a.t, a.status)
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("an error of Content-Type %q", got)
	}
	if after := a.header.Get("Retry-After"); (a.status == 429 || a.status == 503) != (after != "") {
		a.t.Errorf("Retry-After %q with status %d", after, a.status)
	}
	return &reading{fault: doc.Error}
}

func (a *answer) readWhole() *reading {
	a.t.Helper()
	var c chunk
	decode(a.t, a.body, &c)
	if c.Error != nil || c.Object != "chat.completion" || c.Created == nil || c.Print == nil || c.Usage == nil {
		a.t.Errorf("not a whole answer: %.500q", a.body)
	}
	if bytes.Contains(a.body, []byte(`"tool_calls":null`)) {
		a.t.Errorf("tool_calls is null: %.500q", a.body)
	}
	if len(c.Choices) != 1 || c.Choices[0].Message == nil || c.Choices[0].Finish == nil || c.Choices[0].Message.Role == nil {
		a.t.Fatalf("choices of a whole answer: %.500q", a.body)
	}
	r := &reading{id: c.ID, model: c.Model, provider: c.Provider, finish: *c.Choices[0].Finish, usage: c.Usage}
	if m := c.Choices[0].Message; m.Content != nil {
		r.text = *m.Content
	}
	r.usage.fine(a.t)
	return r
}

func (u *usage) fine(t testing.TB) {
	t.Helper()
	if u == nil || u.Prompt == nil || u.Completion == nil || u.Cost.Kind() != '0' {
		t.Errorf("incomplete usage: %+v", u)
	}
}

// readStream holds a stream to every rule that a client relies on.
func (a *answer) readStream() *reading {
	a.t.Helper()
	var docs []chunk
	ended := false
	for event := range bytes.SplitSeq(bytes.TrimSuffix(a.body, []byte("\n\n")), []byte("\n\n")) {
		payload, isData := bytes.CutPrefix(event, []byte("data: "))
		switch {
		case bytes.HasPrefix(event, []byte(":")):
			continue
		case !isData || bytes.ContainsAny(payload, "\r\n"):
			a.t.Fatalf("not an event of one line of data: %.500q", event)
		case ended:
			a.t.Fatalf("an event after [DONE]: %.500q", event)
		case string(payload) == "[DONE]":
			ended = true
			continue
		}
		var c chunk
		decode(a.t, payload, &c)
		docs = append(docs, c)
	}
	if !ended || !bytes.HasSuffix(a.body, []byte("data: [DONE]\n\n")) || len(docs) == 0 {
		a.t.Fatalf("the stream does not end with [DONE]: %q", a.body[max(0, len(a.body)-500):])
	}
	r := &reading{id: docs[0].ID, model: docs[0].Model, provider: docs[0].Provider}
	var text strings.Builder
	for i := range docs {
		a.readChunk(&docs[i], r, &text, i == len(docs)-1)
	}
	r.text = text.String()
	return r
}

func (a *answer) readChunk(c *chunk, r *reading, text *strings.Builder, last bool) {
	a.t.Helper()
	if c.ID != r.id || c.Model != r.model || c.Provider != r.provider || c.Object != "chat.completion.chunk" || c.Created == nil || len(c.Choices) == 0 {
		a.t.Fatalf("a chunk that is not like the first, or incomplete: %+v", *c)
	}
	for _, ch := range c.Choices {
		if ch.Delta == nil || ch.Index == nil {
			a.t.Fatalf("a choice without index or delta: %+v", *c)
		}
		if ch.Delta.Role != nil && *ch.Delta.Role != "assistant" {
			a.t.Errorf("role %q", *ch.Delta.Role)
		}
		if ch.Delta.Content != nil {
			text.WriteString(*ch.Delta.Content)
		}
	}
	finish := c.Choices[0].Finish
	if finish != nil {
		r.finish = *finish
	}
	if (c.Error != nil) != (finish != nil && *finish == "error") {
		a.t.Errorf("error and finish_reason do not go together: %+v", *c)
	}
	if c.Error != nil {
		r.fault = c.Error
		c.Error.fine(a.t, 0)
	}
	if !last {
		if c.Error != nil {
			a.t.Errorf("an error in the midst of a stream")
		}
		return
	}
	if finish == nil {
		a.t.Errorf("the last chunk has no finish_reason: %+v", *c)
	}
	if c.Error == nil {
		r.usage = c.Usage
		c.Usage.fine(a.t)
	}
}

// record is a generation as GET /api/v1/generation tells it.
type record struct {
	ID        string         `json:"id"`
	Model     *string        `json:"model"`
	Provider  *string        `json:"provider_name"`
	Finish    *string        `json:"finish_reason"`
	Cost      jsontext.Value `json:"total_cost"`
	Status    int            `json:"http_status"`
	Error     *string        `json:"error_type"`
	Cancelled bool           `json:"cancelled"`
	Streamed  bool           `json:"streamed"`
	Responses []response     `json:"provider_responses"`
}

type response struct {
	Status   any     `json:"status"`
	Skip     *string `json:"skip_reason"`
	Provider string  `json:"provider_name"`
	Message  *string `json:"message"`
}

// record reads the generation's record, which must be there as soon as the answer is.
func (g *gateway) record(t testing.TB, a *answer) *record {
	t.Helper()
	got := g.call(t, g.user, "GET", "/api/v1/generation?id="+a.generation(), "")
	if got.status != 200 {
		t.Fatalf("no record of %s: %d %s", a.generation(), got.status, got.body)
	}
	var doc struct {
		Data record `json:"data"`
	}
	decode(t, got.body, &doc)
	return &doc.Data
}

// words are the status of each candidate in the record, as text: a number, a word, or "null".
func (r *record) words() []string {
	var out []string
	for _, p := range r.Responses {
		switch s := p.Status.(type) {
		case float64:
			out = append(out, itoa(int(s)))
		case string:
			out = append(out, s)
		default:
			out = append(out, "null")
		}
	}
	return out
}

func (r *record) free() bool { return string(r.Cost) == "0" }

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// providers are the candidates of the record in order.
func (r *record) providers() []string {
	var out []string
	for _, p := range r.Responses {
		out = append(out, p.Provider)
	}
	return slices.Clip(out)
}
