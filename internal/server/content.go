package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// contentJSON is OpenRouter's shape of a prompt and answer, and ours behind it. Texts in it were redacted before they were
// kept.
type contentJSON struct {
	Input     jsontext.Value `json:"input"`  // messages
	Output    jsontext.Value `json:"output"` // completion, reasoning; ours: tool_calls
	Error     *contentFault  `json:"error"`
	Truncated bool           `json:"truncated"` // it is not all of it
}

// contentFault is why a generation failed. Status is the one the caller got.
type contentFault struct {
	Message  *string          `json:"message"`
	Provider *string          `json:"provider_name"`
	Status   int              `json:"status"`
	Raw      *string          `json:"raw"`
	Previous []contentAttempt `json:"previous_errors"`
}

// contentAttempt is a candidate that failed before.
type contentAttempt struct {
	Code     int     `json:"code"` // the upstream's, 0 = there was none
	Message  string  `json:"message"`
	Provider *string `json:"provider_name"`
	Raw      *string `json:"raw"`
}

// content tells the prompt and the answer of a generation, if they are kept.
func (s *Server) content(w http.ResponseWriter, r *http.Request) error {
	g, _, err := s.recordOf(w, r)
	if err != nil {
		return err
	}
	var doc []byte
	err = store.ErrNotFound
	if s.Content != nil {
		doc, err = s.Content(r.Context(), g.ID)
	}
	if errors.Is(err, store.ErrNotFound) {
		return hearth.Errorf(hearth.ErrNotFound, "neither prompt nor answer of generation \"%s\" is kept: they are only while records.content.log is on, unless its key forbids it, for records.content.max_age, and not when they come faster than they can be written", printable(g.ID))
	}
	if err != nil {
		return fmt.Errorf("read content of generation %s: %w", g.ID, err)
	}
	var kept struct {
		Input     jsontext.Value `json:"input"`
		Output    jsontext.Value `json:"output"`
		Error     *string        `json:"error"`
		Truncated bool           `json:"truncated"`
	}
	if err := json.Unmarshal(doc, &kept, jsontext.AllowDuplicateNames(true)); err != nil {
		return fmt.Errorf("read content of generation %s: %w", g.ID, err)
	}
	b, err := json.Marshal(struct {
		Data contentJSON `json:"data"`
	}{contentJSON{Input: kept.Input, Output: kept.Output, Error: faultOf(g, kept.Error), Truncated: kept.Truncated}}, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return fmt.Errorf("encode content of generation %s: %w", g.ID, err)
	}
	w.Header().Set("Cache-Control", "no-store")
	send(w, http.StatusOK, b)
	return nil
}

// faultOf is why a generation failed, nil if it did not; message is what its caller was told.
func faultOf(g *hearth.Generation, message *string) *contentFault {
	if g.Error == "" {
		return nil
	}
	f := &contentFault{Message: message, Status: g.HTTP, Previous: []contentAttempt{}}
	for i := range g.Attempts {
		a := &g.Attempts[i]
		if f.Provider = orNull(a.Provider); i < len(g.Attempts)-1 {
			f.Previous = append(f.Previous, contentAttempt{Code: a.Status, Message: a.Message, Provider: f.Provider})
		}
	}
	return f
}
