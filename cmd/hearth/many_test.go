package main

import (
	"bytes"

	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"
)

// manyName is the name under which the test binary runs one command after the other: those of a script that are not
// about processes. With the race detector the start of one takes longer than what it does.
const manyName = "hearth-many"

// result is how a command ended.
type result struct {
	Code     int
	Out, Err string
}

// many runs the commands that come as JSON lists of arguments.
func many() {
	in := jsontext.NewDecoder(os.Stdin)
	for {
		var args []string
		if err := json.UnmarshalDecode(in, &args); err != nil { // the script is over
			return
		}
		var out, errs bytes.Buffer
		code := run(args, streams{strings.NewReader(""), &out, &errs})
		if err := json.MarshalWrite(os.Stdout, result{code, out.String(), errs.String()}); err != nil {
			panic(err)
		}
	}
}

// process runs the commands of one script.
type process struct {
	in  io.WriteCloser
	out *jsontext.Decoder
}

type processKey struct{}

// command runs "hearth args..." in the process of the script, which is started for the first of them, in the script's
// directory.
func command(ts *testscript.TestScript, args []string) (r result) {
	p := ts.Value(processKey{}).(*process)
	if p.in == nil {
		cmd := exec.Command(manyName)
		cmd.Dir, cmd.Env, cmd.Stderr = ts.MkAbs("."), environment(ts), os.Stderr
		in, err := cmd.StdinPipe()
		ts.Check(err)
		out, err := cmd.StdoutPipe()
		ts.Check(err)
		ts.Check(cmd.Start())
		p.in, p.out = in, jsontext.NewDecoder(out)
		ts.Defer(func() {
			_ = in.Close()
			_ = cmd.Wait() // how it ends is nobody's business: what it said was read
		})
	}
	ts.Check(json.MarshalWrite(p.in, args))
	ts.Check(json.UnmarshalDecode(p.out, &r))
	return r
}

// environment is what a command of a script sees.
func environment(ts *testscript.TestScript) []string {
	return []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "TZ=UTC", "GORACE=" + ts.Getenv("GORACE")}
}

// scriptRuns runs one command like "exec hearth", but without a process of its own.
func scriptRuns(ts *testscript.TestScript, neg bool, args []string) {
	r := command(ts, args)
	_, _ = io.WriteString(ts.Stdout(), r.Out)
	_, _ = io.WriteString(ts.Stderr(), r.Err)
	if neg != (r.Code != 0) {
		ts.Fatalf("hearth %s ends with %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
}
