package dialect

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

var (
	percentileKeys = []string{"p50", "p75", "p90", "p99"}
	maxPriceKeys   = []string{"prompt", "completion", "image", "request", "audio"}
)

// percentiles reads a bar on a measured figure: a number, which is meant for the median, or an object of them.
func percentiles(param string, val jsontext.Value) (p hearth.Percentiles, err error) {
	switch val.Kind() {
	case '0':
		p.P50, err = figure(param, val)
		return p, err
	case '{', 'n':
	default:
		return p, hearth.Invalid(param, "%s must be a number, an object of percentiles or null", param)
	}
	err = object(param, val, percentileKeys, func(key, param string, val jsontext.Value) error {
		n, err := figure(param, val)
		switch key {
		case "p50":
			p.P50 = n
		case "p75":
			p.P75 = n
		case "p90":
			p.P90 = n
		case "p99":
			p.P99 = n
		}
		return err
	})
	return p, err
}

// figure reads a number that is not negative; null is 0.
func figure(param string, val jsontext.Value) (float64, error) {
	if val.Kind() == 'n' {
		return 0, nil
	}
	n, err := strconv.ParseFloat(string(val), 64)
	if val.Kind() != '0' || err != nil || n < 0 {
		return 0, hearth.Invalid(param, "%s must be a number from 0 on, or null", param)
	}
	return n, nil
}

// maxPrice reads the bounds on an endpoint's prices.
func (d *decoding) maxPrice(param string, val jsontext.Value) error {
	prices := &d.chat.Prefs.MaxPrice
	return object(param, val, maxPriceKeys, func(key, param string, val jsontext.Value) (err error) {
		switch key {
		case "prompt":
			prices.Prompt, err = amount(param, val)
		case "completion":
			prices.Completion, err = amount(param, val)
		case "image":
			prices.Image, err = amount(param, val)
		case "request":
			prices.Request, err = amount(param, val)
		case "audio":
			var bound decimal.NullDecimal
			if bound, err = amount(param, val); bound.Valid {
				d.note("provider.max_price.audio ignored: no endpoint here has a price for sound")
			}
		}
		return err
	})
}

// amount reads an exact amount of money that is not negative, from a number or a string that spells one.
func amount(param string, val jsontext.Value) (decimal.NullDecimal, error) {
	text := []byte(val)
	switch val.Kind() {
	case 'n':
		return decimal.NullDecimal{}, nil
	case '"':
		text = unquote(val)
	}
	if d := exactly(text); d.Valid {
		return d, nil
	}
	return decimal.NullDecimal{}, hearth.Invalid(param, "%s must be a number from 0 on, as a number or a string, or null", param)
}

// exactly reads a number that is not negative digit by digit; it is not valid if text is none. Its size is bounded, for
// the cost of computing with it is not.
func exactly(text []byte) (none decimal.NullDecimal) {
	const maxText, maxExp = 64, 32
	s := scan{b: text}
	if len(text) > maxText {
		return none
	}
	s.number()
	d, err := decimal.NewFromString(string(text))
	if s.bad || s.i < len(text) || err != nil || d.IsNegative() || d.Exponent() < -maxExp || d.Exponent() > maxExp {
		return none
	}
	return decimal.NewNullDecimal(d)
}
