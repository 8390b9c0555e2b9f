package hearth_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// No binary float touches money. In the packages that reckon with it nothing has a float's type at all; elsewhere no
// amount and no price comes from a float or becomes one. What stands here only orders or shows, and says so.
var floatsAllowed = map[string]string{
	".ranks":                        "prices for ordering endpoints; no amount is computed from them",
	".Tariff.seal":                  "makes the ranks",
	".Endpoint.Expected":            "orders endpoints",
	".Endpoint.Worst":               "skips what cannot be paid before the exact reservation",
	"internal/chain.left":           "what Worst is compared with, generous by a billionth",
	"internal/chain.builder.amount": "shows a worst case in a message",
	"internal/market.catalog":       "price lists of a simulated market",
	"internal/market.costOf":        "sums of costs that are estimated",
	"internal/market.listOf":        "price lists for a simulated market",
	"internal/app.routingOptions":   "what time is worth when endpoints are ordered",
	"internal/routing.listOf":       "orders endpoints by what a good answer is likely to cost",
	"internal/server.shownCost":     "a sum of costs for a graph",
}

// reckoning are the packages, and files of the root, that reckon with money.
var reckoning = map[string]bool{"internal/meter": true, "internal/ledger": true, "internal/store": true, "money.go": true, "tariff.go": true}

const decimalPath = "github.com/shopspring/decimal"

func TestNoFloatTouchesMoney(t *testing.T) {
	p := listPackages(t)
	t.Run("in this module", func(t *testing.T) { noFloats(t, p) })
	t.Run("and would be found", func(t *testing.T) { floatsFound(t, p) })
}

func noFloats(t *testing.T, p *listing) {
	found := map[string]string{}
	for _, pkg := range p.own {
		for where, what := range p.floats(t, pkg) {
			found[where] = what
		}
	}
	for where, what := range found {
		if floatsAllowed[where] == "" {
			t.Errorf("%s: %s", where, what)
		}
	}
	for where := range floatsAllowed {
		if found[where] == "" {
			t.Errorf("%s needs no exception any more", where)
		}
	}
}

// listed is a package as the go command tells of it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// listing is all packages of the module, and the types of everything they use.
type listing struct {
	own     []listed
	fset    *token.FileSet
	imports types.Importer
}

func listPackages(t *testing.T) *listing {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaints.Bytes())
	}
	l := &listing{fset: token.NewFileSet()}
	exports := map[string]string{}
	for d := jsontext.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := json.UnmarshalDecode(d, &p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			l.own = append(l.own, p)
		}
	}
	if len(l.own) < 20 {
		t.Fatalf("only %d packages", len(l.own))
	}
	l.imports = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return l
}

// floats finds the places of a package where a float and money meet.
func (l *listing) floats(t *testing.T, p listed) map[string]string {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(l.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	return l.meetings(t, p.ImportPath, dir, files)
}

func (l *listing) meetings(t *testing.T, importPath, dir string, files []*ast.File) map[string]string {
	t.Helper()
	m := meeting{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}, found: map[string]string{}}
	conf := types.Config{Importer: l.imports}
	if _, err := conf.Check(importPath, l.fset, files, m.info); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := path.Base(filepath.ToSlash(l.fset.Position(f.Pos()).Filename))
		m.strict = reckoning[dir] || dir == "" && reckoning[name]
		for _, d := range f.Decls {
			m.decl(dir, d)
		}
	}
	return m.found
}

// meeting looks for floats that touch money in one file after the other.
type meeting struct {
	info   *types.Info
	strict bool // the file reckons with money
	where  string
	found  map[string]string
}

func (m *meeting) decl(dir string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		m.where = dir + "."
		if d.Recv != nil {
			m.where += strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "."
		}
		m.where += d.Name.Name
		ast.Inspect(d, m.look)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				m.where = dir + "." + s.Name.Name
			case *ast.ValueSpec:
				m.where = dir + "." + s.Names[0].Name
			}
			ast.Inspect(s, m.look)
		}
	}
}

func (m *meeting) look(n ast.Node) bool {
	e, ok := n.(ast.Expr)
	if !ok {
		return true
	}
	if m.strict && isFloat(m.info.TypeOf(e)) {
		m.found[m.where] = "has a float: " + types.ExprString(e)
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return true
	}
	if to := m.info.Types[call.Fun]; to.IsType() && len(call.Args) == 1 {
		if isMoney(to.Type) && m.holds(call.Args[0], isFloat) || isFloat(to.Type) && m.holds(call.Args[0], isMoney) {
			m.found[m.where] = "converts between a float and money: " + types.ExprString(call)
		}
		return true
	}
	if f, ok := m.callee(call).(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == decimalPath {
		s := f.Signature()
		for _, list := range []*types.Tuple{s.Params(), s.Results()} {
			for v := range list.Variables() {
				if isFloat(v.Type()) && !m.graded(call) {
					m.found[m.where] = "calls " + f.Name()
				}
			}
		}
	}
	return true
}

// graded says whether the decimal is the operator's grade of tool calls, which is no money.
func (m *meeting) graded(call *ast.CallExpr) bool {
	return strings.HasSuffix(types.ExprString(call.Fun), ".ToolQuality.InexactFloat64")
}

func (m *meeting) callee(call *ast.CallExpr) types.Object {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return m.info.Uses[f.Sel]
	case *ast.Ident:
		return m.info.Uses[f]
	}
	return nil
}

// holds says whether a part of an expression has such a type.
func (m *meeting) holds(e ast.Expr, such func(types.Type) bool) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok && such(m.info.TypeOf(x)) {
			yes = true
		}
		return !yes
	})
	return yes
}

func isFloat(t types.Type) bool {
	if t == nil {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&(types.IsFloat|types.IsComplex) != 0
	case *types.Slice:
		return isFloat(u.Elem())
	case *types.Array:
		return isFloat(u.Elem())
	case *types.Pointer:
		return isFloat(u.Elem())
	case *types.Tuple:
		for v := range u.Variables() {
			if isFloat(v.Type()) {
				return true
			}
		}
	}
	return false
}

func isMoney(t types.Type) bool {
	n, ok := t.(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return false
	}
	switch n.Obj().Pkg().Path() + "." + n.Obj().Name() {
	case module + ".Nano", decimalPath + ".Decimal":
		return true
	}
	return false
}

// floatsFound shows the rule code that breaks it, and code that does not.
func floatsFound(t *testing.T, l *listing) {
	for _, c := range []struct {
		dir, code string
		found     bool
	}{
		{"internal/meter", `func f(n int64) int64 { return n * 2 }`, false},
		{"internal/meter", `func f(n int64) int64 { return int64(float64(n) * 1.5) }`, true},
		{"internal/meter", `const half = 0.5`, true},
		{"internal/meter", `type f struct { x []float32 }`, true},
		{"internal/meter", `func f(s string) { strconv.ParseFloat(s, 64) }`, true},
		{"internal/meter", `func f(d decimal.Decimal) decimal.Decimal { return d.Mul(decimal.NewFromInt(2)) }`, false},
		{"internal/x", `func f(n int64) int64 { return int64(float64(n) * 1.5) }`, false},
		{"internal/x", `func f(x float64) hearth.Nano { return hearth.Nano(x * 1e9) }`, true},
		{"internal/x", `func f(x float64) hearth.Nano { return hearth.Nano(int64(math.Round(x))) }`, true},
		{"internal/x", `func f(n int64) hearth.Nano { return hearth.Nano(n) }`, false},
		{"internal/x", `func f(n hearth.Nano) float64 { return float64(n) / 1e9 }`, true},
		{"internal/x", `func f(n hearth.Nano) float64 { return float64(int64(n)) }`, true},
		{"internal/x", `func f(n hearth.Nano) (x float64, ok bool) { return n.Decimal().Float64() }`, true},
		{"internal/x", `func f(p hearth.Price) float64 { return p.Prompt.InexactFloat64() }`, true},
		{"internal/x", `func f(x float64) decimal.Decimal { return decimal.NewFromFloat(x) }`, true},
		{"internal/x", `var f = decimal.NewFromFloat32(1)`, true},
		{"internal/x", `func f(s string) (decimal.Decimal, error) { return decimal.NewFromString(s) }`, false},
	} {
		t.Run(c.dir+" "+c.code, func(t *testing.T) {
			src := "package x\nimport (\"math\"; \"strconv\"; \"" + decimalPath + "\"; \"" + module + "\")\n" +
				"var _, _, _, _ = math.Round, strconv.Itoa, decimal.NewFromInt, hearth.Nano.String\n" + c.code
			f, err := parser.ParseFile(l.fset, "x.go", src, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			got := l.meetings(t, module+"/"+c.dir, c.dir, []*ast.File{f})
			delete(got, c.dir+"._") // the line that uses the imports
			if (len(got) > 0) != c.found {
				t.Errorf("found %s", fmt.Sprint(got))
			}
		})
	}
}
