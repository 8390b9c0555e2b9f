package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

// decoder fills a Config from a YAML tree. It goes on after a mistake, so that one run finds all of them.
type decoder struct {
	report
	getenv  func(string) (string, bool)
	targets map[*ast.AliasNode]ast.Node
	values  int      // read so far
	files   []string // that hold secrets
}

// fieldRules are what the tags of a field say of its value.
type fieldRules struct {
	min, max, enum string
	env            string
	defaults       string
}

func rulesOf(f reflect.StructField) fieldRules {
	return fieldRules{
		min: f.Tag.Get("min"), max: f.Tag.Get("max"), enum: f.Tag.Get("enum"),
		env: f.Tag.Get("env"), defaults: f.Tag.Get("defaults"),
	}
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	decimalType  = reflect.TypeFor[decimal.Decimal]()
	marginType   = reflect.TypeFor[Margin]()
	secretType   = reflect.TypeFor[hearth.Secret]()
)

// isStruct says whether values of the type are written as a mapping with fixed keys.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != decimalType && t != marginType
}

// value reads one node into v. The zero v keeps its defaults when the node is wrong.
func (d *decoder) value(path string, n ast.Node, v reflect.Value, r fieldRules) {
	n, ok := d.resolve(path, n)
	if !ok {
		return
	}
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		fresh := reflect.New(t.Elem())
		if isStruct(t.Elem()) {
			if absent(n) {
				return
			}
			setDefaults(fresh.Elem(), r.defaults)
		}
		if p, ok := fresh.Interface().(*Price); ok {
			if p.Reported = isWord(n, reportedWord); p.Reported {
				v.Set(fresh)
				return
			}
		}
		d.value(path, n, fresh.Elem(), r)
		v.Set(fresh)
	case t == devicesType && hasText(n):
		d.devices(path, n, v)
	case t == deviceType && hasText(n):
		d.scalar(path, n, v.FieldByName("ID"), fieldRules{min: "0", max: "1023"})
	case isStruct(t):
		d.structure(path, n, v)
	case t.Kind() == reflect.Slice:
		d.sequence(path, n, v, r)
	case t.Kind() == reflect.Map:
		d.mapping(path, n, v, r)
	default:
		d.scalar(path, n, v, r)
	}
}

// resolve follows anchors and aliases to a value and counts it.
func (d *decoder) resolve(path string, n ast.Node) (ast.Node, bool) {
	for range maxDepth {
		if !d.count() {
			return nil, false
		}
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			target, ok := d.targets[x]
			if !ok {
				d.add(path, "uses an anchor that is not defined above", "define it with &name before it is used with *name")
				return nil, false
			}
			n = target
		case *ast.TagNode:
			d.add(path, "has a YAML tag", "write the plain value")
			return nil, false
		default:
			return n, true
		}
	}
	d.add(path, "uses an anchor inside itself", "write the value out")
	return nil, false
}

// count counts one more value read; it says no when a few aliases have grown into too many.
func (d *decoder) count() bool {
	d.values++
	if d.values == maxValues+1 {
		d.add("", "grows too large through its aliases", "share less with anchors")
	}
	return d.values <= maxValues
}

// isWord says whether the node is that text.
func isWord(n ast.Node, word string) bool {
	text, ok := scalarText(n)
	return ok && text == word
}

// absent says whether the node is a key without a value.
func absent(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return n == nil || null
}

type pair struct {
	key   string
	at    place
	value ast.Node
}

func placeOf(n ast.Node) place {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{}
}

// pairs lists the keys of a mapping; keys merged with << stand after its own and never replace them.
func (d *decoder) pairs(path string, n ast.Node, depth int) ([]pair, bool) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.add(path, "must hold keys with values, "+kindOf(n), "")
		return nil, false
	}
	var own []pair
	var merged []ast.Node
	seen := map[string]place{}
	for it := m.MapRange(); it.Next() && d.count(); {
		k := it.Key()
		at := placeOf(k)
		if k.IsMergeKey() {
			merged = append(merged, it.Value())
			continue
		}
		name, ok := keyText(k)
		if !ok {
			d.places[path+"[?]"] = at
			d.add(path+"[?]", "is a key that is not plain text", "write keys as plain words")
			continue
		}
		if first, ok := seen[name]; ok {
			here := join(path, name)
			d.places[here] = at
			d.add(here, "stands twice in the same place, first on line "+strconv.Itoa(first.line), "remove one of them")
			continue
		}
		seen[name] = at
		own = append(own, pair{name, at, it.Value()})
	}
	for _, n := range merged {
		own = d.merge(path, own, seen, n, depth)
	}
	return own, true
}

// merge adds the pairs of a << value, which is a mapping or a list of mappings.
func (d *decoder) merge(path string, own []pair, seen map[string]place, n ast.Node, depth int) []pair {
	n, ok := d.resolve(path, n)
	if !ok {
		return own
	}
	if depth > maxDepth {
		d.add(path, "merges an anchor into itself", "write the values out")
		return own
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		for _, item := range list.Values {
			own = d.merge(path, own, seen, item, depth+1)
		}
		return own
	}
	more, _ := d.pairs(path, n, depth+1)
	for _, p := range more {
		if _, ok := seen[p.key]; !ok {
			seen[p.key] = p.at
			own = append(own, p)
		}
	}
	return own
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return k.GetToken().Value, true
	}
	return "", false
}

func (d *decoder) structure(path string, n ast.Node, v reflect.Value) {
	if absent(n) {
		n = nil
	}
	var pairs []pair
	if n != nil {
		var ok bool
		if pairs, ok = d.pairs(path, n, 0); !ok {
			return
		}
	}
	fields := fieldsOf(v.Type())
	given := map[string]bool{}
	var unknown []pair
	for _, p := range pairs {
		f, ok := fields.find(p.key)
		if !ok {
			unknown = append(unknown, p)
			continue
		}
		given[p.key] = true
		here := join(path, p.key)
		d.places[here] = p.at
		d.value(here, p.value, v.FieldByIndex(f.Index), rulesOf(f))
	}
	for _, p := range unknown {
		d.unknownKey(path, p, fields, given)
	}
	for _, f := range fields {
		if key := f.Tag.Get("yaml"); f.Tag.Get("need") == "yes" && !given[key] {
			remedy := "add it"
			if e := f.Tag.Get("example"); e != "" {
				remedy += ", such as " + key + ": " + e
			}
			d.add(join(path, key), "is missing", remedy)
		}
	}
}

// unknownKey reports a key that means nothing here. If it looks like a slip for a key that is not given, that
// key is not reported as missing as well.
func (d *decoder) unknownKey(path string, p pair, fields fieldList, given map[string]bool) {
	here := join(path, p.key)
	d.places[here] = p.at
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	slices.Sort(keys)
	near := suggest.Nearest(strings.ReplaceAll(p.key, "-", "_"), keys, 1)
	if len(near) == 0 {
		d.add(here, "is not a setting", "known here: "+strings.Join(keys, ", "))
		return
	}
	d.add(here, "is not a setting", "did you mean "+near[0]+"?")
	if !given[near[0]] {
		d.bad[join(path, near[0])] = true
	}
}

func (d *decoder) sequence(path string, n ast.Node, v reflect.Value, r fieldRules) {
	if absent(n) {
		return
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.add(path, "must be a list, "+kindOf(n), "write the items below it with a dash, or in [ ]")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, item := range list.Values {
		here := at(path, i)
		if item != nil {
			d.places[here] = placeOf(item)
		}
		e := v.Index(i)
		if isStruct(e.Type()) {
			setDefaults(e, r.defaults)
		}
		if item == nil || absent(item) {
			d.add(here, "is an empty item", "remove the dash or write something after it")
			continue
		}
		d.value(here, item, e, r)
	}
}

func (d *decoder) mapping(path string, n ast.Node, v reflect.Value, r fieldRules) {
	if absent(n) {
		return
	}
	pairs, ok := d.pairs(path, n, 0)
	if !ok {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(pairs)))
	for _, p := range pairs {
		here := join(path, p.key)
		d.places[here] = p.at
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(here, p.value, e, r)
		v.SetMapIndex(reflect.ValueOf(p.key), e)
	}
}

// kindOf says what a node is instead of what was expected.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "not keys with values"
	case *ast.SequenceNode:
		return "not a list"
	}
	return "not a single value"
}
