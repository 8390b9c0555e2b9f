package main

import (
	"errors"
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

// scenario is the mix; what is not given is as in the help.
func (m *slotMix) scenario() (market.SlotScenario, error) {
	s := market.DefaultSlotScenario()
	s.Name, s.Load = "own", 0.6
	set(&s.Sigma, m.Sigma)
	set(&s.Burst, m.Burst)
	set(&s.Fallback, m.Fallback)
	set(&s.Keys, m.Keys)
	set(&s.Greedy, m.Greedy)
	set(&s.Turn, m.Turn)
	var err error
	if s.Models, err = m.models(); err != nil {
		return s, err
	}
	if s.Budgets, err = times("--budget", m.Budget, "60s"); err != nil {
		return s, err
	}
	if m.Load != nil {
		s.Load = *m.Load / 100
	}
	if m.Rate != nil {
		s.Load = s.LoadOf(*m.Rate)
	}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("a mix like this cannot be played: %w", err)
	}
	return s, nil
}

func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}

func (m *slotMix) models() ([]market.SlotModel, error) {
	shares, err := shares(m.Models)
	if err != nil {
		return nil, err
	}
	loads, err := times("--load-time", m.LoadTime, "15s")
	if err != nil {
		return nil, err
	}
	services, err := times("--service", m.Service, "4s")
	if err != nil {
		return nil, err
	}
	if len(loads) > len(shares) || len(services) > len(shares) {
		return nil, fmt.Errorf("there are more times than the %s", count(len(shares), "model"))
	}
	list := make([]market.SlotModel, len(shares))
	for i := range list {
		list[i] = market.SlotModel{Share: shares[i], LoadTime: loads[i%len(loads)], Service: services[i%len(services)], Concurrency: 4}
		set(&list[i].Concurrency, m.Concurrency)
	}
	return list, nil
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
			return nil, fmt.Errorf("--models: a number from 1 to %d or shares as in 70/30, not %q", market.MaxSlotModels, text)
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
			return nil, fmt.Errorf("--models: %q is no share in per cent", p)
		}
		list = append(list, f/100)
		sum += f
	}
	if sum < 99.999 || sum > 100.001 {
		return nil, fmt.Errorf("--models: the shares add up to %v, not 100", sum)
	}
	return list, nil
}

// times reads one or more lengths of time.
func times(flag, text, without string) ([]time.Duration, error) {
	if text == "" {
		text = without
	}
	var list []time.Duration
	var errs []error
	for p := range strings.SplitSeq(text, "/") {
		d, err := time.ParseDuration(p)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %q is no length of time such as 15s", flag, p))
		}
		list = append(list, d)
	}
	return list, errors.Join(errs...)
}
