package toolcheck

import (
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema can be made to take time without end: by references that unfold into ever more, by lists that are compared each
// with each. So what a schema may cost is reckoned before it is used: its keywords, with references unfolded, times the
// values that it is held against. Patterns cost no more than their length times the text's: Go's are without backtracking.
const (
	maxNodes = 4096    // values of a schema, references unfolded
	maxWork  = 200_000 // of these, times values of the arguments
)

// function is one that a request offers.
type function struct {
	schema *jsonschema.Schema // nil = nothing is said of its arguments, or it would take too long to say
	nodes  int                // what it unfolds to
}

// read makes the schemas of a list of tools. What cannot be read allows everything.
func (t *Tools) read() {
	var list []struct {
		Function struct {
			Name       string `json:"name"`
			Parameters any    `json:"parameters"`
		} `json:"function"`
	}
	t.of = map[string]*function{}
	err := json.Unmarshal(t.raw, &list)
	t.raw = nil
	if err != nil {
		return
	}
	began := time.Now()
	for _, x := range list {
		f := new(function)
		t.of[x.Function.Name] = f
		root, ok := x.Function.Parameters.(map[string]any)
		if !ok || time.Since(began) > slow {
			continue
		}
		u := unfolding{root: root, seen: map[string]int{}}
		if n, ok := u.cost(root); ok {
			if s, err := compile(root); err == nil {
				f.schema, f.nodes = s, n
			}
		}
	}
}

var errElsewhere = errors.New("a schema elsewhere is not fetched")

// nowhere refuses every reference out of the schema.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

func compile(root map[string]any) (*jsonschema.Schema, error) {
	const here = "mem:tool"
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource(here, root); err != nil {
		return nil, err
	}
	return c.Compile(here)
}

// allow says whether a call's arguments are what the schema of its function asks for.
func (t *Tools) allow(c *Call) bool {
	f := t.of[c.Name]
	if f == nil || f.schema == nil || len(c.Args) > maxArgs {
		return true
	}
	args := c.Args
	if len(args) == 0 {
		args = []byte("{}")
	}
	var v any
	if json.Unmarshal(args, &v) != nil {
		return false
	}
	if f.nodes*values(v) > maxWork {
		return true
	}
	return f.schema.Validate(v) == nil
}

// values counts the values of a document.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			n += values(x)
		}
	case []any:
		for _, x := range v {
			n += values(x)
		}
	}
	return n
}

// unfolding reckons what a schema unfolds to.
type unfolding struct {
	root map[string]any
	seen map[string]int // by reference: what it unfolds to
	deep int
}

// cost is how many values a part of a schema unfolds to; not ok if they are too many, or without end, or if it is one that
// names its parts otherwise than by where they are.
func (u *unfolding) cost(v any) (n int, ok bool) {
	const deepest = 100
	if u.deep++; u.deep > deepest {
		return 0, false
	}
	defer func() { u.deep-- }()
	n = 1
	add := func(x any) bool {
		m, ok := u.cost(x)
		n += m
		return ok && n <= maxNodes
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if !add(x) {
				return 0, false
			}
		}
	case map[string]any:
		for key, x := range v {
			switch s, text := x.(string); {
			case text && key == "$ref":
				m, ok := u.follow(s)
				if n += m; !ok {
					return 0, false
				}
				continue
			case text && (key == "$dynamicRef" || key == "$recursiveRef" || key == "$id" || key == "id" && u.deep > 1):
				return 0, false
			case key == "uniqueItems": // compares each with each
				n += 64
			}
			if !add(x) {
				return 0, false
			}
		}
	}
	return n, true
}

// follow is what a reference unfolds to.
func (u *unfolding) follow(ref string) (n int, ok bool) {
	path, here := strings.CutPrefix(ref, "#")
	if !here || path != "" && path[0] != '/' || strings.Contains(path, "%") {
		return 0, false
	}
	if n, known := u.seen[ref]; known {
		return n, true
	}
	var at any = u.root
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		m, isMap := at.(map[string]any)
		if !isMap {
			return 0, false
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	if at == nil { // what is not found is not reckoned, either
		return 0, false
	}
	if n, ok = u.cost(at); ok { // of one to itself it is too deep
		u.seen[ref] = n
	}
	return n, ok
}
