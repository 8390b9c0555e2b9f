package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse feeds any text, alone and around a sound file full of secrets. Nothing may panic, no problem may show a
// secret, and what is accepted must make a catalog.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, exampleFile) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 4000 {
			f.Add(string(data), "")
		}
		f.Add("", string(data))
	}
	f.Add("a: \"", "\nb: '")
	f.Add("x: &a\n  ", "y: *a\nz: {<<: *a}\n")
	const secret = "hunter2-k9X"
	getenv := func(name string) (string, bool) { return secret, !strings.HasPrefix(name, "N") }
	readFile := func(name string) ([]byte, error) {
		if strings.Contains(name, "n") {
			return nil, fmt.Errorf("open %s: %s", name, secret)
		}
		return []byte(secret), nil
	}
	const sound = `
providers:
  - slug: acme
    base_url: https://acme.example/v1
    api_key: ` + secret + `
    headers: {X-Team: "` + secret + `"}
  - slug: other
    base_url: https://${env:SECRET}.example/v1
    api_key_file: key
nodes:
  - name: gpu-1
    slots:
      - {name: a, model: x/a, command: [engine, "${env:SECRET}", "${port}"], env: {TOKEN: ` + secret + `}}
`
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, secret) {
			t.Skip("the input holds the secret itself: of course a message may show it")
		}
		for _, text := range []string{before + after, before + sound + after} {
			c, err := Parse("hearth.yaml", []byte(text), getenv, readFile)
			if err != nil {
				var problems Problems
				if !errors.As(err, &problems) || len(problems) == 0 {
					t.Fatalf("the error is no Problems: %v", err)
				}
				if strings.Contains(err.Error(), secret) {
					t.Fatalf("a problem shows the secret: %v\n%s", err, text)
				}
				continue
			}
			if _, err := c.Catalog(); err != nil {
				t.Fatalf("accepted, but no catalog: %v\n%s", err, text)
			}
			for _, w := range c.Warnings() {
				if strings.Contains(w.String(), secret) {
					t.Fatalf("a warning shows the secret: %s", w)
				}
			}
		}
	})
}
