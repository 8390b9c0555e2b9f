package meter

import (
	"math"
	"math/bits"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

const maxInt64 = math.MaxInt64

// uint128 is an unsigned integer of 128 bits.
type uint128 struct{ hi, lo uint64 }

func (a uint128) add(b uint128) (sum uint128, ok bool) {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, carry := bits.Add64(a.hi, b.hi, carry)
	return uint128{hi, lo}, carry == 0
}

func mul(a, b uint64) uint128 {
	hi, lo := bits.Mul64(a, b)
	return uint128{hi, lo}
}

// powersOfTen are the powers of ten that fit into uint64.
var powersOfTen = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// integer is a price as a whole number of 10^exp; false if it is negative or too long for that.
func integer(d decimal.Decimal) (v uint64, exp int32, ok bool) {
	if d.NumDigits() > 18 || d.Sign() < 0 {
		return 0, 0, false
	}
	v, exp = uint64(d.CoefficientInt64()), d.Exponent()
	if v == 0 {
		return 0, 0, true
	}
	return v, exp, true
}

// integerSum is exactSum in integers: both sums are whole numbers of 10^exp. False: the numbers are too long for
// 128 bits.
func integerSum(p *hearth.Price, c tokens) (prompt, total uint128, exp int32, ok bool) {
	const perOne = 1_000_000 // of what is charged by the piece: as if per million of tokens
	if c.images > maxInt64/perOne {
		return prompt, total, 0, false
	}
	terms := [...]struct {
		price *decimal.Decimal
		n     int64
	}{
		{&p.Prompt, c.prompt}, {&p.CacheRead, c.cacheRead}, {&p.CacheWrite, c.cacheWrite},
		{&p.Request, perOne}, {&p.Image, c.images * perOne},
		{&p.Completion, c.completion}, {&p.Reasoning, c.reasoning},
	}
	const promptTerms = 5
	var coef [len(terms)]uint64
	var exps [len(terms)]int32
	for i, t := range terms {
		if t.n == 0 {
			continue
		}
		if coef[i], exps[i], ok = integer(*t.price); !ok {
			return prompt, total, 0, false
		}
		if coef[i] != 0 {
			exp = min(exp, exps[i])
		}
	}
	for i, t := range terms {
		if i == promptTerms {
			prompt = total
		}
		if coef[i] == 0 {
			continue
		}
		up := exps[i] - exp
		if int(up) >= len(powersOfTen) {
			return prompt, total, 0, false
		}
		scaled := mul(coef[i], powersOfTen[up])
		if scaled.hi != 0 {
			return prompt, total, 0, false
		}
		if total, ok = total.add(mul(scaled.lo, uint64(t.n))); !ok {
			return prompt, total, 0, false
		}
	}
	return prompt, total, exp - 6, true
}

// fastCost is exactCost for prices of common length, without allocations.
func fastCost(p *hearth.Price, c tokens) (prompt, total hearth.Nano, ok bool) {
	promptSum, totalSum, exp, ok := integerSum(p, c)
	if !ok {
		return 0, 0, false
	}
	if prompt, ok = roundNano(promptSum, exp, halfEven); !ok {
		return 0, 0, false
	}
	total, ok = roundNano(totalSum, exp, halfEven)
	return prompt, total, ok
}

// The ways to round: half to even as bills are, and up as what is held back is.
const (
	halfEven = iota
	up
)

// roundNano rounds v × 10^exp to 10⁻⁹; false if the numbers get too long.
func roundNano(v uint128, exp int32, how int) (hearth.Nano, bool) {
	shift := exp + 9 // v × 10^shift nano-units
	if shift >= 0 {
		if int(shift) >= len(powersOfTen) || v.hi != 0 {
			return 0, false
		}
		r := mul(v.lo, powersOfTen[shift])
		return hearth.Nano(r.lo), r.hi == 0 && r.lo <= maxInt64
	}
	if int(-shift) >= len(powersOfTen) {
		return 0, false
	}
	unit := powersOfTen[-shift]
	if v.hi >= unit {
		return 0, false
	}
	quo, rem := bits.Div64(v.hi, v.lo, unit)
	half := unit / 2 // unit is even: at least 10
	if how == up && rem > 0 || how == halfEven && (rem > half || rem == half && quo&1 == 1) {
		quo++
	}
	return hearth.Nano(quo), quo <= maxInt64
}
