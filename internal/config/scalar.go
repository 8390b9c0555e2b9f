package config

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/shopspring/decimal"
)

// scalar reads a single value. Numbers are read from their text, never through a float.
func (d *decoder) scalar(path string, n ast.Node, v reflect.Value, r fieldRules) {
	if absent(n) {
		d.add(path, "has no value", "give it one or remove the line")
		return
	}
	text, ok := scalarText(n)
	if !ok {
		d.add(path, "must be a single value, "+kindOf(n), "")
		return
	}
	if v.Kind() == reflect.String {
		d.text(path, text, v, r)
		return
	}
	if err := setText(v, text); err != nil {
		d.add(path, err.message, err.remedy)
		return
	}
	if bound := outside(v, r); bound != "" {
		d.add(path, bound, "")
	}
}

// text reads text: environment variables are put in, and the words allowed are checked.
func (d *decoder) text(path, text string, v reflect.Value, r fieldRules) {
	secret := v.Type() == secretType
	if strings.Contains(text, "${env:") {
		if r.env == "" {
			d.add(path, "holds ${env:…}, which is not replaced here", "write the value itself")
			return
		}
		var ok bool
		if text, ok = d.expand(path, text, r.env == "filled"); !ok {
			return
		}
	} else if secret && text != "" {
		d.literal[path] = true
	}
	if r.enum != "" {
		words := strings.Fields(r.enum)
		for _, w := range words {
			if text == w {
				v.SetString(text)
				return
			}
		}
		d.add(path, "must be one of: "+strings.Join(words, ", "), "")
		return
	}
	v.SetString(text)
}

var (
	reference = regexp.MustCompile(`\$\{env:([^}]*)(\}?)`)
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expand puts in the environment variables that text names; none may be empty if it must be filled.
func (d *decoder) expand(path, text string, fill bool) (string, bool) {
	good := true
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		name := m[1]
		if m[2] == "" || len(name) > maxShown || !envName.MatchString(name) {
			d.add(path, "holds a malformed ${env:…}", "write ${env:NAME}, with letters, digits and _ in the name")
			good = false
			return ""
		}
		value, ok := d.getenv(name)
		if ok && (value != "" || !fill) {
			return value
		}
		message, remedy := "needs the environment variable "+name+", which is not set", "export "+name+"=…"
		if ok {
			message = "needs the environment variable " + name + ", which is empty"
		}
		for _, key := range []string{"api_key", "token"} {
			if fill && strings.HasSuffix(path, "."+key) {
				remedy += " or use " + key + "_file"
			}
		}
		d.add(path, message, remedy)
		good = false
		return ""
	})
	return out, good
}

// scalarText is the text of a single value as it stands in the file, without its quotes.
func scalarText(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// fault is what is wrong with the text of a value.
type fault struct{ message, remedy string }

// setText reads text into v, which is no string.
func setText(v reflect.Value, text string) *fault {
	switch v.Type() {
	case durationType:
		return setDuration(v, text)
	case sizeType:
		return setSize(v, text)
	case decimalType:
		return setDecimal(v, text)
	case marginType:
		return setMargin(v, text)
	}
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return &fault{"must be true or false", ""}
		}
		v.SetBool(text == "true")
	default:
		n, err := strconv.Atoi(text)
		if err != nil {
			return &fault{"must be a whole number, not " + quote(text), "write it with digits only"}
		}
		v.SetInt(int64(n))
	}
	return nil
}

var daysText = regexp.MustCompile(`^[0-9]{1,5}d$`)

func setDuration(v reflect.Value, text string) *fault {
	if daysText.MatchString(text) {
		days, _ := strconv.Atoi(strings.TrimSuffix(text, "d")) // a few digits
		v.SetInt(int64(days) * int64(24*time.Hour))
		return nil
	}
	t, err := time.ParseDuration(text)
	if err != nil {
		return &fault{"must be a duration, not " + quote(text), "write a number with its unit, such as 500ms, 90s, 10m, 2h or 30d"}
	}
	v.SetInt(int64(t))
	return nil
}

var (
	sizeText  = regexp.MustCompile(`^([0-9]{1,15}) ?(B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)?$`)
	sizeUnits = map[string]int64{
		"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
)

func setSize(v reflect.Value, text string) *fault {
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return &fault{"must be a size, not " + quote(text), "write a whole number with its unit, such as 64MiB or 1GiB"}
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/sizeUnits[m[2]] {
		return &fault{"is too large a size", ""}
	}
	v.SetInt(n * sizeUnits[m[2]])
	return nil
}

var decimalText = regexp.MustCompile(`^[+-]?[0-9]{1,18}(\.[0-9]{1,18})?$`)

func parseDecimal(text string) (decimal.Decimal, *fault) {
	if !decimalText.MatchString(text) {
		return decimal.Decimal{}, &fault{
			"must be a decimal number, not " + quote(text),
			"write digits and a point, such as 30 or 0.125: no exponent, no separators, at most 18 digits on either side",
		}
	}
	n, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Decimal{}, &fault{"must be a decimal number", ""}
	}
	return n, nil
}

func setDecimal(v reflect.Value, text string) *fault {
	n, f := parseDecimal(text)
	if f == nil {
		v.Set(reflect.ValueOf(n))
	}
	return f
}

// setMargin reads "5%" and "0.05" as the same share. A plain number above 1 is refused, as it is nearly always
// a percentage without its sign.
func setMargin(v reflect.Value, text string) *fault {
	digits, percent := strings.CutSuffix(text, "%")
	n, f := parseDecimal(strings.TrimSpace(digits))
	if f != nil {
		return &fault{"must be a share, not " + quote(text), "write 5% or 0.05"}
	}
	if percent {
		n = n.Shift(-2)
	} else if n.GreaterThan(decimal.New(1, 0)) {
		return &fault{fmt.Sprintf("would add %s times the price", n), fmt.Sprintf("write %s%% if per cent is meant, else %s%%", n, n.Shift(2))}
	}
	v.Set(reflect.ValueOf(Margin{n}))
	return nil
}

// outside says how v breaks the bounds of its field, "" if it does not.
func outside(v reflect.Value, r fieldRules) string {
	low, high := compare(v, r.min) < 0, compare(v, r.max) > 0
	if !low && !high {
		return ""
	}
	switch {
	case r.max == "" && r.min == "0":
		return "must not be negative"
	case r.max == "":
		return "must be at least " + r.min
	}
	return "must lie between " + r.min + " and " + r.max
}

// compare orders v and a bound; an absent bound is equal to everything.
func compare(v reflect.Value, bound string) int {
	if bound == "" {
		return 0
	}
	b := reflect.New(v.Type()).Elem()
	if f := setText(b, bound); f != nil {
		panic("config: bound " + bound + " of " + v.Type().String() + ": " + f.message)
	}
	switch v.Type() {
	case decimalType:
		return v.Interface().(decimal.Decimal).Cmp(b.Interface().(decimal.Decimal))
	case marginType:
		return v.Interface().(Margin).Cmp(b.Interface().(Margin).Decimal)
	}
	switch x, y := v.Int(), b.Int(); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
