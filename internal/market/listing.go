package market

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Listing is what is known of an endpoint from the outside.
type Listing struct {
	Name  string
	In    float64 // $ per 1,000,000 prompt tokens
	Out   float64 // $ per 1,000,000 completion tokens
	Cache float64 // $ per 1,000,000 prompt tokens read from its cache
	TTFT  float64 // median time to the first token, seconds
	TPS   float64 // median output tokens per second after it
	// Uptime is the share of tries over a day that succeed, 0 to 1.
	Uptime float64
}

// Bounds of a listing. What lies outside is a mistake of the file.
const (
	maxListings = 1000
	maxPrice    = 1e6
	maxTTFT     = 120.0
	leastTPS    = 0.1
	maxTPS      = 1e6
)

// blended is the price of a million tokens of which three in four are prompt, which is how price lists are compared.
func (l *Listing) blended() float64 { return (3*l.In + l.Out) / 4 }

// Shape is what a generated market looks like: the spread of its endpoints and how its figures go together, as measured on
// public lists of providers.
type Shape struct {
	Price        float64 // median blended price, $ per 1,000,000 tokens
	PriceSpread  float64 // standard deviation of its logarithm: 0.2 to 0.87 on real markets
	TPS          float64 // median, tokens per second
	SpeedSpread  float64 // 0.5 to 1.4
	TTFT         float64 // median, seconds
	WaitSpread   float64 // 0.35 to 0.77
	OutputFactor float64 // output price over input price
	CacheFactor  float64 // cache price over input price
}

// Typical is a market of the middle.
func Typical() Shape {
	return Shape{Price: 0.6, PriceSpread: 0.5, TPS: 60, SpeedSpread: 0.65, TTFT: 0.9, WaitSpread: 0.6, OutputFactor: 3, CacheFactor: 0.2}
}

// Correlations of the logarithms of price, speed and wait.
const (
	priceSpeed = 0.4
	speedWait  = -0.6
)

// Draw makes a market of n endpoints.
func (s Shape) Draw(r *rand.Rand, n int) []Listing {
	side := math.Sqrt(1 - priceSpeed*priceSpeed)
	across := speedWait / side // of what is left of the speed when the price is known: price and wait do not go together
	rest := math.Sqrt(1 - across*across)
	list := make([]Listing, n)
	for i := range list {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		price := s.Price * math.Exp(s.PriceSpread*a)
		in := price * 4 / (3 + s.OutputFactor)
		list[i] = Listing{
			Name: fmt.Sprintf("p%02d", i+1),
			In:   in, Out: in * s.OutputFactor, Cache: in * s.CacheFactor,
			TPS:    clamp(s.TPS*math.Exp(s.SpeedSpread*(priceSpeed*a+side*b)), 3, 2000),
			TTFT:   clamp(s.TTFT*math.Exp(s.WaitSpread*(across*b+rest*c)), 0.1, 20),
			Uptime: 1 - clamp(0.006*math.Exp(1.2*r.NormFloat64()), 0.0005, 0.16),
		}
	}
	return list
}

// typical are the medians of a market's lists.
func typical(list []Listing) (blended, ttft, tps float64) {
	return median(list, (*Listing).blended), median(list, func(l *Listing) float64 { return l.TTFT }), median(list, func(l *Listing) float64 { return l.TPS })
}

func median(list []Listing, of func(*Listing) float64) float64 {
	v := make([]float64, len(list))
	for i := range list {
		v[i] = of(&list[i])
	}
	slices.SortFunc(v, cmp.Compare[float64])
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func clamp(v, least, most float64) float64 { return min(max(v, least), most) }
