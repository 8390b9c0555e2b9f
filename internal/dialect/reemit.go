package dialect

import (
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// dollarDigits is how many decimals a price bound in US dollars has at most.
const dollarDigits = 12

// appendProvider writes OpenRouter's provider object, with a comma behind it, from those of the caller's conditions that
// hold at the upstream as they do here; nothing if there are none. The price bounds are divided by rate, to US dollars,
// and rounded down: what is bought costs the caller no more than was said.
func appendProvider(dst []byte, p *hearth.Preferences, rate decimal.Decimal) []byte {
	from := len(dst)
	dst = append(dst, `"provider":{`...)
	first := len(dst)
	if p.NoCollection {
		dst = append(dst, `"data_collection":"deny",`...)
	}
	if p.ZDR {
		dst = append(dst, `"zdr":true,`...)
	}
	if p.RequireParams {
		dst = append(dst, `"require_parameters":true,`...)
	}
	if len(p.Quantizations) > 0 {
		dst = append(dst, `"quantizations":[`...)
		for _, q := range p.Quantizations {
			dst = append(appendQuoted(dst, q), ',')
		}
		dst = append(dst[:len(dst)-1], `],`...)
	}
	if p.MaxPrice.Set() && rate.IsPositive() {
		dst = append(dst, `"max_price":{`...)
		for _, bound := range [...]struct {
			key string
			is  decimal.NullDecimal
		}{{"prompt", p.MaxPrice.Prompt}, {"completion", p.MaxPrice.Completion}, {"image", p.MaxPrice.Image}, {"request", p.MaxPrice.Request}} {
			if bound.is.Valid {
				dollars, _ := bound.is.Decimal.QuoRem(rate, dollarDigits)
				dst = append(appendQuoted(dst, bound.key), ':')
				dst = append(appendQuoted(dst, dollars.String()), ',')
			}
		}
		dst = append(dst[:len(dst)-1], `},`...)
	}
	if len(dst) == first {
		return dst[:from]
	}
	return append(dst[:len(dst)-1], `},`...)
}
