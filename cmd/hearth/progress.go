package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a command has come, on a terminal. The zero value shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// progressOf shows progress on w, unless w is no terminal or what the command prints goes to one too: there the two would
// run into each other.
func progressOf(w, out io.Writer, what string, rows int) progress {
	return progressIn(w, out, what, rows, "records")
}

// progressIn is progressOf for things that are no records.
func progressIn(w, out io.Writer, what string, rows int, things string) progress {
	if !screenOf(w).terminal || screenOf(out).terminal {
		return progress{}
	}
	return progress{progressbar.NewOptions(rows, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(things),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

// tick says that so many further rows were gone through.
func (p progress) tick(rows int) {
	if p.bar != nil {
		_ = p.bar.Add(rows) // a terminal that is gone needs no bar
	}
}

// end takes the bar away.
func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
