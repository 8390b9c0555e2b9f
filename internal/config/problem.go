package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing wrong with a configuration file, or worth a second look. It never holds a secret.
type Problem struct {
	File    string // as given to Load or Parse
	Line    int    // 1 is the first, 0 = unknown
	Path    string // the key, as in providers[1].models[0].price.prompt; "" = the whole file
	Message string // what is wrong, to be read after the path
	Remedy  string // what to do about it
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		b.WriteString(":" + strconv.Itoa(p.Line))
	}
	if p.File != "" || p.Line > 0 {
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Problems is the error of a configuration that cannot be used: everything that is wrong with it, in file order.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// origin remembers where the values of a Config came from.
type origin struct {
	file    string
	places  map[string]place // by path; a path is there if the file has the key
	literal map[string]bool  // paths of secrets that stand in the file itself
}

// place is where something stands in the file, from 1.
type place struct{ line, column int }

// given says whether the file has the key.
func (o *origin) given(path string) bool { return o.places[path].line > 0 }

// place finds where a path stands, or the nearest thing around it.
func (o *origin) place(path string) place {
	for ; path != ""; path = parent(path) {
		if at := o.places[path]; at.line > 0 {
			return at
		}
	}
	return place{}
}

func (o *origin) line(path string) int { return o.place(path).line }

// parent cuts the last step off a path.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

// join adds a key to a path. Keys that would be hard to read in a path are quoted, long ones are not shown.
func join(path, key string) string {
	simple := key != ""
	for _, r := range key {
		simple = simple && (r == '_' || r == '-' || r == '/' || r == ':' || r >= '0' && r <= '9' || r|32 >= 'a' && r|32 <= 'z')
	}
	switch {
	case len(key) > maxShown:
		return path + "[…]"
	case !simple:
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// maxShown bounds every piece of the file that a problem repeats, in bytes.
const maxShown = 64

// quote repeats a value of the file that is not a secret; a long one is left out.
func quote(s string) string {
	if len(s) > maxShown {
		return "the value"
	}
	return strconv.Quote(s)
}

// report collects problems. One mistake is reported once: what lies on or below a path that already has a
// problem is left out.
type report struct {
	origin
	list Problems
	bad  map[string]bool
}

func (r *report) add(path, message, remedy string) {
	for p := path; p != ""; p = parent(p) {
		if r.bad[p] {
			return
		}
	}
	r.bad[path] = true
	r.list = append(r.list, Problem{File: r.file, Line: r.line(path), Path: path, Message: message, Remedy: remedy})
}

// err is the report as an error, nil if there is nothing to say.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	r.sort()
	return r.list
}

func (r *report) sort() {
	slices.SortStableFunc(r.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(r.place(a.Path).column, r.place(b.Path).column))
	})
}
