package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

var providerKeys = []string{
	"order", "only", "ignore", "allow_fallbacks", "sort", "require_parameters", "data_collection", "zdr",
	"enforce_distillable_text", "quantizations", "preferred_min_throughput", "preferred_max_latency", "max_price",
}

// provider reads the caller's conditions on providers. What would narrow the choice and is not enforced is
// refused, never passed over in silence.
func (d *decoding) provider(val jsontext.Value) error {
	if val.Kind() == 'n' {
		return nil
	}
	if val.Kind() != '{' {
		return hearth.Invalid("provider", "provider must be an object or null")
	}
	var seen uint32
	s := scan{b: val}
	s.open()
	for raw, ok := s.key(); ok; raw, ok = s.key() {
		key := unquote(raw)
		i := slices.IndexFunc(providerKeys, func(k string) bool { return k == string(key) })
		if i < 0 {
			name := cleanKey(key)
			return hearth.Invalid("provider."+name, "provider has no field %s; %s", name, meant(name))
		}
		if seen&(1<<i) != 0 {
			return hearth.Invalid("provider."+providerKeys[i], "%s stands more than once in provider", providerKeys[i])
		}
		seen |= 1 << i
		if err := d.preference(providerKeys[i], jsontext.Value(s.value())); err != nil {
			return err
		}
	}
	return nil
}

// preference reads one field of the provider object.
func (d *decoding) preference(key string, val jsontext.Value) (err error) {
	param := "provider." + key
	prefs := &d.chat.Prefs
	switch key {
	case "order":
		prefs.Order, err = d.stringList(param, val, maxNames)
	case "only":
		prefs.Only, err = d.stringList(param, val, maxNames)
	case "ignore":
		prefs.Ignore, err = d.stringList(param, val, maxNames)
	case "allow_fallbacks":
		if val.Kind() != 'n' {
			var allow bool
			allow, err = boolean(param, val)
			prefs.NoFallbacks = !allow
		}
	case "sort":
		err = d.sort(val)
	case "preferred_min_throughput", "preferred_max_latency":
		switch val.Kind() {
		case 'n':
		case '0', '{':
			d.note(param + " has no effect: providers are not sorted by measured speed")
		default:
			err = hearth.Invalid(param, "%s must be a number or an object", param)
		}
	default:
		err = hardFilter(param, key, val)
	}
	return err
}

// sort reads provider.sort: a word, or an object with the word in by.
func (d *decoding) sort(val jsontext.Value) error {
	by, across := val, false
	if val.Kind() == '{' {
		by = jsontext.Value("null")
		s := scan{b: val}
		s.open()
		for raw, ok := s.key(); ok; raw, ok = s.key() {
			v := jsontext.Value(s.value())
			switch key := unquote(raw); string(key) {
			case "by":
				by = v
			case "partition":
				switch string(v) {
				case "null", `"model"`:
				case `"none"`:
					across = true
				default:
					return hearth.Invalid("provider.sort.partition", `provider.sort.partition must be "model" or "none"`)
				}
			default:
				return hearth.Invalid("provider.sort."+cleanKey(key), "provider.sort has the fields by and partition only")
			}
		}
	}
	if by.Kind() == 'n' && !across {
		return nil
	}
	word := "null"
	if by.Kind() == '"' {
		word = string(unquote(by))
	}
	switch {
	case across:
		d.note("provider.sort.partition none has no effect: the models are tried in the order of the request")
	case word == "price":
		d.chat.Prefs.Sort = hearth.Sort(word)
	case word == "throughput", word == "latency", word == "exacto":
		d.note(fmt.Sprintf("provider.sort %s has no effect: providers are not sorted by it here", word))
	default:
		return hearth.Invalid("provider.sort", `provider.sort must be "price", "throughput", "latency" or "exacto"`)
	}
	return nil
}

// hardFilter checks a condition that is not enforced: its harmless values pass, the others are refused.
func hardFilter(param, key string, val jsontext.Value) error {
	harmless, want := false, "a boolean"
	ok := val.Kind() == 't' || val.Kind() == 'f'
	switch key {
	case "data_collection":
		harmless, want = string(val) == `"allow"`, `"allow" or "deny"`
		ok = harmless || string(val) == `"deny"`
	case "quantizations":
		want = "an array of strings"
		ok = val.Kind() == '['
		s := scan{b: val}
		if ok {
			s.open()
			harmless = !s.elem()
		}
	case "max_price":
		want = "an object"
		ok = val.Kind() == '{'
	default:
		harmless = string(val) == "false"
	}
	switch {
	case harmless, val.Kind() == 'n':
		return nil
	case !ok:
		return hearth.Invalid(param, "%s must be %s or null", param, want)
	}
	return &hearth.Error{
		Type: hearth.ErrUnsupported, Param: param,
		Message: param + " cannot be enforced here, so the request is refused rather than sent where it might not hold; name the providers you accept in provider.only",
	}
}

// meant says which field of provider could have been meant, or which there are.
func meant(name string) string {
	if near := suggest.Nearest(name, providerKeys, 1); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", near[0])
	}
	return "it has " + strings.Join(providerKeys, ", ")
}
