package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

// mayfly is the process of an engine that ends at once when the first chat request comes to it: the first of those that are
// given the same file.
func mayfly(port, model, mark string) int {
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	e := engine.New(engine.Config{Model: model, APIKey: hearth.Secret(os.Getenv("LLAMA_API_KEY"))})
	srv := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			if _, err := os.Stat(mark); errors.Is(err, fs.ErrNotExist) {
				_ = os.WriteFile(mark, nil, 0o600)
				os.Exit(1)
			}
		}
		e.ServeHTTP(w, r)
	})}
	if err := srv.Serve(ln); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// TestNode_EngineDies: a request with which an engine ends before it could do anything about it has the next engine, at
// another machine as at this one.
func TestNode_EngineDies(t *testing.T) {
	t.Parallel()
	const tries = 6 // an engine that takes its time to end, on a busy machine, may have died of the request
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var near, there, far strings.Builder
	dir := t.TempDir()
	slots := func(b *strings.Builder, where string) {
		for i := range tries {
			model := fmt.Sprintf("%s/fly-%d", where, i)
			line, err := json.Marshal([]string{program, "mayfly", "${port}", model, filepath.Join(dir, fmt.Sprint(where, i))})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(b, "      - {name: %s-%d, model: %s, command: %s, concurrency: 1, stop_grace: 100ms%s}\n", where, i, model, line,
				map[string]string{"near": ", price: {prompt: 1, completion: 1}"}[where])
			if where == "far" {
				fmt.Fprintf(&far, "      - {name: far-%d, model: %s, concurrency: 1, price: {prompt: 1, completion: 1}}\n", i, model)
			}
		}
	}
	slots(&near, "near")
	slots(&there, "far")
	url := startNode(t, there.String())
	w := startWorld(t, "", "  - name: gpu-2\n", fmt.Sprintf(`  - name: far
    url: %q
    token: node-token-0123456789abcdef0123456789
    slots:
%s  - name: near
    exclusive: false
    slots:
%s  - name: gpu-2
`, url, far.String(), near.String()))
	w.untilSlots("the machine is known", `"remote":true,"state":"asleep"`)
	var slow []string
	for where, want := range map[string]string{"near": "<nil> <nil>", "far": "slot_failed slot_failed"} {
		got, all := []string{}, []string{"a second try"}
		for i := 0; i < tries && !slices.Equal(got, all); i++ {
			model := fmt.Sprintf("%s/fly-%d", where, i)
			r := w.chat(ask(model, ""))
			got = responses(w.generation(r.header.Get("X-Generation-Id"), w.user).record(t))
			at := "local-gpu/" + where + ":" + model
			all = []string{at + " " + want, at + " 200 <nil>"}
		}
		switch {
		case slices.Equal(got, all):
		case len(got) == 1:
			t.Logf("%s: %q", where, got)
			slow = append(slow, where)
		default:
			t.Errorf("%s: %q", where, got)
		}
	}
	if len(slow) > 0 {
		t.Skipf("in none of %d tries did an engine of %q end within 100 ms, so that each may have died of its request: the machine is too busy", tries, slow)
	}
}
