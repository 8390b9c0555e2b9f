package market

import (
	"fmt"
	"strings"
	"time"
)

// DefaultSlotScenario is what the scenarios of the list have in common. It has no models, budget and load.
func DefaultSlotScenario() SlotScenario {
	return SlotScenario{Burst: 1, Sigma: 1, Keys: 4, Turn: 10 * time.Second, Requests: 4000}
}

// Of the requests of the list's scenarios.
const (
	listService     = 4 * time.Second
	listConcurrency = 4
)

// SlotScenarios is the list of scenarios that the gates hold for.
func SlotScenarios() []SlotScenario {
	var list []SlotScenario
	for _, line := range strings.Split(strings.TrimSpace(slotList), "\n") {
		list = append(list, parseSlots(line))
	}
	return list
}

// slotList has a line for each scenario: shares of the models in per cent, arrivals, load in per cent, load times and
// budgets in seconds, whether the GPU is alone, keys.
const slotList = `
50:50       poisson 30 15      60        alone    4
50:50       poisson 60 5       30        alone    4
50:50       poisson 60 15      60        alone    4
50:50       poisson 60 60      120       alone    4
50:50       poisson 90 15      60        alone    4
50:50       poisson 60 5       120       alone    1
80:20       poisson 60 15      60        alone    4
95:5        poisson 60 15      60        alone    4
40:30:30    poisson 60 15      120       alone    4
70:20:10    poisson 30 5:15:60 120       alone    4
25:25:25:25 poisson 60 5       60        alone    4
50:50       poisson 60 15      30:60:120 alone    6
50:50       burst8  30 15      60        alone    4
50:50       burst8  60 15      60        alone    4
50:50       burst8  60 60      120       alone    4
40:30:30    burst8  60 15      120       alone    4
40:30:20:10 burst8  30 5       30        alone    4
50:50       poisson 60 15      60        alone    8-greedy
50:50       burst8  90 5       30        alone    8-greedy
50:50       poisson 30 15      60        fallback 4
50:50       poisson 60 15      60        fallback 4
50:50       poisson 60 60      30        fallback 4
90:10       poisson 60 60      30        fallback 4
50:50       burst8  60 15      60        fallback 4
40:30:30    burst8  60 60      60        fallback 4
25:25:25:25 poisson 90 15      30        fallback 8-greedy
50:50       burst8  90 60      120       fallback 4
`

// parseSlots reads a line of slotList, which must be right.
func parseSlots(line string) SlotScenario {
	s := DefaultSlotScenario()
	f := strings.Fields(line)
	shares, loads := numbers(f[0]), numbers(f[3])
	for i, share := range shares {
		s.Models = append(s.Models, SlotModel{
			Share: float64(share) / 100, LoadTime: time.Duration(loads[i%len(loads)]) * time.Second,
			Service: listService, Concurrency: listConcurrency,
		})
	}
	if f[1] == "burst8" {
		s.Burst = 8
	}
	s.Load = float64(numbers(f[2])[0]) / 100
	for _, b := range numbers(f[4]) {
		s.Budgets = append(s.Budgets, time.Duration(b)*time.Second)
	}
	s.Fallback = f[5] == "fallback"
	keys, greedy := strings.CutSuffix(f[6], "-greedy")
	s.Keys, s.Greedy = numbers(keys)[0], greedy
	s.Name = fmt.Sprintf("%s-%s-%s-load%ss-budget%ss-%s-keys%s", f[0], f[1], f[2], f[3], f[4], f[5], f[6])
	if err := s.Check(); err != nil {
		panic(s.Name + ": " + err.Error())
	}
	return s
}

func numbers(text string) []int {
	var list []int
	for _, t := range strings.Split(text, ":") {
		n := 0
		if _, err := fmt.Sscanf(t, "%d", &n); err != nil {
			panic(err)
		}
		list = append(list, n)
	}
	return list
}
