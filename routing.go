package hearth

import (
	"math"
	"strconv"
)

// Routed is how one tier of external endpoints was ordered for a request: what was chosen for the first place, why, and
// what it was chosen from. Its amounts are expectations that order endpoints, never money of a bill.
type Routed struct {
	Model    string  `json:"model"`
	Priority int     `json:"priority,omitzero"`
	Endpoint string  `json:"endpoint"` // id of the one in the first place
	Reason   string  `json:"reason"`   // stick, share, explore, probe, retry, forced, only or flagged_overflow
	Share    float64 `json:"share"`    // how likely this choice was, 0 to 1: 1 when nothing was drawn
	Kappa    float64 `json:"kappa"`    // value of time it was made with
	Snapshot uint64  `json:"snapshot"` // number of the model's figures that it was made from
	// Session is the same number for all requests of one conversation that came while the gateway ran, 0 = it belongs to
	// none. It is not the caller's name for it.
	Session uint64 `json:"session,omitzero"`
	// Candidates are those of the tier in the order in which they were to be tried. Of a long tier they are the one in the
	// first place, the cheapest by price, and the next by routing cost; of one that was ordered anew after a failure there
	// are none.
	Candidates []RoutedTerms `json:"candidates,omitzero"`
}

// MaxRouted is how many candidates of a tier are recorded.
const MaxRouted = 16

// RoutedTerms is the routing cost of a request at an endpoint by its terms, each in the billing currency per good answer,
// and what it is made of.
type RoutedTerms struct {
	Endpoint string  `json:"endpoint"`               // id
	Share    float64 `json:"share,omitzero"`         // how likely it was to have the first place, 0 to 1
	Price    float64 `json:"price,omitzero"`         // what it charges, with its cache hits
	Wait     float64 `json:"wait,omitzero"`          // for the first token
	Decode   float64 `json:"decode,omitzero"`        // for the rest of the answer
	Failed   float64 `json:"failed_tries,omitzero"`  // failed tries and rate limits
	Quality  float64 `json:"quality,omitzero"`       // broken tool calls
	Later    float64 `json:"later_turns,omitzero"`   // 0 or less: what its cache is expected to save in the later turns of a conversation, where this request opens one
	Total    float64 `json:"total,omitzero"`         // what the tier is ordered by
	TTFT     float64 `json:"ttft_seconds,omitzero"`  // as expected
	Rest     float64 `json:"rest_seconds,omitzero"`  // from there to the end of the answer
	Cached   float64 `json:"cached_tokens,omitzero"` // as expected
	Tries    float64 `json:"tries,omitzero"`         // per good answer
	InFlight int     `json:"in_flight,omitzero"`     // requests under way there
	Cap      float64 `json:"cap,omitzero"`           // of requests under way, learned from rate limits; 0 = none is known
	Knee     float64 `json:"knee,omitzero"`          // requests that are served at once, learned from waits; 0 = not known
	Errors   float64 `json:"error_rate,omitzero"`    // rate of failed tries, 0 to 1
	Limits   float64 `json:"rate_429,omitzero"`      // likewise of 429s
	BadTools float64 `json:"bad_tool_rate,omitzero"` // likewise of broken tool calls

	// What a replay under other rules needs besides.
	Fixed      float64 `json:"failed_fixed,omitzero"`       // the part of Failed that does not grow with the value of time
	Ramp       float64 `json:"ramp,omitzero"`               // the part of its share that it gets while it comes back, 0 = all of it
	Explored   float64 `json:"explored,omitzero"`           // the part of Share that is for the sake of knowing
	List       float64 `json:"list_price,omitzero"`         // Price by the list alone, without cache hits
	OtherPrice float64 `json:"other_price,omitzero"`        // Price if the session's cache were elsewhere instead of here, or here instead of elsewhere; 0 = the same
	OtherTTFT  float64 `json:"other_ttft_seconds,omitzero"` // TTFT likewise
	Queue      float64 `json:"queue_seconds,omitzero"`      // the part of TTFT that is for a queue there, four times what it is

	State   string `json:"state,omitzero"`   // closed, cooling, open or half_open
	Flagged bool   `json:"flagged,omitzero"` // for a quality that the request needs
	New     bool   `json:"new,omitzero"`     // nothing was measured: these are the typical figures of the model
	Warm    bool   `json:"warm,omitzero"`    // the session's cache is here
	Holds   bool   `json:"holds,omitzero"`   // and the session stays here unless another one is cheaper by more than a little
}

// AppendChoice appends the share, the value of time, the snapshot and the session as members of a JSON object that has some already,
// the first two as Figure makes them.
func (r *Routed) AppendChoice(b []byte) []byte {
	b = appendFigure(append(b, `,"share":`...), r.Share)
	b = appendFigure(append(b, `,"kappa":`...), r.Kappa)
	b = strconv.AppendUint(append(b, `,"snapshot":`...), r.Snapshot, 10)
	if r.Session != 0 {
		b = strconv.AppendUint(append(b, `,"session":`...), r.Session, 10)
	}
	return b
}

// AppendFigures appends the figures that are not 0 as members of a JSON object that has some already, Share first and
// BadTools last, each as Figure makes it. What is no number counts as 0.
func (t *RoutedTerms) AppendFigures(b []byte) []byte {
	b = appendMember(b, `,"share":`, t.Share)
	b = appendMember(b, `,"price":`, t.Price)
	b = appendMember(b, `,"wait":`, t.Wait)
	b = appendMember(b, `,"decode":`, t.Decode)
	b = appendMember(b, `,"failed_tries":`, t.Failed)
	b = appendMember(b, `,"quality":`, t.Quality)
	b = appendMember(b, `,"later_turns":`, t.Later)
	b = appendMember(b, `,"total":`, t.Total)
	b = appendMember(b, `,"ttft_seconds":`, t.TTFT)
	b = appendMember(b, `,"rest_seconds":`, t.Rest)
	b = appendMember(b, `,"cached_tokens":`, t.Cached)
	b = appendMember(b, `,"tries":`, t.Tries)
	if t.InFlight != 0 {
		b = strconv.AppendInt(append(b, `,"in_flight":`...), int64(t.InFlight), 10)
	}
	b = appendMember(b, `,"cap":`, t.Cap)
	b = appendMember(b, `,"knee":`, t.Knee)
	b = appendMember(b, `,"error_rate":`, t.Errors)
	b = appendMember(b, `,"rate_429":`, t.Limits)
	b = appendMember(b, `,"bad_tool_rate":`, t.BadTools)
	b = appendMember(b, `,"failed_fixed":`, t.Fixed)
	b = appendMember(b, `,"ramp":`, t.Ramp)
	b = appendMember(b, `,"explored":`, t.Explored)
	b = appendMember(b, `,"list_price":`, t.List)
	b = appendMember(b, `,"other_price":`, t.OtherPrice)
	b = appendMember(b, `,"other_ttft_seconds":`, t.OtherTTFT)
	return appendMember(b, `,"queue_seconds":`, t.Queue)
}

func appendMember(b []byte, name string, x float64) []byte {
	if x == 0 || !finite(x) {
		return b
	}
	return appendFigure(append(b, name...), x)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// tens are the powers of ten from 1e-18 to 1e18.
var tens = [...]float64{1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1,
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

const one = 18 // place of 1 in tens

// figureDigits is how many digits of a figure are kept.
const figureDigits = 4

// scaled is a positive x as an integer of figureDigits digits times ten to the power of exp; ok is false where tens do not
// reach.
func scaled(x float64) (digits uint64, exp int, ok bool) {
	if !(x >= 1e-12 && x < 1e15) {
		return 0, 0, false
	}
	two := int(math.Float64bits(x)>>52) - 1023
	exp = two*1233>>12 - (figureDigits - 1) // log10(2) is 1233/4096: the exponent is right or one too low
	digits = uint64(x*tens[one-exp] + 0.5)
	if digits >= 10_000 {
		exp++
		digits = uint64(x*tens[one-exp] + 0.5)
	}
	return digits, exp, true
}

// Figure is x with four significant digits, which is what records keep of figures; 0 if x is no finite number.
func Figure(x float64) float64 {
	if digits, exp, ok := scaled(math.Abs(x)); ok {
		f := float64(digits)
		if exp > 0 {
			f *= tens[one+exp]
		} else {
			f /= tens[one-exp]
		}
		return math.Copysign(f, x)
	}
	if x == 0 || !finite(x) {
		return 0
	}
	var text [32]byte
	f, err := strconv.ParseFloat(string(strconv.AppendFloat(text[:0], x, 'e', figureDigits-1, 64)), 64)
	if err != nil { // rounded past the largest number
		return math.Copysign(math.MaxFloat64, x)
	}
	return f
}

// appendFigure appends Figure of x as the shortest JSON number that reads back as it, as ECMAScript writes numbers.
func appendFigure(b []byte, x float64) []byte {
	digits, exp, ok := scaled(math.Abs(x))
	if !ok {
		return appendFar(b, Figure(x))
	}
	if x < 0 {
		b = append(b, '-')
	}
	d := [figureDigits]byte{'0' + byte(digits/1000), '0' + byte(digits/100%10), '0' + byte(digits/10%10), '0' + byte(digits%10)}
	n := figureDigits
	for d[n-1] == '0' {
		n--
	}
	whole := figureDigits + exp // digits before the point
	switch {
	case whole >= n:
		b = append(b, d[:n]...)
		for ; whole > n; whole-- {
			b = append(b, '0')
		}
		return b
	case whole > 0:
		b = append(append(b, d[:whole]...), '.')
		return append(b, d[whole:n]...)
	case whole > -6:
		b = append(b, "0.00000"[:2-whole]...)
		return append(b, d[:n]...)
	}
	if b = append(b, d[0]); n > 1 {
		b = append(append(b, '.'), d[1:n]...)
	}
	return strconv.AppendInt(append(b, 'e'), int64(whole-1), 10)
}

// appendFar appends a number that tens do not reach.
func appendFar(b []byte, x float64) []byte {
	size := math.Abs(x)
	if size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(b, x, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, x, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // e-09 is written e-9
		b = append(b[:n-2], b[n-1])
	}
	return b
}
