// Command ci reads what "go test -json" prints and shows what a person wants of it: go test's own closing line
// of every package, the whole output of what failed, every skipped test with its reason, and the sums.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	ok, err := show(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "read test events:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of test2json; a build's output comes as build-output with ImportPath.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// show returns false when a test failed or none ran.
func show(in io.Reader, out io.Writer) (bool, error) {
	var passed, failed, skipped int
	packageFailed := false
	output := map[string]*strings.Builder{} // package and test → what it printed
	var skips []string
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(out, "%s", line) // go's own words, such as a missing module
				continue
			}
			key := e.Package + " " + e.Test
			switch {
			case e.Action == "build-output":
				fmt.Fprint(out, e.Output)
			case e.Action == "output":
				if output[key] == nil {
					output[key] = &strings.Builder{}
				}
				output[key].WriteString(e.Output)
				if e.Test == "" && closing(e.Output) {
					fmt.Fprint(out, e.Output)
				}
			case e.Test == "":
				if e.Action == "fail" {
					packageFailed = true
					for _, key := range unfinished(output, e.Package) {
						fmt.Fprint(out, printed(output[key]))
					}
					fmt.Fprint(out, printed(output[key]))
				}
			case e.Action == "pass":
				passed++
				delete(output, key)
			case e.Action == "fail":
				failed++
				fmt.Fprint(out, printed(output[key]))
				delete(output, key)
			case e.Action == "skip":
				skipped++
				skips = append(skips, fmt.Sprintf("skipped: %s: %s", key, reason(printed(output[key]))))
				delete(output, key)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
	}
	for _, s := range skips {
		fmt.Fprintln(out, s)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return failed == 0 && !packageFailed && passed > 0, nil
}

// unfinished are the tests of a package that printed something and came to no end: a panic took them all, and what it said
// stands with one of them.
func unfinished(output map[string]*strings.Builder, pkg string) []string {
	var keys []string
	for key := range output {
		if test, ok := strings.CutPrefix(key, pkg+" "); ok && test != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func printed(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

// closing says whether a line of a package is go test's verdict on it. The line of a failed package comes again
// with the rest of its output; seeing it twice does no harm.
func closing(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

// reason joins what a skipped test printed, without go test's own lines.
func reason(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- SKIP") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
