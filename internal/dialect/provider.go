package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

var (
	providerKeys = []string{
		"order", "only", "ignore", "allow_fallbacks", "sort", "require_parameters", "data_collection", "zdr",
		"enforce_distillable_text", "quantizations", "preferred_min_throughput", "preferred_max_latency", "max_price",
	}
	sortKeys  = []string{"by", "partition"}
	sortWords = []string{
		string(hearth.SortPrice), string(hearth.SortThroughput), string(hearth.SortLatency), string(hearth.SortTools),
	}
	quantizations = []string{
		"int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown",
	}
)

// object reads an object whose keys are known: each at most once, none but these. Null counts as an empty one.
func object(param string, val jsontext.Value, keys []string, read func(key, param string, val jsontext.Value) error) error {
	if val.Kind() == 'n' {
		return nil
	}
	if val.Kind() != '{' {
		return hearth.Invalid(param, "%s must be an object or null", param)
	}
	var seen uint32
	s := scan{b: val}
	s.open()
	for raw, ok := s.key(); ok; raw, ok = s.key() {
		key := unquote(raw)
		i := slices.IndexFunc(keys, func(k string) bool { return k == string(key) })
		if i < 0 {
			name := cleanKey(key)
			return hearth.Invalid(param+"."+name, "%s has no field %s; %s", param, name, meant(name, keys))
		}
		at := param + "." + keys[i]
		if seen&(1<<i) != 0 {
			return hearth.Invalid(at, "%s stands more than once in %s", keys[i], param)
		}
		seen |= 1 << i
		if err := read(keys[i], at, jsontext.Value(s.value())); err != nil {
			return err
		}
	}
	return nil
}

// meant says which of the known names could have been meant, or which there are.
func meant(name string, known []string) string {
	if near := suggest.Nearest(name, known, 1); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", near[0])
	}
	return "known are " + strings.Join(known, ", ")
}

// provider reads the caller's conditions on providers. What cannot be read is refused, never passed over in silence:
// it would widen the choice.
func (d *decoding) provider(val jsontext.Value) error {
	return object("provider", val, providerKeys, d.preference)
}

// preference reads one field of the provider object.
func (d *decoding) preference(key, param string, val jsontext.Value) (err error) {
	prefs := &d.chat.Prefs
	switch key {
	case "order":
		prefs.Order, err = d.stringList(param, val, maxNames)
	case "only":
		prefs.Only, err = d.stringList(param, val, maxNames)
	case "ignore":
		prefs.Ignore, err = d.stringList(param, val, maxNames)
	case "allow_fallbacks":
		allow := true
		if val.Kind() != 'n' {
			allow, err = boolean(param, val)
		}
		prefs.NoFallbacks = !allow
	case "sort":
		err = d.sort(param, val)
	case "require_parameters":
		prefs.RequireParams, err = boolean(param, val)
	case "data_collection":
		var word string
		word, err = oneOf(param, val, []string{"allow", "deny"})
		prefs.NoCollection = word == "deny"
	case "zdr":
		prefs.ZDR, err = boolean(param, val)
	case "enforce_distillable_text":
		err = distillable(param, val)
	case "quantizations":
		prefs.Quantizations, err = d.quantizations(param, val)
	case "preferred_min_throughput":
		prefs.MinThroughput, err = percentiles(param, val)
	case "preferred_max_latency":
		prefs.MaxLatency, err = percentiles(param, val)
	case "max_price":
		err = d.maxPrice(param, val)
	}
	return err
}

// oneOf reads one of a few words; "" for null.
func oneOf(param string, val jsontext.Value, words []string) (string, error) {
	if val.Kind() == 'n' {
		return "", nil
	}
	if val.Kind() != '"' {
		return "", hearth.Invalid(param, `%s must be one of "%s", or null`, param, strings.Join(words, `", "`))
	}
	word := unquote(val)
	if i := slices.IndexFunc(words, func(w string) bool { return w == string(word) }); i >= 0 {
		return words[i], nil
	}
	return "", hearth.Invalid(param, "%s cannot be %q; %s", param, cleanKey(word), meant(cleanKey(word), words))
}

// sort reads provider.sort: a word, or an object with the word in by.
func (d *decoding) sort(param string, val jsontext.Value) (err error) {
	prefs := &d.chat.Prefs
	if val.Kind() == '"' || val.Kind() == 'n' {
		word, err := oneOf(param, val, sortWords)
		prefs.Sort = hearth.Sort(word)
		return err
	}
	if val.Kind() != '{' {
		return hearth.Invalid(param, "%s must be a word, an object or null", param)
	}
	return object(param, val, sortKeys, func(key, param string, val jsontext.Value) error {
		if key == "by" {
			word, err := oneOf(param, val, sortWords)
			prefs.Sort = hearth.Sort(word)
			return err
		}
		word, err := oneOf(param, val, []string{"model", "none"})
		if word != "" {
			d.split, prefs.AcrossModels = true, word == "none"
		}
		return err
	})
}

// distillable refuses the condition that nothing here could meet: no model declares what its author permits.
func distillable(param string, val jsontext.Value) error {
	on, err := boolean(param, val)
	if !on {
		return err
	}
	return &hearth.Error{Type: hearth.ErrUnsupported, Param: param,
		Message: "no model here declares whether its text may be used for distillation; name the models you accept in models"}
}

// quantizations reads the accepted formats of weights, in any case of letters.
func (d *decoding) quantizations(param string, val jsontext.Value) ([]string, error) {
	list, err := d.stringList(param, val, maxNames)
	for i, name := range list {
		word := strings.ToLower(name)
		if !slices.Contains(quantizations, word) {
			name, at := cleanKey([]byte(name)), fmt.Sprintf("%s[%d]", param, i)
			return nil, hearth.Invalid(at, "%s is no quantization; %s", name, meant(name, quantizations))
		}
		list[i] = word
	}
	return list, err
}
