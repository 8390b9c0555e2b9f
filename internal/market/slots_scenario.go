package market

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// SlotModel is one model of a scenario, with a slot of its own on the GPU.
type SlotModel struct {
	Share       float64       // of all requests; the shares of a scenario add up to 1
	LoadTime    time.Duration // from the start of its engine until that can serve; each start takes up to a tenth more or less
	Service     time.Duration // for which a request is in the engine, on average
	Concurrency int           // requests in the engine at once
}

// SlotScenario is a traffic, and a GPU that holds one of its models at a time.
type SlotScenario struct {
	Name   string
	Models []SlotModel
	// Load is the part of the time for which the GPU would work if it had every model at once and always as many
	// requests as fit into an engine: the sum over the models of rate · service / concurrency. Loads of models, drains
	// and places that nobody fills come on top.
	Load float64
	// Burst is by how much more requests come during a burst of a model than between its bursts; 1 = they always come
	// at the same rate (a Poisson process). Bursts last for burstMean on average, the time between them quietMean, both
	// exponential; each model has its own.
	Burst    float64
	Sigma    float64         // of the lognormal distribution of service times; 0 = all the same
	Budgets  []time.Duration // for which a request may wait; the keys take turns
	Fallback bool            // somebody else serves what the GPU does not
	Keys     int             // which send equally much
	Greedy   bool            // the first key sends as much as all the others together
	Turn     time.Duration   // of the node
	Requests int             // of one run, about
}

const (
	burstMean = 30 * time.Second
	quietMean = 150 * time.Second
	// stopTime is how long it takes until nothing of an engine is left.
	stopTime = time.Second
	// loadJitter is by how much of it a load takes more or less than LoadTime at most.
	loadJitter = 0.1
	// warmUp is the part of a run's requests that is not measured: it begins with an empty GPU.
	warmUp = 0.1

	minResident = 5 * time.Second // as configured by default
	queueWait   = 10 * time.Second
	queueLimit  = 64
)

// Bounds of what can be simulated in reasonable time and memory.
const (
	MaxSlotModels   = 16
	maxSlotKeys     = 1000
	maxSlotRequests = 1_000_000
)

// Check says what is wrong with a scenario, nil = nothing.
func (s *SlotScenario) Check() error {
	switch {
	case len(s.Models) < 1 || len(s.Models) > MaxSlotModels:
		return fmt.Errorf("a scenario has between 1 and %d models, not %d", MaxSlotModels, len(s.Models))
	case !(s.Load > 0 && s.Load <= 10):
		return fmt.Errorf("the load is more than 0 and at most 10, not %v", s.Load)
	case !(s.Burst >= 1 && s.Burst <= 1000):
		return fmt.Errorf("bursts are between 1 and 1000 times as dense, not %v", s.Burst)
	case !(s.Sigma >= 0 && s.Sigma <= 3):
		return fmt.Errorf("the sigma of service times is between 0 and 3, not %v", s.Sigma)
	case len(s.Budgets) == 0:
		return errors.New("a scenario has at least one budget")
	case s.Keys < 1 || s.Keys > maxSlotKeys:
		return fmt.Errorf("a scenario has between 1 and %d keys, not %d", maxSlotKeys, s.Keys)
	case s.Turn < 0 || s.Turn > time.Hour:
		return fmt.Errorf("a turn is between 0 and 1h, not %v", s.Turn)
	case s.Requests < 100 || s.Requests > maxSlotRequests:
		return fmt.Errorf("a run has between 100 and %d requests, not %d", maxSlotRequests, s.Requests)
	}
	for _, b := range s.Budgets {
		if b < time.Second || b > time.Hour {
			return fmt.Errorf("a budget is between 1s and 1h, not %v", b)
		}
	}
	sum := 0.0
	for _, m := range s.Models {
		if err := m.check(); err != nil {
			return err
		}
		sum += m.Share
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("the shares of the models add up to %v, not 1", sum)
	}
	return nil
}

func (m *SlotModel) check() error {
	switch {
	case !(m.Share > 0 && m.Share <= 1):
		return fmt.Errorf("a model's share is more than 0 and at most 1, not %v", m.Share)
	case m.LoadTime < 10*time.Millisecond || m.LoadTime > time.Hour:
		return fmt.Errorf("a load takes between 10ms and 1h, not %v", m.LoadTime)
	case m.Service < time.Millisecond || m.Service > time.Hour:
		return fmt.Errorf("a request takes between 1ms and 1h, not %v", m.Service)
	case m.Concurrency < 1 || m.Concurrency > 1024:
		return fmt.Errorf("an engine works on between 1 and 1024 requests at once, not %d", m.Concurrency)
	}
	return nil
}

// even says whether the scenario is of two models that are asked for equally often.
func (s *SlotScenario) even() bool {
	return len(s.Models) == 2 && math.Abs(s.Models[0].Share-0.5) < 1e-6
}

// LoadOf is the load that so many requests per second are.
func (s *SlotScenario) LoadOf(rate float64) float64 { return rate * s.work() }

// rate is how many requests come per second.
func (s *SlotScenario) rate() float64 { return s.Load / s.work() }

// work is what one request is of the GPU's time, in seconds.
func (s *SlotScenario) work() float64 {
	work := 0.0
	for _, m := range s.Models {
		work += m.Share * m.Service.Seconds() / float64(m.Concurrency)
	}
	return work
}

// longest is the longest budget.
func (s *SlotScenario) longest() time.Duration {
	most := time.Duration(0)
	for _, b := range s.Budgets {
		most = max(most, b)
	}
	return most
}
