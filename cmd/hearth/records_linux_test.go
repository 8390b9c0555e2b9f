package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// The progress is shown on a terminal, and only while the records go elsewhere.
func TestExport_Progress(t *testing.T) {
	h := newHouse(t)
	var list []*hearth.Generation
	for i := range 1200 {
		list = append(list, answered(fmt.Sprint("gen-", i), "key-1", "local-gpu", "a/b", time.Date(2026, 11, 30, 0, 0, i, 0, seoul)))
	}
	h.record(t, list...)
	args := []string{"records", "export", "-c", h.config}
	t.Run("records go elsewhere", func(t *testing.T) {
		var out bytes.Buffer
		shown := withTerminal(t, 100, func(tty *os.File) { run(args, streams{strings.NewReader(""), &out, tty}) })
		if !strings.Contains(shown, "exporting") || !strings.Contains(shown, "/1200") {
			t.Errorf("shown %q", shown)
		}
		if n := strings.Count(out.String(), "\n"); n != 1200 {
			t.Errorf("%d records", n)
		}
	})
	t.Run("records go to the terminal", func(t *testing.T) {
		shown := withTerminal(t, 100, func(tty *os.File) { run(args, streams{strings.NewReader(""), tty, tty}) })
		if strings.Contains(shown, "exporting") || strings.Count(shown, "\n") != 1200 {
			t.Errorf("shown %.300q", shown)
		}
	})
}
