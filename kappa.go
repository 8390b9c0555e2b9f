package hearth

import (
	"strings"

	"github.com/shopspring/decimal"
)

// Kappa is what a caller's time is worth where external endpoints are ordered by cost, in thousandths: at a model's
// typical endpoint, waiting for an answer costs that part of its price, were all seconds alike. 0 = as the model's configuration says.
type Kappa int64

const (
	KappaMost     Kappa = 100_000
	KappaAttended Kappa = 2000 // somebody watches the answer come
	KappaBatch    Kappa = 100  // nobody waits
)

// TimeValue is what the key's time is worth; 0 = as the model's configuration says.
func (k *Key) TimeValue() Kappa {
	if k.Kappa == 0 && k.Class == Batch {
		return KappaBatch
	}
	return k.Kappa
}

// ParseKappa reads a decimal such as 0.85 from 0 to 100, of up to three decimals.
func ParseKappa(s string) (Kappa, error) {
	const longest = 20
	wrong := Invalid("kappa", "the value of time must be a decimal from 0.001 to 100 with up to three decimals, such as 0.85; 0 is the model's own")
	if s == "" || len(s) > longest || strings.Trim(s, "0123456789.") != "" {
		return 0, wrong
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return 0, wrong
	}
	if d = d.Shift(3); !d.IsInteger() || d.GreaterThan(decimal.NewFromInt(int64(KappaMost))) {
		return 0, wrong
	}
	return Kappa(d.IntPart()), nil
}

// String is the decimal.
func (k Kappa) String() string { return decimal.New(int64(k), -3).String() }
