package dialect

import "github.com/shopspring/decimal"

// ticks is how many of xAI's cost_in_usd_ticks are a dollar, as a power of ten.
const ticks = 10

// price is what a usage object says that the answer cost, in the words of each vendor.
type price struct {
	said      decimal.NullDecimal // OpenRouter's, or Perplexity's total
	estimated decimal.NullDecimal // DeepInfra's
	ticks     decimal.NullDecimal // xAI's
	inference decimal.NullDecimal // what OpenRouter's provider took from the operator's own account there
	own       bool                // of an answer that was paid from such an account
}

// text is the cost in decimal digits, "" if none was said.
func (p *price) text() string {
	switch {
	case p.said.Valid && p.own && p.inference.Valid: // then cost is OpenRouter's own fee alone
		return p.said.Decimal.Add(p.inference.Decimal).String()
	case p.said.Valid:
		return p.said.Decimal.String()
	case p.estimated.Valid:
		return p.estimated.Decimal.String()
	case p.ticks.Valid:
		return p.ticks.Decimal.Shift(-ticks).String()
	}
	return ""
}

// cost reads what stands in the place of a cost: a number, the text of one, or an object that has the total.
func (s *scan) cost() decimal.NullDecimal {
	if s.kind() != '{' {
		return money(s.value())
	}
	var total decimal.NullDecimal
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		v := s.value()
		if string(name(key)) == "total_cost" {
			total = money(v)
		}
	}
	return total
}

// details reads OpenRouter's cost_details.
func (p *price) details(s *scan) {
	if s.kind() != '{' {
		s.value()
		return
	}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		v := s.value()
		if string(name(key)) == "upstream_inference_cost" {
			p.inference = money(v)
		}
	}
}

// money reads a JSON number, or a string that is one.
func money(v []byte) decimal.NullDecimal {
	if text(v) {
		v = unquote(v)
	}
	return exactly(v)
}
