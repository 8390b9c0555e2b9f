package server

import (
	"net/http"
	"strings"

	"myip.co.kr/hearth/test/engine/llm"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// models lists the one model, in the forms of OpenAI and of Ollama.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	f := s.model.Facts()
	aliases := []string{}
	for a := range strings.SplitSeq(s.conf.Alias, ",") {
		if a = strings.TrimSpace(a); a != "" {
			aliases = append(aliases, a)
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"models": []any{map[string]any{"name": s.conf.name(), "model": s.conf.name(), "type": "model", "capabilities": []string{"completion"}}},
		"object": "list",
		"data": []any{map[string]any{
			"id": s.conf.name(), "aliases": aliases, "tags": []string{}, "object": "model", "created": s.created.Unix(), "owned_by": "llamacpp",
			"meta": map[string]any{"n_vocab": f.Vocabulary, "n_ctx": s.model.Window(), "n_ctx_train": f.Trained, "n_embd": f.Embedding,
				"n_params": f.Parameters, "size": f.Bytes, "ftype": f.Format},
		}},
	})
}

func (s *Server) props(w http.ResponseWriter, _ *http.Request) {
	f := s.model.Facts()
	tools := strings.Contains(f.Template, "tools")
	writeJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.model.Window()},
		"total_slots":                 len(s.model.Sequences()),
		"model_alias":                 s.conf.name(),
		"model_path":                  s.conf.Path,
		"modalities":                  map[string]bool{"vision": false, "audio": false, "video": false},
		"chat_template":               f.Template,
		"chat_template_caps":          map[string]bool{"supports_tools": tools, "supports_tool_calls": tools, "supports_parallel_tool_calls": tools},
		"build_info":                  build,
		"is_sleeping":                 false,
	})
}

// slots lists which sequences are at work. They are not told apart: as many as are free come first.
func (s *Server) slots(w http.ResponseWriter, r *http.Request) {
	switch {
	case !s.conf.Slots:
		writeFailure(w, unsupported("This server does not support slots endpoint. Start it with `--slots`"))
		return
	case r.URL.Query().Has("fail_on_no_slot") && len(s.free) == 0:
		writeFailure(w, noSlot)
		return
	}
	free := len(s.free)
	list := []any{}
	for i := range s.model.Sequences() {
		list = append(list, map[string]any{"id": i, "n_ctx": s.model.Window(), "is_processing": i >= free})
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) embeddings(w http.ResponseWriter, _ *http.Request) {
	writeFailure(w, unsupported("This server does not support embeddings. Start it with `--embeddings`"))
}

// applyTemplate makes one text of a chat request.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) {
	q, f := readRequest(r, len(s.model.Sequences()))
	var text string
	if f == nil {
		text, _, f = s.prompt(q)
	}
	if f != nil {
		writeFailure(w, f)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": text})
}

// tokenize cuts a text into tokens.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Content string `json:"content"`
		Special bool   `json:"add_special"`
		Parse   bool   `json:"parse_special"`
	}{Parse: true}
	if f := readJSON(r, &in); f != nil {
		writeFailure(w, f)
		return
	}
	tokens := s.model.Tokenize(in.Content, in.Special, in.Parse)
	if tokens == nil {
		tokens = []llm.Token{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": tokens})
}
