package routing

import (
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// list is a price list in numbers, per token, image and request in the billing currency: for ordering, never for a bill.
type list struct {
	above          float64 // holds for prompts of more tokens than that
	prompt, cached float64
	dearer         float64 // a token written to the cache, than one that is not
	completion     float64
	image, request float64
}

// listsAt are the price lists of an endpoint that hold at a time, in the order in which they are to be looked through:
// the first whose prompt is exceeded holds.
func listsAt(e *hearth.Endpoint, now time.Time) []list {
	var out []list
	for i := range e.Steps {
		t := &e.Steps[i]
		if !t.Hours.Contain(now) {
			continue
		}
		out = append(out, listOf(t.Price, t.Above))
		if t.Above == 0 {
			return out
		}
	}
	return append(out, listOf(e.Price, 0))
}

func listOf(p hearth.Price, above int) list {
	per := func(d decimal.Decimal) float64 { return d.Shift(-6).InexactFloat64() }
	l := list{
		prompt: per(p.Prompt), cached: per(p.CacheRead), dearer: per(p.CacheWrite) - per(p.Prompt), completion: per(p.Completion),
		image: p.Image.InexactFloat64(), request: p.Request.InexactFloat64(),
	}
	l.above = -1
	if above > 0 {
		l.above = float64(above)
	}
	return l
}

// sameHours says whether the lists of an endpoint hold all day, so that they need no second look.
func sameHours(e *hearth.Endpoint) bool {
	for i := range e.Steps {
		if h := e.Steps[i].Hours; h.From != h.To {
			return false
		}
	}
	return true
}
