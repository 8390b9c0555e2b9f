package config

import (
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/configuration.md")

// testEnv is the environment of the files under testdata.
var testEnv = only(map[string]string{"ACME_API_KEY": "sk-env-secret", "EMPTY": ""})

// TestBad holds for every testdata/*.bad.yaml what is said about it, to the letter.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) < 90 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bad.yaml")
		t.Run(strings.ReplaceAll(name, "-", " "), func(t *testing.T) {
			_, err := Load(file, testEnv)
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, want Problems", err)
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".bad.yaml") + ".problems"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			for _, secret := range []string{"sk-", "bob", "pw@"} {
				if strings.Contains(got, secret) && !strings.Contains(got, "sk-myip-") {
					t.Errorf("a problem shows %q:\n%s", secret, got)
				}
			}
			if !slices.IsSortedFunc(problems, func(a, b Problem) int { return a.Line - b.Line }) {
				t.Errorf("not in file order:\n%s", got)
			}
		})
	}
}

// elsewhere are messages that no small file can provoke; each has a test of its own.
var elsewhere = []string{
	"grows too large through its aliases", "names a file larger than 64 KiB", "cannot be read here",
	"permission denied", "is larger than 1 MiB", "has more than %d words and signs",
}

// TestBadCoversEveryMessage finds the messages in the source and wants each in a golden file.
func TestBadCoversEveryMessage(t *testing.T) {
	goldens, err := filepath.Glob("testdata/*.problems")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, g := range goldens {
		text, err := os.ReadFile(g)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	messages := sourceMessages(t)
	if len(messages) < 80 {
		t.Fatalf("found only %d messages in the source", len(messages))
	}
	verb := regexp.MustCompile(`%[a-z]`)
	for _, m := range messages {
		if slices.Contains(elsewhere, m) {
			continue
		}
		for _, piece := range verb.Split(m, -1) {
			if !strings.Contains(all.String(), strings.TrimSpace(piece)) {
				t.Errorf("no golden file has the message %q", m)
			}
		}
	}
}

// sourceMessages lists the first text of the message of every problem that reading a file can report.
func sourceMessages(t *testing.T) []string {
	t.Helper()
	var found []string
	note := func(e ast.Expr) {
		ast.Inspect(e, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && len(text) > 1 {
					found = append(found, text)
				}
				return false
			}
			return true
		})
	}
	for _, name := range []string{"syntax.go", "decode.go", "scalar.go", "load.go", "check.go", "check_places.go", "check_declared.go", "check_address.go", "check_nodes.go", "devices.go", "hours.go", "check_engine.go", "prices.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if s, ok := x.Fun.(*ast.SelectorExpr); ok && len(x.Args) > 2 {
					switch s.Sel.Name {
					case "add":
						note(x.Args[1])
					case "matches":
						note(x.Args[3])
					}
				}
			case *ast.CompositeLit:
				id, ok := x.Type.(*ast.Ident)
				if !ok || len(x.Elts) == 0 {
					break
				}
				if id.Name == "fault" {
					note(x.Elts[0])
				}
				for _, e := range x.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok && id.Name == "Problem" {
						if k, ok := kv.Key.(*ast.Ident); ok && k.Name == "Message" {
							note(kv.Value)
						}
					}
				}
			}
			return true
		})
	}
	return found
}
