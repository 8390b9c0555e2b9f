package node

import "testing"

func TestSplit(t *testing.T) {
	for path, want := range map[string][2]string{
		"/v1/slots/gemma/v1/chat/completions": {"gemma", "/v1/chat/completions"},
		"/v1/slots/gemma/log":                 {"gemma", "/log"},
		"/v1/slots/a b/tokenize":              {"a b", "/tokenize"},
		"/v1/slots/../v1/chat/completions":    {"..", "/v1/chat/completions"},
		"/v1/slots/gemma//v1/chat":            {"gemma", "//v1/chat"},
		"/v1/slots/gemma":                     {},
		"/v1/slots//v1/chat/completions":      {},
		"/v1/slotsx/a/b":                      {},
		"/":                                   {},
	} {
		slot, route, ok := split(path)
		if ok != (want[0] != "") || ok && (slot != want[0] || route != want[1]) {
			t.Errorf("%s: %q %q %v", path, slot, route, ok)
		}
	}
}
