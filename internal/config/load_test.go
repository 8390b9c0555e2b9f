package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDataDir(t *testing.T) {
	env := func(name string) (string, bool) { return "/var/lib/" + name, name == "SET" }
	for name, c := range map[string]struct {
		text string
		want string // "" = it cannot be told; relative to the file
		ok   bool
	}{
		"unknown key":           {"nodez: 3\ndata_dir: here # there\n", "here", true},
		"half-written":          {"data_dir: \"here\"\nnodes:\n  - name: \"gpu", "here", true},
		"cut before the line":   {"listen: 127.0.0.1:1\nnod", "hearth-data", true},
		"empty":                 {"", "hearth-data", true},
		"absolute":              {"data_dir: /srv/h\nx: [", "/srv/h", true},
		"variable":              {"data_dir: ${env:SET}\nx: [", "/var/lib/SET", true},
		"variable that is none": {"data_dir: ${env:NONE}\nx: [", "", false},
		"another's key":         {"nodes:\n  data_dir: no\n[", "hearth-data", true},
		"not a text":            {"data_dir: [a]\n", "", false},
		"cut within the line":   {"data_dir: \"he", "", false},
		"on the next line":      {"data_dir:\n  here\n[", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hearth.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			want := c.want
			if c.ok && !filepath.IsAbs(want) {
				want = filepath.Join(filepath.Dir(path), want)
			}
			if got, ok := DataDir(path, env); got != want || ok != c.ok {
				t.Errorf("%q %t, want %q %t", got, ok, want, c.ok)
			}
		})
	}
	if got, ok := DataDir(filepath.Join(t.TempDir(), "none.yaml"), env); ok {
		t.Errorf("a file that is not there: %q", got)
	}
}
