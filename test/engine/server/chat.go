package server

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"time"

	"myip.co.kr/hearth/test/engine/llm"
)

// document is a whole answer or a chunk of it.
type document struct {
	Choices     []choice `json:"choices"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Object      string   `json:"object"`
	ID          string   `json:"id"`
	Usage       *usage   `json:"usage,omitempty"`
	Timings     *timings `json:"timings,omitempty"`
}

type choice struct {
	Finish  *string `json:"finish_reason"`
	Index   int     `json:"index"`
	Delta   any     `json:"delta,omitempty"`
	Message any     `json:"message,omitempty"`
}

func (s *Server) document(object string) document {
	return document{Created: time.Now().Unix(), Model: s.conf.name(), Fingerprint: build, Object: object, ID: "chatcmpl-" + rand.Text()}
}

// chat answers a chat request. More of them than there are sequences wait, without limit and without a word.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	q, f := readRequest(r, len(s.model.Sequences()))
	var tokens []llm.Token
	if f == nil {
		q.IgnoreEnd = q.IgnoreEnd || s.conf.Endless
		_, tokens, f = s.prompt(q)
	}
	if f != nil {
		writeFailure(w, f)
		return
	}
	seq := s.acquire(r.Context())
	if seq == nil {
		s.stuck(w, r, q.Stream)
		return
	}
	var err error
	func() {
		defer s.release(seq)
		if len(tokens) >= s.model.Window() {
			writeFailure(w, overflow(len(tokens), s.model.Window()))
			return
		}
		a := &answer{srv: s, q: q, seq: seq, prompt: tokens}
		if q.Stream {
			err = s.stream(w, r, a)
		} else {
			err = s.whole(w, r, a)
		}
		s.counted(a, err)
	}()
	if errors.Is(err, errStopping) {
		s.stuck(w, r, q.Stream)
	}
}

// prompt makes one text of a chat and its tokens.
func (s *Server) prompt(q *request) (string, []llm.Token, *failure) {
	turns, f := q.turns()
	if f != nil {
		return "", nil, f
	}
	text, err := s.model.Prompt(turns)
	if err != nil {
		return "", nil, broken("%v", err)
	}
	return text, s.model.Tokenize(text, true, true), nil
}

// stuck is what becomes of requests when the server was told to stop: a stream ends without its end at the next ping,
// and everything else hangs until the client gives up.
func (s *Server) stuck(w http.ResponseWriter, r *http.Request, stream bool) {
	var cut <-chan time.Time
	if stream {
		timer := time.NewTimer(s.conf.Ping)
		defer timer.Stop()
		cut = timer.C
	}
	select {
	case <-r.Context().Done():
	case <-cut:
	}
	panic(http.ErrAbortHandler)
}

// whole sends the answer as one document.
func (s *Server) whole(w http.ResponseWriter, r *http.Request, a *answer) error {
	out := &collected{Role: "assistant"}
	err := a.run(r.Context(), out)
	switch {
	case errors.Is(err, errGone), errors.Is(err, errStopping):
		return err
	case err != nil:
		writeFailure(w, broken("%v", err))
		return err
	}
	d := s.document("chat.completion")
	d.Choices = []choice{{Finish: &a.finish, Message: out}}
	d.Usage, d.Timings = a.usage(), a.timings()
	writeJSON(w, http.StatusOK, d)
	return nil
}

// collected collects an answer.
type collected struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
	Calls     []call `json:"tool_calls,omitempty"`
}

func (m *collected) begin() error { return nil }
func (m *collected) ping() error  { return nil }

func (m *collected) delta(d delta) error {
	if d.Content != nil {
		m.Content += *d.Content
	}
	if d.Reasoning != nil {
		m.Reasoning += *d.Reasoning
	}
	for _, c := range d.Calls {
		if i := *c.Index; i < len(m.Calls) {
			m.Calls[i].Function.Arguments += c.Function.Arguments
		} else {
			c.Index = nil
			m.Calls = append(m.Calls, c)
		}
	}
	return nil
}

// stream sends the answer piece by piece.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a *answer) error {
	out := &events{w: w, doc: s.document("chat.completion.chunk")}
	if a.q.Timed {
		out.timings = a.timings
	}
	err := a.run(r.Context(), out)
	switch {
	case errors.Is(err, errGone), errors.Is(err, errStopping):
		return err
	case err != nil && !out.begun:
		writeFailure(w, broken("%v", err))
		return err
	case err != nil:
		return errors.Join(err, out.event(map[string]any{"error": broken("%v", err)}))
	}
	return out.end(a)
}

// events writes server-sent events.
type events struct {
	w     http.ResponseWriter
	doc   document // what all chunks have in common
	begun bool

	timings func() *timings // those so far, to be sent with each piece; nil = nobody asked
}

func (e *events) begin() error {
	e.begun = true
	e.w.Header().Set("Content-Type", "text/event-stream")
	role := struct {
		Role    string  `json:"role"`
		Content *string `json:"content"`
	}{Role: "assistant"}
	return e.piece(choice{Delta: role})
}

func (e *events) delta(d delta) error { return e.piece(choice{Delta: d}) }

// piece sends a piece of the answer.
func (e *events) piece(c choice) error {
	if e.timings == nil {
		return e.chunk(c, nil)
	}
	return e.chunk(c, e.timings())
}

func (e *events) ping() error {
	if !e.begun {
		return nil
	}
	return e.raw(":\n\n")
}

// end sends what follows the last piece: with usage the timings stand beside it, else beside the finish reason.
func (e *events) end(a *answer) error {
	wanted := a.q.Options.IncludeUsage
	t := a.timings()
	if wanted {
		t = nil
	}
	if err := e.chunk(choice{Delta: struct{}{}, Finish: &a.finish}, t); err != nil {
		return err
	}
	if wanted {
		d := e.doc
		d.Choices, d.Usage, d.Timings = []choice{}, a.usage(), a.timings()
		if err := e.event(d); err != nil {
			return err
		}
	}
	return e.raw("data: [DONE]\n\n")
}

func (e *events) chunk(c choice, t *timings) error {
	d := e.doc
	d.Choices, d.Timings = []choice{c}, t
	return e.event(d)
}

func (e *events) event(v any) error {
	return e.raw("data: " + string(encode(v)) + "\n\n")
}

func (e *events) raw(text string) error {
	if _, err := io.WriteString(e.w, text); err != nil {
		return errGone
	}
	if err := http.NewResponseController(e.w).Flush(); err != nil {
		return errGone
	}
	return nil
}
