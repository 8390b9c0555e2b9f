package config

import (
	"reflect"
	"strings"
)

// Default is a Config in which every key has its default.
func Default() *Config {
	c := &Config{}
	setDefaults(reflect.ValueOf(c).Elem(), "")
	return c
}

type fieldList []reflect.StructField

// fieldsOf lists the fields of a struct that the file can set.
func fieldsOf(t reflect.Type) fieldList {
	var list fieldList
	for f := range t.Fields() {
		if f.Tag.Get("yaml") != "" {
			list = append(list, f)
		}
	}
	return list
}

func (l fieldList) find(key string) (reflect.StructField, bool) {
	for _, f := range l {
		if f.Tag.Get("yaml") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// defaultOf is the default of a field, given the overrides of the struct around it.
func defaultOf(f reflect.StructField, overrides string) string {
	for o := range strings.FieldsSeq(overrides) {
		if key, value, _ := strings.Cut(o, "="); key == f.Tag.Get("yaml") {
			return value
		}
	}
	return f.Tag.Get("default")
}

// setDefaults gives every field of the struct v its default, and those of the structs in it.
func setDefaults(v reflect.Value, overrides string) {
	for _, f := range fieldsOf(v.Type()) {
		x := v.FieldByIndex(f.Index)
		if isStruct(f.Type) {
			setDefaults(x, f.Tag.Get("defaults"))
			continue
		}
		text := defaultOf(f, overrides)
		if text == "" {
			continue
		}
		switch {
		case f.Type.Kind() == reflect.String:
			x.SetString(text)
		case f.Type.Kind() == reflect.Slice:
			x.Set(reflect.ValueOf(strings.Fields(text)))
		default:
			if bad := setText(x, text); bad != nil {
				panic("config: default of " + f.Name + ": " + bad.message)
			}
		}
	}
}
