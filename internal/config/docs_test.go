package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const docsFile = "../../docs/configuration.md"

// TestDocs keeps docs/configuration.md in step with the Config type; go generate ./internal/config rewrites it.
func TestDocs(t *testing.T) {
	got := markdown(t)
	if *update {
		if err := os.MkdirAll("../../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(docsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("docs/configuration.md is out of date: run go generate ./internal/config (-file +type):\n%s", d)
	}
}

// TestDocsExamplesCanBeRead: every example in a tag can be read by the field it stands at.
func TestDocsExamplesCanBeRead(t *testing.T) {
	for _, s := range sections {
		for _, f := range fieldsOf(s.of) {
			text := f.Tag.Get("example")
			if text == "" {
				continue
			}
			d := newDecoder("example", func(string) (string, bool) { return "value", true })
			root, problem := parseYAML([]byte(f.Tag.Get("yaml") + ": " + text + "\n"))
			if problem != nil {
				t.Errorf("%s.%s: %s", s.of.Name(), f.Name, problem)
				continue
			}
			one := reflect.New(reflect.StructOf([]reflect.StructField{{Name: f.Name, Type: f.Type, Tag: dropNeed(f.Tag)}}))
			d.value("", root, one.Elem(), fieldRules{})
			if err := d.err(); err != nil {
				t.Errorf("%s.%s: %v", s.of.Name(), f.Name, err)
			}
		}
	}
}

func dropNeed(tag reflect.StructTag) reflect.StructTag {
	return reflect.StructTag(strings.Replace(string(tag), `need:"yes"`, "", 1))
}

// sections are the parts of the manual, in its order.
var sections = []struct {
	path string
	of   reflect.Type
}{
	{"", reflect.TypeFor[Config]()},
	{"api", reflect.TypeFor[API]()},
	{"exchange_sources[]", reflect.TypeFor[ExchangeSource]()},
	{"external_limit", reflect.TypeFor[ExternalLimit]()},
	{"local", reflect.TypeFor[Local]()},
	{"nodes[]", reflect.TypeFor[Node]()},
	{"nodes[].devices[]", reflect.TypeFor[Device]()},
	{"nodes[].slots[]", reflect.TypeFor[Slot]()},
	{"action", reflect.TypeFor[Action]()},
	{"providers[]", reflect.TypeFor[Provider]()},
	{"providers[].models[]", reflect.TypeFor[Offer]()},
	{"price", reflect.TypeFor[Price]()},
	{"price.steps[]", reflect.TypeFor[Step]()},
	{"limits", reflect.TypeFor[Limits]()},
	{"models[]", reflect.TypeFor[Model]()},
	{"node_server", reflect.TypeFor[NodeServer]()},
	{"records", reflect.TypeFor[Records]()},
	{"records.content", reflect.TypeFor[Content]()},
	{"shutdown", reflect.TypeFor[Shutdown]()},
	{"request", reflect.TypeFor[Request]()},
	{"routing", reflect.TypeFor[Routing]()},
	{"cooldown", reflect.TypeFor[Cooldown]()},
}

const docsHead = `# Configuration

<!-- Made from the Config type in internal/config: edit the comments there and run go generate ./internal/config. -->

Hearth reads one YAML file. ` + "`hearth.example.yaml`" + ` is a complete one to start from. ` + "`hearth check FILE`" + ` reads a
file without starting anything: it lists everything that is wrong, each with its line, its key and a remedy, and
then what is allowed but worth a second look.

- **Strict.** An unknown key, a key written twice, a value of the wrong kind or a second document is an error. A key
  without a value is an error too; a list or group without content counts as absent.
- **Durations** are written with their unit: ` + "`500ms`, `90s`, `10m`, `2h`, `1h30m`, `30d`" + `.
- **Sizes** are whole numbers with their unit: ` + "`64MiB`, `1GiB`" + ` (1024), or ` + "`64MB`" + ` (1000).
- **Prices, rates and margins** are read as exact decimals, quoted or not: ` + "`0.1`" + ` is exactly one tenth. No exponents.
- **` + "`${env:NAME}`" + `** is replaced by an environment variable where the tables say *env*, after the file has been read:
  what it holds cannot change the structure of the file. A variable that is not set is an error.
- **Secrets** never appear in an error, a log or a page. Keep them out of the file with ` + "`${env:NAME}` or `api_key_file`" + `.
- **Relative paths** start at the directory of the configuration file.
- **Reload.** ` + "`hearth serve`" + ` reads the file again on SIGHUP, and within seconds of a change of it or of a file that it takes a
  secret from. All of it holds at once and no request fails, but keys marked *restart* keep their values until the next
  start. A file with a mistake changes nothing; the log says what is wrong with it.
- **Anchors and aliases** (` + "`&name`, `*name`, `<<: *name`" + `) work. A file may have 1 MiB and 30,000 words and signs.
`

func markdown(t *testing.T) string {
	t.Helper()
	comments := fieldComments(t)
	var b strings.Builder
	b.WriteString(docsHead)
	for _, s := range sections {
		title := "`" + s.path + "`"
		if s.path == "" {
			title = "Top level"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n", title, sentence(s.of.Name(), comments[s.of.Name()]))
		for _, f := range fieldsOf(s.of) {
			comment := comments[s.of.Name()+"."+f.Name]
			if comment == "" {
				t.Errorf("%s.%s has no comment", s.of.Name(), f.Name)
			}
			meaning, standard := describe(f, comment)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Tag.Get("yaml"), kind(f), standard, meaning)
		}
	}
	return b.String()
}

var saidDefault = regexp.MustCompile(` ?Default: ((?:[^.]|\.\S)*)\.`)

// describe makes the last two columns from a comment and the tags.
func describe(f reflect.StructField, comment string) (meaning, standard string) {
	meaning = sentence(f.Name, comment)
	if m := saidDefault.FindStringSubmatch(meaning); m != nil {
		standard, meaning = m[1], strings.Replace(meaning, m[0], "", 1)
	}
	if e := f.Tag.Get("example"); e != "" {
		meaning += " Example: `" + f.Tag.Get("yaml") + ": " + strings.ReplaceAll(e, "|", `\|`) + "`"
	}
	if needsRestart(f) {
		meaning += " *restart*"
	}
	switch {
	case f.Tag.Get("need") == "yes":
		standard = "**required**"
	case f.Tag.Get("defaults") != "":
		standard = "`" + strings.ReplaceAll(f.Tag.Get("defaults"), "=", ": ") + "`, else as below"
	case f.Tag.Get("default") != "" && f.Type.Kind() == reflect.Slice:
		standard = "`[" + strings.Replace(f.Tag.Get("default"), "*", `"*"`, 1) + "]`"
	case f.Tag.Get("default") != "":
		standard = "`" + f.Tag.Get("default") + "`"
	}
	return meaning, standard
}

// kind names the type of a field and its range.
func kind(f reflect.StructField) string {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := map[reflect.Type]string{durationType: "duration", sizeType: "size", decimalType: "decimal", marginType: "share", secretType: "secret"}[t]
	switch {
	case name != "":
	case f.Tag.Get("enum") != "":
		name = "`" + strings.Join(strings.Fields(f.Tag.Get("enum")), "` or `") + "`"
	case isStruct(t):
		name = "see " + section(t)
	case t.Kind() == reflect.Slice && isStruct(t.Elem()):
		name = "list, see below"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Int:
		name = "list of whole numbers"
	case t.Kind() == reflect.Slice:
		name = "list of texts"
	case t.Kind() == reflect.Map:
		name = "name: " + map[bool]string{true: "decimal", false: map[bool]string{true: "secret", false: "text"}[t.Elem() == secretType]}[t.Elem() == decimalType]
	default:
		name = map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "`true` or `false`", reflect.Int: "whole number"}[t.Kind()]
	}
	switch low, high := f.Tag.Get("min"), f.Tag.Get("max"); {
	case low != "" && high != "":
		name += ", " + low + " to " + high
	case low != "":
		name += ", at least " + low
	}
	if f.Tag.Get("env") != "" {
		name += "; *env*"
	}
	return name
}

// section links to the part of the manual about a type.
func section(t reflect.Type) string {
	for _, s := range sections {
		if s.of == t {
			return "[`" + s.path + "`](#" + s.path + ")"
		}
	}
	panic("no section about " + t.Name())
}

// fieldComments reads the comments of all types and their fields from the source.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"config.go", "nodes.go", "devices.go", "places.go", "prices.go", "rates.go", "content.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				typ := spec.(*ast.TypeSpec)
				out[typ.Name.Name] = g.Doc.Text()
				if s, ok := typ.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, n := range field.Names {
							out[typ.Name.Name+"."+n.Name] = field.Doc.Text()
						}
					}
				}
			}
		}
	}
	return out
}

// sentence is a comment on one line, without the Go name it begins with.
func sentence(name, comment string) string {
	text := strings.TrimPrefix(strings.Join(strings.Fields(comment), " "), name+" ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	first := []rune(text)
	if len(first) > 0 {
		first[0] = unicode.ToUpper(first[0])
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(string(first))
}
