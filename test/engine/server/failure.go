package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// failure is an error answer.
type failure struct {
	Code         int    `json:"code"`
	Message      string `json:"message"`
	Type         string `json:"type"`
	PromptTokens int    `json:"n_prompt_tokens,omitempty"`
	Context      int    `json:"n_ctx,omitempty"`
}

func (f *failure) Error() string { return f.Message }

func invalid(format string, args ...any) *failure {
	return &failure{Code: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Type: "invalid_request_error"}
}

// broken is what llama-server answers whenever it throws, even if it was the client's fault.
func broken(format string, args ...any) *failure {
	return &failure{Code: http.StatusInternalServerError, Message: fmt.Sprintf(format, args...), Type: "server_error"}
}

func unsupported(format string, args ...any) *failure {
	return &failure{Code: http.StatusNotImplemented, Message: fmt.Sprintf(format, args...), Type: "not_supported_error"}
}

func overflow(tokens, context int) *failure {
	f := invalid("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", tokens, context)
	f.Type, f.PromptTokens, f.Context = "exceed_context_size_error", tokens, context
	return f
}

var (
	loading      = &failure{Code: http.StatusServiceUnavailable, Message: "Loading model", Type: "unavailable_error"}
	unauthorised = &failure{Code: http.StatusUnauthorized, Message: "Invalid API Key", Type: "authentication_error"}
	notFound     = &failure{Code: http.StatusNotFound, Message: "File Not Found", Type: "not_found_error"}
	noSlot       = &failure{Code: http.StatusServiceUnavailable, Message: "no slot available", Type: "unavailable_error"}
)

func writeFailure(w http.ResponseWriter, f *failure) {
	writeJSON(w, f.Code, map[string]any{"error": f})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(encode(v), '\n')) // the client left: there is nobody to tell
}

// encode writes JSON without the escapes that are meant for HTML. All values are ours.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
