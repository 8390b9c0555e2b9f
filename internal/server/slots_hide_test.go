package server

import (
	"testing"

	"myip.co.kr/hearth"
)

// Engines write down the arguments they were given.
func TestSecretArguments(t *testing.T) {
	stop := &hearth.Action{Command: []string{"stop", "--password", "of-the-stop"}}
	h := concealed(&hearth.Slot{
		Command: []string{
			"vllm", "serve", "--api-key", "sk-in-an-argument", "--hf_token=hf-joined-to-it", "--tokenizer", "the-tokenizer",
			"--api-key-file", "/etc/keyfile", "sort-key", "positional", "--key", "short", "--token",
		},
		Actions: hearth.Actions{Stop: stop},
	})
	for text, want := range map[string]string{
		"api_key: ['sk-in-an-argument']": "api_key: ['[redacted]']",
		"hf-joined-to-it":                "[redacted]",
		"of-the-stop":                    "[redacted]",
		"the-tokenizer":                  "the-tokenizer",
		"/etc/keyfile":                   "/etc/keyfile",
		"positional":                     "positional",
		"short":                          "short",
	} {
		if got := h.text(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
