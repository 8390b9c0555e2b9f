package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// Change is one key in which a configuration differs from an earlier one. It never holds a value: that may be a secret.
type Change struct {
	Path    string // parts of lists stand under their names: providers.acme.models.google/gemma-4-26b-a4b.price.prompt
	What    string // "changed", "added", "removed" or "reordered"
	Restart bool   // it only holds after a restart
}

func (c Change) String() string { return c.Path + " " + c.What }

// Follow is the configuration that holds when c takes the place of an earlier one while the gateway runs: c, but with
// the earlier values of keys that need a restart. changes lists all differences, in the order of the manual. c is left as
// it is.
func (c *Config) Follow(earlier *Config) (next *Config, changes []Change) {
	var d differ
	d.structs("", reflect.ValueOf(earlier).Elem(), reflect.ValueOf(c).Elem(), false)
	holds := *c
	keepOld(reflect.ValueOf(&holds).Elem(), reflect.ValueOf(earlier).Elem())
	return &holds, d.changes
}

// Files are the files besides c's own from which it was read: those that hold secrets.
func (c *Config) Files() []string {
	return slices.Clone(c.files)
}

// needsRestart says whether a running gateway cannot take a key's new value.
func needsRestart(f reflect.StructField) bool { return f.Tag.Get("reload") == "restart" }

// keepOld sets what needs a restart to its earlier value.
func keepOld(to, earlier reflect.Value) {
	for _, f := range fieldsOf(to.Type()) {
		switch {
		case needsRestart(f):
			to.FieldByIndex(f.Index).Set(earlier.FieldByIndex(f.Index))
		case isStruct(f.Type):
			keepOld(to.FieldByIndex(f.Index), earlier.FieldByIndex(f.Index))
		}
	}
}

// differ collects the differences of two configurations.
type differ struct{ changes []Change }

func (d *differ) add(path, what string, restart bool) {
	d.changes = append(d.changes, Change{path, what, restart})
}

func (d *differ) structs(path string, a, b reflect.Value, restart bool) {
	for _, f := range fieldsOf(a.Type()) {
		key := f.Tag.Get("yaml")
		if path != "" {
			key = path + "." + key
		}
		d.values(key, a.FieldByIndex(f.Index), b.FieldByIndex(f.Index), restart || needsRestart(f))
	}
}

func (d *differ) values(path string, a, b reflect.Value, restart bool) {
	switch t := a.Type(); {
	case isStruct(t):
		d.structs(path, a, b, restart)
	case t.Kind() == reflect.Pointer && isStruct(t.Elem()) && !a.IsNil() && !b.IsNil():
		d.structs(path, a.Elem(), b.Elem(), restart)
	case t.Kind() == reflect.Pointer && a.IsNil() != b.IsNil():
		d.add(path, map[bool]string{true: "added", false: "removed"}[a.IsNil()], restart)
	case t.Kind() == reflect.Slice && isStruct(t.Elem()):
		d.lists(path, a, b, restart)
	case t.Kind() == reflect.Map:
		d.maps(path, a, b, restart)
	case !same(a, b):
		d.add(path, "changed", restart)
	}
}

// lists compares lists of things that have names.
func (d *differ) lists(path string, a, b reflect.Value, restart bool) {
	before, after := names(a), names(b)
	for i, name := range before {
		if !slices.Contains(after, name) {
			d.add(path+"."+name, "removed", restart)
			continue
		}
		d.structs(path+"."+name, a.Index(i), b.Index(slices.Index(after, name)), restart)
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			d.add(path+"."+name, "added", restart)
		}
	}
	only := func(list, others []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(others, s) })
	}
	if !slices.Equal(only(before, after), only(after, before)) {
		d.add(path, "reordered", restart)
	}
}

// names are those of the members of a list: a second one of the same name gets a number.
func names(list reflect.Value) []string {
	out := make([]string, list.Len())
	for i := range out {
		v := list.Index(i)
		var name string
		for _, key := range [...]string{"slug", "id", "name", "model"} {
			if f, ok := fieldsOf(v.Type()).find(key); ok {
				name = fmt.Sprint(v.FieldByIndex(f.Index))
				break
			}
		}
		if f, ok := fieldsOf(v.Type()).find("variant"); ok && v.FieldByIndex(f.Index).String() != "" {
			name += "/" + v.FieldByIndex(f.Index).String()
		}
		if s, ok := v.Addr().Interface().(*Step); ok {
			name = s.title()
		}
		out[i] = name
	}
	for i := range out {
		for n, first := 2, out[i]; slices.Contains(out[:i], out[i]); n++ {
			out[i] = fmt.Sprintf("%s#%d", first, n)
		}
	}
	return out
}

func (d *differ) maps(path string, a, b reflect.Value, restart bool) {
	keys := append(a.MapKeys(), b.MapKeys()...)
	slices.SortFunc(keys, func(x, y reflect.Value) int { return cmp.Compare(x.String(), y.String()) })
	keys = slices.CompactFunc(keys, func(x, y reflect.Value) bool { return x.String() == y.String() })
	for _, k := range keys {
		switch x, y := a.MapIndex(k), b.MapIndex(k); {
		case !x.IsValid():
			d.add(path+"."+k.String(), "added", restart)
		case !y.IsValid():
			d.add(path+"."+k.String(), "removed", restart)
		case !same(x, y):
			d.add(path+"."+k.String(), "changed", restart)
		}
	}
}

// same compares values; 0.10 is 0.1, and a list without members is no list.
func same(a, b reflect.Value) bool {
	switch x := a.Interface().(type) {
	case decimal.Decimal:
		return x.Equal(b.Interface().(decimal.Decimal))
	case Margin:
		return x.Equal(b.Interface().(Margin).Decimal)
	case *decimal.Decimal:
		return x == nil || x.Equal(*b.Interface().(*decimal.Decimal))
	case *Margin:
		return x == nil || x.Equal(b.Interface().(*Margin).Decimal)
	}
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// Summary is changes on one line: those that hold, or those that need a restart. "" = there are none.
func Summary(changes []Change, restart bool) string {
	var parts []string
	for _, c := range changes {
		if c.Restart == restart {
			parts = append(parts, c.String())
		}
	}
	return strings.Join(parts, ", ")
}
