package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// TestDemo_Lines starts the demo, runs every line that it prints, in order, and checks what the text promises.
func TestDemo_Lines(t *testing.T) {
	t.Parallel()
	t.Run("in Go, with a key of one's own", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, "my-own-key-0123456789", "")
		if strings.Contains(d.text, d.key) || !strings.Contains(d.text, "the key you gave in MYIP_API_KEY") {
			t.Error("the given key is repeated, or not spoken of")
		}
		walkLines(t, d, withGo)
	})
	t.Run("with curl, with the key that is printed", func(t *testing.T) {
		t.Parallel()
		for _, program := range []string{"curl", "grep", "sh"} {
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("%s is not installed; the same lines are run in Go", program)
			}
		}
		walkLines(t, startDemo(t, "", ""), withCurl)
	})
}

const (
	lineStatus = iota
	lineLocal
	lineRecord
	lineInsurance
	lineChain
	lineNeverLocal
	lineNoPatience
	lineFault
	lineStream
	lines
)

func walkLines(t *testing.T, d *demoRun, run runner) {
	list := d.commands()
	if len(list) != lines {
		t.Fatalf("%d lines to try, this test knows %d:\n%s", len(list), lines, strings.Join(list, "\n"))
	}
	if got := run(t, d, list[lineStatus]).body; got != "\"status\":-2\n\"status\":0\n" {
		t.Errorf("1. status before: %q", got)
	}

	local := run(t, d, list[lineLocal])
	id := local.get("X-MyIP-Generation-Id")
	if local.status != 200 || local.get("X-MyIP-Provider") != "MyIP Local GPU" || !strings.HasPrefix(id, "gen-") {
		t.Errorf("2. %+v", local)
	}
	if got := run(t, d, list[lineStatus]).body; got != "\"status\":0\n\"status\":0\n" {
		t.Errorf("1. status afterwards: %q", got)
	}

	record := decode(t, run(t, d, strings.Replace(list[lineRecord], "gen-...", id, 1)).body)["data"].(map[string]any)
	attempts := record["provider_responses"].([]any)
	if record["id"] != id || len(attempts) != 1 || attempts[0].(map[string]any)["status"] != 200.0 {
		t.Errorf("3. record %v", record)
	}

	insured := run(t, d, list[lineInsurance])
	if insured.status != 200 || insured.get("X-MyIP-Model") != "google/gemma-4-26b-a4b" || insured.get("X-MyIP-Provider") != "MyIP Local GPU" {
		t.Errorf("4. %+v", insured)
	}
	checkChain(t, run(t, d, list[lineChain]))

	external := run(t, d, list[lineNeverLocal])
	if cost := decode(t, external.body)["usage"].(map[string]any)["cost"].(float64); external.status != 200 || external.get("X-MyIP-Provider") != "Acme AI" || cost <= 0 {
		t.Errorf("6. %+v, cost %v", external, cost)
	}
	checkPatience(t, d, run, list[lineNoPatience])

	if got := run(t, d, list[lineFault]); got.status != 200 {
		t.Errorf("8. %+v", got)
	}
	stream := run(t, d, list[lineStream])
	checkStream(t, stream)
	checkFaults(t, d, run, list[lineFault])
}

func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return m
}

func checkChain(t *testing.T, s shown) {
	t.Helper()
	var got []string
	for _, c := range decode(t, s.body)["data"].(map[string]any)["candidates"].([]any) {
		c := c.(map[string]any)
		got = append(got, fmt.Sprintf("%v %v %v", c["provider_slug"], c["model"], c["priority"]))
	}
	want := []string{"local-gpu google/gemma-4-26b-a4b 0", "acme google/gemma-4-26b-a4b 50", "local-gpu lgai/exaone-4.0-32b 0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("5. %s", d)
	}
}

// checkPatience: refused at first, and served once the load, which goes on, is done.
func checkPatience(t *testing.T, d *demoRun, run runner, line string) {
	t.Helper()
	s := run(t, d, line)
	after, err := strconv.Atoi(s.get("Retry-After"))
	e, _ := decode(t, s.body)["error"].(map[string]any)
	if s.status != 503 || err != nil || after < 1 || after > 20 || e["type"] != "model_loading" {
		t.Fatalf("7. %+v", s)
	}
	if err := poll(func() bool { s = run(t, d, line); return s.status == http.StatusOK }); err != nil || s.get("X-MyIP-Model") != "lgai/exaone-4.0-32b" {
		t.Errorf("7. afterwards: %+v", s)
	}
}

func checkStream(t *testing.T, s shown) {
	t.Helper()
	if s.status != 200 || s.get("X-MyIP-Provider") != "Beta Cloud" || s.get("Content-Type") != "text/event-stream" {
		t.Errorf("8. %d %v", s.status, s.header)
	}
	events := strings.Split(strings.TrimSuffix(s.body, "\n\n"), "\n\n")
	if len(events) < 3 || events[len(events)-1] != "data: [DONE]" {
		t.Fatalf("8. %q", s.body)
	}
	last := decode(t, strings.TrimPrefix(events[len(events)-2], "data: "))
	usage, _ := last["usage"].(map[string]any)
	choice, _ := last["choices"].([]any)[0].(map[string]any)
	if cost, _ := usage["cost"].(float64); cost <= 0 || choice["finish_reason"] != "stop" {
		t.Errorf("8. last chunk %v", last)
	}
}

// checkFaults: every word that the text offers is understood.
func checkFaults(t *testing.T, d *demoRun, run runner, line string) {
	t.Helper()
	m := regexp.MustCompile(`Break a provider \(([^;]+); none = well again\)`).FindStringSubmatch(d.text)
	if m == nil {
		t.Fatal("the faults are not listed")
	}
	words := append(strings.Split(m[1], ", "), "none")
	if len(words) < 10 {
		t.Errorf("only the faults %v are listed", words)
	}
	for _, w := range words {
		s := run(t, d, strings.Replace(line, `"500"`, `"`+w+`"`, 1))
		if s.status != 200 || decode(t, s.body)["fault"] != w {
			t.Errorf("fault %s: %d %s", w, s.status, s.body)
		}
	}
}
