package market

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// RandomSlotScenarios draws scenarios from all that the list is a sample of: 2 to 4 models, loads of 5 to 60 s, budgets of 30
// to 120 s, a GPU that is asked for 30 to 90 % of what it can do, and every fifth for less, at random or in bursts, alone or not. What holds for the
// list by chance does not hold for these.
func RandomSlotScenarios(n int, seed uint64) []SlotScenario {
	r := rand.New(rand.NewPCG(seed, 0x736c6f7473))
	list := make([]SlotScenario, n)
	for i := range list {
		list[i] = randomSlots(r)
		list[i].Name = strconv.FormatUint(seed, 10) + "." + strconv.Itoa(i+1) + "-" + list[i].Name
	}
	return list
}

// between draws a number whose logarithm is as likely to be here as there, to two digits.
func between(r *rand.Rand, least, most float64) float64 {
	v := least * math.Pow(most/least, r.Float64())
	step := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/step) * step
}

func randomSlots(r *rand.Rand) SlotScenario {
	s := DefaultSlotScenario()
	s.Requests = 3000
	models, even, alike := 2+r.IntN(3), r.IntN(3) == 0, r.IntN(2) == 0
	weights, sum := make([]float64, models), 0.0
	for i := range weights {
		if weights[i] = 1; !even {
			weights[i] = between(r, 1, 10)
		}
		sum += weights[i]
	}
	m := SlotModel{
		LoadTime: seconds(between(r, 5, 60)), Service: seconds(between(r, 1, 15)), Concurrency: 1 << r.IntN(4),
	}
	var shares, loads []string
	for _, w := range weights {
		if m.Share = w / sum; !alike {
			m.LoadTime = seconds(between(r, 5, 60))
		}
		s.Models = append(s.Models, m)
		shares = append(shares, strconv.FormatFloat(100*m.Share, 'f', 0, 64))
		loads = append(loads, strconv.FormatFloat(m.LoadTime.Seconds(), 'g', 3, 64))
	}
	s.Load, s.Sigma, s.Keys = 0.3+0.1*float64(r.IntN(7)), 0.5+0.25*float64(r.IntN(5)), 1+r.IntN(8)
	if r.IntN(5) == 0 {
		s.Load = between(r, 0.005, 0.3) // a card at home
	}
	arrivals, alone, greedy, b := "poisson", "alone", "", ""
	if r.IntN(2) == 0 {
		arrivals, s.Burst = "burst8", 8
	}
	for range [...]int{1, 1, 1, 3}[r.IntN(4)] {
		d := seconds(between(r, 30, 120))
		s.Budgets = append(s.Budgets, d)
		b += ":" + strconv.FormatFloat(d.Seconds(), 'g', 3, 64)
	}
	if s.Fallback = r.IntN(2) == 0; s.Fallback {
		alone = "fallback"
	}
	if s.Greedy = s.Keys > 2 && r.IntN(4) == 0; s.Greedy {
		greedy = "-greedy"
	}
	s.Name = fmt.Sprintf("%s-%s-%g-load%ss-budget%ss-%s-keys%d%s-service%vs-x%d-sigma%g", strings.Join(shares, ":"), arrivals, math.Round(1000*s.Load)/10,
		strings.Join(loads, ":"), b[1:], alone, s.Keys, greedy, m.Service.Seconds(), m.Concurrency, s.Sigma)
	return s
}
