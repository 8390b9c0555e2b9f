package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"myip.co.kr/hearth/internal/market"
)

// slotMix are the flags of a scenario that is not of the list. All are texts or pointers: only what is given makes one.
type slotMix struct {
	Models      string         `placeholder:"SHARES" help:"Models: how many, or the shares of the requests in per cent as in 70/20/10 (default: 2)."`
	LoadTime    string         `placeholder:"TIMES" help:"How long a load takes, for each model as in 5s/15s/60s (default: 15s)."`
	Service     string         `placeholder:"TIMES" help:"How long a request is in an engine on average, for each model (default: 4s)."`
	Concurrency *int           `placeholder:"N" help:"Requests that an engine works on at once (default: 4)."`
	Sigma       *float64       `placeholder:"X" help:"How long the tail of the service times is: sigma of their lognormal distribution (default: 1)."`
	Rate        *float64       `xor:"much" placeholder:"X" help:"Requests per second, of all models together."`
	Load        *float64       `xor:"much" placeholder:"PERCENT" help:"Requests as many as keep the GPU busy for that part of the time, if it had every model loaded and every engine full (default: 60)."`
	Burst       *float64       `placeholder:"X" help:"How much denser requests for a model come during its bursts of 30 s, with 150 s between them on average (default: 1, no bursts)."`
	Budget      string         `placeholder:"TIMES" help:"How long requests may wait; of several budgets, as in 30s/60s, the keys take turns (default: 60s)."`
	Fallback    *bool          `help:"Somebody else serves what the GPU does not."`
	Keys        *int           `placeholder:"N" help:"API keys that send requests, equally many (default: 4)."`
	Greedy      *bool          `help:"The first key sends as many as all others together."`
	Turn        *time.Duration `placeholder:"TIME" help:"The node's turn (default: 10s)."`
}

// given says whether there is a mix at all.
func (m *slotMix) given() bool { return *m != slotMix{} }

// scenario is the mix; what is not given is as in the help. An error names the flag that is to blame.
func (m *slotMix) scenario() (market.SlotScenario, error) {
	s := market.DefaultSlotScenario()
	s.Name, s.Load, s.Budgets = "own", 0.6, []time.Duration{time.Minute}
	for _, flag := range []struct {
		name string
		read func() error
	}{
		{"models", func() (err error) { s.Models, err = slotModels(m.Models); return err }},
		{"load-time", func() error {
			return forModels(&s, m.LoadTime, func(to *market.SlotModel, d time.Duration) { to.LoadTime = d })
		}},
		{"service", func() error {
			return forModels(&s, m.Service, func(to *market.SlotModel, d time.Duration) { to.Service = d })
		}},
		{"concurrency", func() error {
			for i := range s.Models {
				set(&s.Models[i].Concurrency, m.Concurrency)
			}
			return nil
		}},
		{"budget", func() (err error) { s.Budgets, err = times(m.Budget, s.Budgets); return err }},
		{"sigma", func() error { set(&s.Sigma, m.Sigma); return nil }},
		{"burst", func() error { set(&s.Burst, m.Burst); return nil }},
		{"keys", func() error { set(&s.Keys, m.Keys); return nil }},
		{"turn", func() error { set(&s.Turn, m.Turn); return nil }},
		{"load", func() error { return m.load(&s) }},
		{"rate", func() error { return m.rate(&s) }},
	} {
		err := flag.read()
		if err == nil {
			err = s.Check() // it was all right before this flag
		}
		if err != nil {
			return s, fmt.Errorf("--%s: %w", flag.name, err)
		}
	}
	set(&s.Fallback, m.Fallback)
	set(&s.Greedy, m.Greedy)
	return s, nil
}

func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}

// load reads a load in per cent.
func (m *slotMix) load(s *market.SlotScenario) error {
	if m.Load == nil {
		return nil
	}
	s.Load = *m.Load / 100
	if err := s.Check(); err != nil {
		return fmt.Errorf("%v per cent cannot be played: %w", *m.Load, err)
	}
	return nil
}

// rate reads how many requests come per second.
func (m *slotMix) rate(s *market.SlotScenario) error {
	if m.Rate == nil {
		return nil
	}
	if !(*m.Rate > 0) {
		return fmt.Errorf("more than 0 requests per second, not %v", *m.Rate)
	}
	s.Load = s.LoadOf(*m.Rate)
	if err := s.Check(); err != nil {
		return fmt.Errorf("%v requests per second cannot be played: %w", *m.Rate, err)
	}
	return nil
}

// slotModels reads models, with all else as in the help.
func slotModels(text string) ([]market.SlotModel, error) {
	shares, err := shares(text)
	if err != nil {
		return nil, err
	}
	list := make([]market.SlotModel, len(shares))
	for i, share := range shares {
		list[i] = market.SlotModel{Share: share, LoadTime: 15 * time.Second, Service: 4 * time.Second, Concurrency: 4}
	}
	return list, nil
}

// forModels reads a time for each model; where there are fewer they are taken in turn.
func forModels(s *market.SlotScenario, text string, to func(*market.SlotModel, time.Duration)) error {
	list, err := times(text, nil)
	if err != nil || list == nil {
		return err
	}
	if len(list) > len(s.Models) {
		return fmt.Errorf("%d times are more than the %s", len(list), count(len(s.Models), "model"))
	}
	for i := range s.Models {
		to(&s.Models[i], list[i%len(list)])
	}
	return nil
}

// shares reads a number of models, or their shares in per cent.
func shares(text string) ([]float64, error) {
	if text == "" {
		text = "2"
	}
	parts := strings.Split(text, "/")
	if len(parts) == 1 {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > market.MaxSlotModels {
			return nil, fmt.Errorf("a number from 1 to %d or shares as in 70/30, not %q", market.MaxSlotModels, text)
		}
		list := make([]float64, n)
		for i := range list {
			list[i] = 1 / float64(n)
		}
		return list, nil
	}
	var list []float64
	sum := 0.0
	for _, p := range parts {
		f, err := strconv.ParseFloat(p, 64)
		if err != nil || !(f > 0 && f <= 100) {
			return nil, fmt.Errorf("%q is no share in per cent", p)
		}
		list = append(list, f/100)
		sum += f
	}
	if sum < 99.999 || sum > 100.001 {
		return nil, fmt.Errorf("the shares add up to %v, not 100", sum)
	}
	return list, nil
}

// times reads one or more lengths of time; no text is those that are there without it.
func times(text string, without []time.Duration) ([]time.Duration, error) {
	if text == "" {
		return without, nil
	}
	var list []time.Duration
	var wrong []string
	for p := range strings.SplitSeq(text, "/") {
		d, err := time.ParseDuration(p)
		if err != nil || d <= 0 {
			wrong = append(wrong, strconv.Quote(p))
		}
		list = append(list, d)
	}
	switch len(wrong) {
	case 0:
		return list, nil
	case 1:
		return nil, fmt.Errorf("%s is no length of time such as 15s", wrong[0])
	}
	return nil, fmt.Errorf("%s are no lengths of time such as 15s", strings.Join(wrong, " and "))
}
