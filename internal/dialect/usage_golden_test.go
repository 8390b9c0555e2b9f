package dialect

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// payload is a file of testdata/usage: what an upstream sends, line by line, under what its maker says of its counts.
type payload struct {
	vendor            string
	cached, reasoning string // whether prompt includes cached tokens, and completion reasoning ones
	running           hearth.Running
	lines             []string
}

func readPayload(t *testing.T, file string) (p payload) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := map[string]hearth.Running{"usage": hearth.RunningUsage, "timings": hearth.RunningTimings}
	source := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		head, comment := strings.CutPrefix(lines.Text(), "# ")
		key, value, _ := strings.Cut(head, ": ")
		switch {
		case !comment:
			p.lines = append(p.lines, head)
		case key == "vendor":
			p.vendor = value
		case key == "prompt includes cached":
			p.cached = value
		case key == "completion includes reasoning":
			p.reasoning = value
		case key == "running":
			p.running = known[value]
		case key == "source":
			source = true
		default:
			t.Errorf("unknown heading %q", key)
		}
	}
	if p.vendor == "" || p.cached == "" || p.reasoning == "" || !source || len(p.lines) == 0 {
		t.Errorf("incomplete: %+v", p)
	}
	return p
}

// said is a usage in one line.
func said(u hearth.Usage, running bool) string {
	if !u.Reported {
		return "-"
	}
	s := fmt.Sprintf("prompt %d (%d cached, %d written), completion %d (%d reasoning)",
		u.PromptTokens, u.CachedTokens, u.CacheWriteTokens, u.CompletionTokens, u.ReasoningTokens)
	if u.Cost != "" {
		s += ", cost " + u.Cost
	}
	if running {
		s += ", so far"
	}
	return s
}

// counts is what comes of the payload, line by line.
func (p *payload) counts(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	s := stamp()
	s.Running = p.running
	for _, l := range p.lines {
		kind, body, _ := strings.Cut(l, " ")
		var u hearth.Usage
		running := false
		switch kind {
		case "chunk":
			b, c, err := s.AppendChunk(nil, []byte(body))
			if err != nil || c.Err != nil {
				t.Fatal(err, c.Err)
			}
			if len(b) > 0 {
				if keys, _ := members(t, b); slices.Contains(keys, "timings") || slices.Contains(keys, "usage") {
					t.Errorf("counts are passed on that nobody asked for: %s", b)
				}
			}
			u, running = c.Usage, c.Running
		case "whole":
			a, err := ReadAnswer([]byte(body))
			if err != nil || a.Err != nil {
				t.Fatal(err, a.Err)
			}
			u = a.Usage
		default:
			t.Fatalf("unknown line %q", kind)
		}
		if u.Reported && !u.Valid() {
			t.Errorf("counts that cannot be: %+v", u)
		}
		fmt.Fprintf(&out, "%s: %s\n", kind, said(u, running))
	}
	return out.Bytes()
}

// TestUsage_payloads: what every upstream sends comes to one meaning.
func TestUsage_payloads(t *testing.T) {
	files, err := filepath.Glob("testdata/usage/*.txt")
	if err != nil || len(files) < 18 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".txt")
		t.Run(filepath.Base(name), func(t *testing.T) {
			p := readPayload(t, file)
			got := p.counts(t)
			if *update {
				if err := os.WriteFile(name+".golden", got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestUsage_manual: the manual says of every upstream what its payloads here say.
func TestUsage_manual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/money.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(manual), "\n| upstream |")
	rows := map[string][2]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		if name := strings.TrimSpace(cells[1]); !strings.HasPrefix(name, "---") {
			rows[name] = [2]string{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
		}
	}
	files, err := filepath.Glob("testdata/usage/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][2]string{}
	for _, file := range files {
		p := readPayload(t, file)
		told[p.vendor] = [2]string{p.cached, p.reasoning}
	}
	if d := cmp.Diff(told, rows); d != "" {
		t.Errorf("payloads and manual differ (-payloads +manual):\n%s", d)
	}
}
