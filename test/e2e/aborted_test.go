package e2e

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestRealAborted: a caller who leaves a real engine in the middle of an answer pays for what it had made by then.
func TestRealAborted(t *testing.T) {
	t.Parallel()
	g := startReal(t, realWorld{gemma: []string{"-loop"}, gemmaArgs: []string{"--token-delay", "20ms"}})
	g.served(g.chat(ask(gemma, `, "max_tokens": 1`)), local, gemma)
	resp := g.open("POST", "/chat/completions", ask(gemma, onlyLocal+`, "stream": true`))
	id := resp.Header.Get("X-Generation-Id")
	var got strings.Builder
	for piece := make([]byte, 512); strings.Count(got.String(), "data: ") < 6; {
		n, err := resp.Body.Read(piece)
		if err != nil {
			t.Fatal(err, got.String())
		}
		got.Write(piece[:n])
	}
	resp.Body.Close()
	if text := got.String(); strings.Contains(text, "timings") || strings.Contains(text, `"usage"`) {
		t.Errorf("counts are passed on that nobody asked for: %s", text)
	}
	var said struct {
		Data struct {
			Cancelled  bool    `json:"cancelled"`
			Source     string  `json:"usage_source"`
			Prompt     int     `json:"native_tokens_prompt"`
			Completion int     `json:"native_tokens_completion"`
			Cost       float64 `json:"total_cost"`
			Unbilled   int     `json:"unbilled_events"`
		} `json:"data"`
	}
	g.until("the record is there", func() bool {
		r := g.call("GET", "/generation?id="+id, "")
		return r.status == 200 && json.Unmarshal([]byte(r.body), &said) == nil
	})
	d := said.Data
	if !d.Cancelled || d.Source != "upstream" || d.Prompt == 0 || d.Completion < 5 || d.Cost == 0 || d.Unbilled != 0 {
		t.Errorf("record %+v after\n%s", d, got.String())
	}
}
