package hearth_test

import (
	"strings"
	"testing"
	"testing/fstest"
)

// Each rule of layers_test.go is shown a small tree that breaks it, and the same tree put right.

func treeOf(t *testing.T, files map[string]string) *tree {
	t.Helper()
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	src, err := scan(m)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func lines(n int) string { return strings.Repeat("\n", n) }

func TestLayerRules(t *testing.T) {
	table := map[string][]string{"internal/a": {"internal/b"}, "internal/b": {}}
	libs := checkLibraries(map[string][]string{"lib.dev/yaml": {"internal/a"}}, []string{"lib.dev/cmp"},
		map[string][]string{"encoding/json": {}, "database/sql": {"internal/b"}})
	yaml := "package a\nimport _ \"lib.dev/yaml/ast\""
	for _, c := range []struct {
		name  string
		check func(*tree) []finding
		files map[string]string
		want  string // "" = no finding; else the one finding
	}{
		{"import outside the table", checkImports(table),
			map[string]string{"internal/b/b.go": "package b\nimport _ \"" + module + "/internal/a\""},
			"internal/b/b.go: may not import internal/a"},
		{"import in the table", checkImports(table),
			map[string]string{"internal/a/a.go": "package a\nimport _ \"" + module + "/internal/b\"\nimport _ \"" + module + "\""}, ""},
		{"import by a test", checkImports(table),
			map[string]string{"internal/b/b_test.go": "package b\nimport _ \"" + module + "/internal/a\""}, ""},
		{"import by a nested module", checkImports(table),
			map[string]string{"x/go.mod": "module x", "x/y/y.go": "package y\nimport _ \"" + module + "/internal/a\""}, ""},
		{"package without a row", checkImports(table),
			map[string]string{"internal/c/c.go": "package c"}, "internal/c/c.go: package has no row in the import table"},
		{"root imports what works", checkImports(table),
			map[string]string{"a.go": "package hearth\nimport _ \"" + module + "/internal/a\""}, "a.go: may not import internal/a"},
		{"root imports a library", checkRoot,
			map[string]string{"a.go": "package hearth\nimport _ \"lib.dev/yaml\""}, "a.go: the nouns may not import lib.dev/yaml"},
		{"root imports decimal", checkRoot,
			map[string]string{"a.go": "package hearth\nimport _ \"github.com/shopspring/decimal\"\nimport _ \"net/http\""}, ""},

		{"library at home", libs, map[string]string{"internal/a/a.go": yaml}, ""},
		{"library away from home", libs,
			map[string]string{"internal/a/a.go": yaml, "internal/b/b.go": "package b\nimport _ \"lib.dev/yaml\""},
			"internal/b/b.go: lib.dev/yaml is at home in internal/a only"},
		{"library with a longer name", libs,
			map[string]string{"internal/a/a.go": yaml, "internal/a/c.go": "package a\nimport _ \"lib.dev/yaml2\""},
			"internal/a/c.go: lib.dev/yaml2 has no home: give it one and a reason in docs/adr"},
		{"home that nothing uses", libs, map[string]string{"internal/a/a.go": "package a"},
			"lib.dev/yaml: has a home in internal/a where nothing uses it"},
		{"test library in a test", libs,
			map[string]string{"internal/a/a.go": yaml, "internal/b/b_test.go": "package b\nimport _ \"lib.dev/cmp/cmp\""}, ""},
		{"test library outside tests", libs,
			map[string]string{"internal/a/a.go": yaml, "internal/b/b.go": "package b\nimport _ \"lib.dev/cmp/cmp\""},
			"internal/b/b.go: lib.dev/cmp/cmp is for tests only"},
		{"forbidden part of the standard library", libs,
			map[string]string{"internal/a/a.go": yaml, "internal/b/b.go": "package b\nimport _ \"encoding/json/v2\""},
			"internal/b/b.go: may not import encoding/json/v2"},
		{"narrowed part of the standard library at home", libs,
			map[string]string{"internal/a/a.go": yaml, "internal/b/b.go": "package b\nimport _ \"database/sql/driver\""}, ""},

		{"long file", checkFileSize, map[string]string{"a_test.go": "package a" + lines(maxFileLines+1)},
			"a_test.go: 401 lines, 400 are enough"},
		{"file of the greatest length", checkFileSize, map[string]string{"a.go": "package a" + lines(maxFileLines)}, ""},
		{"long function", checkFuncSize, map[string]string{"a.go": "package a\nfunc F() {" + lines(maxFuncLines) + "}"},
			"a.go:F: 61 lines, 60 are enough"},
		{"long method of a generic type", checkFuncSize, map[string]string{"a.go": "package a\nfunc (t *T[K, V]) F() {" + lines(maxFuncLines) + "}"},
			"a.go:T.F: 61 lines, 60 are enough"},
		{"function of the greatest length", checkFuncSize, map[string]string{"a.go": "package a\nfunc F() {" + lines(maxFuncLines-1) + "}"}, ""},

		{"sleep in a test", checkSleep, map[string]string{"a_test.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }"},
			"a_test.go:3:12: wait for what you wait for, or use testing/synctest"},
		{"sleep by another name", checkSleep, map[string]string{"a_test.go": "package a\nimport clock \"time\"\nvar nap = clock.Sleep"},
			"a_test.go:3:11: wait for what you wait for, or use testing/synctest"},
		{"sleep without a name", checkSleep, map[string]string{"a_test.go": "package a\nimport . \"time\"\nvar nap = Sleep"},
			"a_test.go:3:11: wait for what you wait for, or use testing/synctest"},
		{"sleep in a test of a nested module", checkSleep,
			map[string]string{"x/go.mod": "module x", "x/a_test.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }"},
			"x/a_test.go:3:12: wait for what you wait for, or use testing/synctest"},
		{"sleep outside tests", checkSleep, map[string]string{"a.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }"}, ""},
		{"another Sleep", checkSleep, map[string]string{"a_test.go": "package a\nimport \"time\"\nvar _ = time.Now\nfunc f() { slot.Sleep() }"}, ""},

		{"package that says nothing", checkPackageNames, map[string]string{"internal/utils/a.go": "package text"},
			`internal/utils/a.go: "utils" says nothing: name the package after what it provides`},
		{"package clause that says nothing", checkPackageNames, map[string]string{"internal/text/a_test.go": "package helpers_test"},
			`internal/text/a_test.go: "helpers" says nothing: name the package after what it provides`},
		{"Get prefix", checkGetPrefix, map[string]string{"a.go": "package a\nfunc (t *T) GetModel() {}"}, "a.go:T.GetModel: call it Model"},
		{"a word that begins with Get", checkGetPrefix, map[string]string{"a.go": "package a\nfunc Getaway() {}\nfunc Get() {}"}, ""},
		{"no package comment", checkPackageDoc, map[string]string{"a/a.go": "// Something else.\npackage a", "a/a_test.go": "// Package a is tested.\npackage a"},
			`a: no file begins with a "Package …" comment`},
		{"package comment", checkPackageDoc, map[string]string{"a/a.go": "// Package a is a letter.\npackage a", "a/b.go": "package a"}, ""},
		{"no test", checkPackageTest, map[string]string{"a/a.go": "package a", "a/a_test.go": "package a\nimport \"testing\"\nfunc TestMain(m *testing.M) {}"},
			"a: has no test"},
		{"a test", checkPackageTest, map[string]string{"a/a.go": "package a", "a/a_test.go": "package a\nimport \"testing\"\nfunc FuzzA(f *testing.F) {}"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, c.check(treeOf(t, c.files)), c.want)
		})
	}
}

func expect(t *testing.T, got []finding, want string) {
	t.Helper()
	if want == "" && len(got) > 0 {
		t.Errorf("found %v in a tree that breaks no rule", got)
	}
	if want != "" && (len(got) != 1 || got[0].String() != want) {
		t.Errorf("found %v, want %q", got, want)
	}
}

func TestLayerAllowLists(t *testing.T) {
	long := map[string]string{"a.go": "package a" + lines(maxFileLines+1)}
	for _, c := range []struct {
		name  string
		allow map[string]string
		want  string
	}{
		{"no line", nil, "a.go: 401 lines, 400 are enough"},
		{"a line with a reason", map[string]string{"a.go": "a table that reads best in one piece"}, ""},
		{"a line without a reason", map[string]string{"a.go": " "}, "a.go: the allow-list gives no reason"},
		{"a line too much", map[string]string{"a.go": "a table", "b.go": "was long once"}, "b.go: the allow-list has a line for it, and it needs none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, judge(rule{"files are short", checkFileSize, c.allow}, treeOf(t, long)), c.want)
		})
	}
}

func TestLayerCycle(t *testing.T) {
	if c := cycle(map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}); strings.Join(c, " ") != "b c d b" {
		t.Errorf("cycle = %v, want b c d b", c)
	}
	if c := cycle(map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": {}}); c != nil {
		t.Errorf("cycle = %v in a table that has none", c)
	}
}
