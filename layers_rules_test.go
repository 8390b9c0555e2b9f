package hearth_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// finding is one place that breaks a rule. key is what an allow-list names it by.
type finding struct{ key, text string }

func (f finding) String() string { return f.key + ": " + f.text }

// source is one Go file.
type source struct {
	path, dir string // slash-separated, from the root of the tree
	test      bool
	nested    bool // belongs to a module of its own below the root
	lines     int
	ast       *ast.File
	imports   []string
}

// tree is every Go file below a directory.
type tree struct {
	fset  *token.FileSet
	files []*source
	pkgs  map[string][]*source // directory → its files, nested modules left out
}

func scan(root fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), pkgs: map[string][]*source{}}
	var modules []string
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != "." && (n == "testdata" || n == "vendor" || n[0] == '.' || n[0] == '_') {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(p, "go.mod")); err == nil && p != "." {
				modules = append(modules, p+"/")
			}
			return nil
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		f, err := t.read(root, p)
		if err != nil {
			return err
		}
		f.nested = slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(p, m) })
		t.files = append(t.files, f)
		if !f.nested {
			t.pkgs[f.dir] = append(t.pkgs[f.dir], f)
		}
		return nil
	})
	return t, err
}

func (t *tree) read(root fs.FS, p string) (*source, error) {
	text, err := fs.ReadFile(root, p)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(t.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &source{path: p, dir: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), ast: file,
		lines: bytes.Count(text, []byte("\n"))}
	for _, s := range file.Imports {
		name, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			return nil, err
		}
		f.imports = append(f.imports, name)
	}
	return f, nil
}

// own are the files of this module, with or without its tests.
func (t *tree) own(tests bool) []*source {
	return slices.DeleteFunc(slices.Clone(t.files), func(f *source) bool { return f.nested || f.test && !tests })
}

// judge applies the rule and its allow-list, and reports what the list has too much.
func judge(r rule, t *tree) (out []finding) {
	used := map[string]bool{}
	for _, f := range r.check(t) {
		if _, ok := r.allow[f.key]; ok {
			used[f.key] = true
			continue
		}
		out = append(out, f)
	}
	for _, key := range slices.Sorted(maps.Keys(r.allow)) {
		if !used[key] {
			out = append(out, finding{key, "the allow-list has a line for it, and it needs none"})
		}
		if strings.TrimSpace(r.allow[key]) == "" {
			out = append(out, finding{key, "the allow-list gives no reason"})
		}
	}
	return out
}

func checkImports(table map[string][]string) func(*tree) []finding {
	return func(t *tree) (out []finding) {
		for _, f := range t.own(false) {
			row, ok := table[f.dir]
			if !ok && f.dir != "." {
				out = append(out, finding{f.path, "package has no row in the import table"})
				continue
			}
			for _, imp := range f.imports {
				rel, inside := strings.CutPrefix(imp, module+"/")
				if inside && !slices.Contains(row, rel) {
					out = append(out, finding{f.path, "may not import " + rel})
				}
			}
		}
		return out
	}
}

// cycle finds a path in the table that comes back to where it began.
func cycle(table map[string][]string) []string {
	done := map[string]bool{}
	var walk func(at string, trail []string) []string
	walk = func(at string, trail []string) []string {
		if i := slices.Index(trail, at); i >= 0 {
			return append(slices.Clone(trail[i:]), at)
		}
		if done[at] {
			return nil
		}
		for _, next := range table[at] {
			if c := walk(next, append(trail, at)); c != nil {
				return c
			}
		}
		done[at] = true
		return nil
	}
	for _, at := range slices.Sorted(maps.Keys(table)) {
		if c := walk(at, nil); c != nil {
			return c
		}
	}
	return nil
}

func stdlib(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

func checkRoot(t *tree) (out []finding) {
	for _, f := range t.pkgs["."] {
		for _, imp := range f.imports {
			if !f.test && !stdlib(imp) && imp != "github.com/shopspring/decimal" {
				out = append(out, finding{f.path, "the nouns may not import " + imp})
			}
		}
	}
	return out
}

// within says whether imp is the package lib or lies below it.
func within(imp, lib string) bool { return imp == lib || strings.HasPrefix(imp, lib+"/") }

func checkLibraries(homes map[string][]string, tests []string, std map[string][]string) func(*tree) []finding {
	return func(t *tree) (out []finding) {
		used := map[string]bool{} // "library home"
		for _, f := range t.own(true) {
			for _, imp := range f.imports {
				if within(imp, module) {
					continue
				}
				if why := misplaced(f, imp, homes, tests, std, used); why != "" {
					out = append(out, finding{f.path, why})
				}
			}
		}
		for _, lib := range slices.Sorted(maps.Keys(homes)) {
			for _, home := range homes[lib] {
				if !used[lib+" "+home] {
					out = append(out, finding{lib, "has a home in " + home + " where nothing uses it"})
				}
			}
		}
		return out
	}
}

func misplaced(f *source, imp string, homes map[string][]string, tests []string, std map[string][]string, used map[string]bool) string {
	if stdlib(imp) {
		for lib, in := range std {
			if within(imp, lib) && !slices.Contains(in, f.dir) {
				return "may not import " + imp
			}
		}
		return ""
	}
	for lib, in := range homes {
		if !within(imp, lib) {
			continue
		}
		for _, home := range in {
			if home == "*" || home == f.dir {
				used[lib+" "+home] = true
				return ""
			}
		}
		return fmt.Sprintf("%s is at home in %s only", imp, strings.Join(in, ", "))
	}
	if slices.ContainsFunc(tests, func(lib string) bool { return within(imp, lib) }) {
		if f.test {
			return ""
		}
		return imp + " is for tests only"
	}
	return imp + " has no home: give it one and a reason in docs/adr"
}

func checkFileSize(t *tree) (out []finding) {
	for _, f := range t.own(true) {
		if f.lines > maxFileLines {
			out = append(out, finding{f.path, fmt.Sprintf("%d lines, %d are enough", f.lines, maxFileLines)})
		}
	}
	return out
}

// funcName is "Name", or "Type.Name" for a method.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	x := d.Recv.List[0].Type
	for {
		switch v := x.(type) {
		case *ast.StarExpr:
			x = v.X
		case *ast.IndexExpr:
			x = v.X
		case *ast.IndexListExpr:
			x = v.X
		case *ast.Ident:
			return v.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

func checkFuncSize(t *tree) (out []finding) {
	for _, f := range t.own(false) {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			if n > maxFuncLines {
				out = append(out, finding{f.path + ":" + funcName(fn), fmt.Sprintf("%d lines, %d are enough", n, maxFuncLines)})
			}
		}
	}
	return out
}

// checkSleep looks at nested modules too.
func checkSleep(t *tree) (out []finding) {
	for _, f := range t.files {
		name := ""
		for _, s := range f.ast.Imports {
			if s.Path.Value == `"time"` {
				name = "time"
				if s.Name != nil {
					name = s.Name.Name
				}
			}
		}
		if !f.test || name == "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch v := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := v.X.(*ast.Ident); ok && x.Name == name && v.Sel.Name == "Sleep" {
					out = append(out, finding{t.fset.Position(v.Pos()).String(), "wait for what you wait for, or use testing/synctest"})
				}
			case *ast.Ident:
				if name == "." && v.Name == "Sleep" {
					out = append(out, finding{t.fset.Position(v.Pos()).String(), "wait for what you wait for, or use testing/synctest"})
				}
			}
			return true
		})
	}
	return out
}

var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "manager", "managers"}

func checkPackageNames(t *tree) (out []finding) {
	for _, f := range t.own(true) {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		for _, part := range append(strings.Split(f.dir, "/"), name) {
			if slices.Contains(emptyNames, part) {
				out = append(out, finding{f.path, fmt.Sprintf("%q says nothing: name the package after what it provides", part)})
				break
			}
		}
	}
	return out
}

func checkGetPrefix(t *tree) (out []finding) {
	for _, f := range t.own(false) {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if rest, ok := strings.CutPrefix(fn.Name.Name, "Get"); ok && rest != "" && ast.IsExported(rest) {
				out = append(out, finding{f.path + ":" + funcName(fn), "call it " + rest})
			}
		}
	}
	return out
}

func checkPackageDoc(t *tree) (out []finding) {
	for _, dir := range slices.Sorted(maps.Keys(t.pkgs)) {
		code, doc := false, false
		for _, f := range t.pkgs[dir] {
			if f.test {
				continue
			}
			code = true
			if f.ast.Doc != nil && (f.ast.Name.Name == "main" || strings.HasPrefix(f.ast.Doc.Text(), "Package "+f.ast.Name.Name+" ")) {
				doc = true
			}
		}
		if code && !doc {
			out = append(out, finding{dir, `no file begins with a "Package …" comment`})
		}
	}
	return out
}

func checkPackageTest(t *tree) (out []finding) {
	for _, dir := range slices.Sorted(maps.Keys(t.pkgs)) {
		code, tested := false, false
		for _, f := range t.pkgs[dir] {
			if !f.test {
				code = true
				continue
			}
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
					tested = true
				}
			}
		}
		if code && !tested {
			out = append(out, finding{dir, "has no test"})
		}
	}
	return out
}
