package main

import (
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptShows runs a command again and again until its standard output matches.
func scriptShows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: shows REGEXP args...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var last result
	err = poll(func() bool {
		last = command(ts, args[1:])
		return last.Code == 0 && want.MatchString(last.Out)
	})
	if err != nil {
		ts.Fatalf("hearth %s never shows %q but\n%s%s", strings.Join(args[1:], " "), args[0], last.Out, last.Err)
	}
}

// scriptAwaits looks at a file again and again until it matches.
func scriptAwaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaits FILE REGEXP")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	err = poll(func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0])) // it may not be there yet
		return want.Match(text)
	})
	if err != nil {
		ts.Fatalf("%s never holds %q but\n%s", args[0], args[1], text)
	}
}

// scriptMurder ends a process that "start" began, without a word.
func scriptMurder(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: murder NAME")
	}
	running(ts)[args[0]].kill()
}

// scriptPrints runs a command in this process, which is quicker. It knows nothing of the script's directory and variables.
func scriptPrints(ts *testscript.TestScript, neg bool, args []string) {
	if code := run(args, streams{strings.NewReader(""), ts.Stdout(), ts.Stderr()}); neg != (code != 0) {
		ts.Fatalf("hearth %s ends with %d", strings.Join(args, " "), code)
	}
}
