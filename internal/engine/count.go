package engine

import "net/http"

// tokenize counts a text as llama-server does, or the prompt of a chat request as vLLM does.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Content string `json:"content"`
		question
	}
	f := readJSON(r, &in)
	chat := len(in.Messages) > 0
	if f == nil && chat {
		f = in.check()
	}
	if f == nil {
		f = e.noCount()
	}
	if f != nil {
		writeError(w, f)
		return
	}
	if !chat {
		in.tokens = countTokens(in.Content)
	}
	tokens := make([]int, in.tokens)
	for i := range tokens {
		tokens[i] = i
	}
	if !chat {
		writeJSON(w, http.StatusOK, map[string][]int{"tokens": tokens})
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Count  int   `json:"count"`
		Most   int   `json:"max_model_len"`
		Tokens []int `json:"tokens"`
	}{in.tokens, e.Control().Context, tokens})
}

// applyTemplate makes one text of a chat request.
func (e *Engine) applyTemplate(w http.ResponseWriter, r *http.Request) {
	q, f := readQuestion(r)
	if f == nil {
		f = e.noCount()
	}
	if f != nil {
		writeError(w, f)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": q.template()})
}

// noCount is the answer of an engine that was started without these routes, nil = it has them.
func (e *Engine) noCount() *failure {
	if e.Control().Fault != NoCount {
		return nil
	}
	return &failure{Code: http.StatusNotImplemented, Message: "This server does not support counting tokens.", Type: "not_supported_error"}
}
