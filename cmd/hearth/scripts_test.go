package main

import (
	"bytes"
	"os"
	"os/exec"
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
	var out, errs bytes.Buffer
	err = poll(func() bool {
		out.Reset()
		errs.Reset()
		cmd := exec.Command("hearth", args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), &out, &errs
		cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "TZ=UTC", "GORACE=" + ts.Getenv("GORACE")}
		return cmd.Run() == nil && want.Match(out.Bytes())
	})
	if err != nil {
		ts.Fatalf("hearth %s never shows %q but\n%s%s", strings.Join(args[1:], " "), args[0], out.String(), errs.String())
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
