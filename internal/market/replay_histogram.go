package market

import "math"

// histogram counts on a scale of sixteen steps to the double. Only what is used has memory.
type histogram struct {
	low    int // of counts[0]
	counts []float64
}

const (
	stepsPerDouble = 16
	lowestStep     = -20 * stepsPerDouble
	highestStep    = 22 * stepsPerDouble
)

func stepOf(x float64) int {
	if !(x > 0) {
		return lowestStep
	}
	return int(clamp(math.Floor(math.Log2(x)*stepsPerDouble), lowestStep, highestStep))
}

func (h *histogram) add(x, weight float64) {
	if weight > 0 {
		h.put(stepOf(x), weight)
	}
}

func (h *histogram) put(step int, weight float64) {
	switch {
	case len(h.counts) == 0:
		h.low, h.counts = step, append(h.counts, 0)
	case step < h.low:
		h.counts = append(make([]float64, h.low-step, h.low-step+len(h.counts)), h.counts...)
		h.low = step
	}
	for step-h.low >= len(h.counts) {
		h.counts = append(h.counts, 0)
	}
	h.counts[step-h.low] += weight
}

func (h *histogram) total() (sum float64) {
	for _, n := range h.counts {
		sum += n
	}
	return sum
}

// join adds what another one counted, each by a factor.
func (h *histogram) join(o *histogram, factor float64) {
	for i, n := range o.counts {
		if n > 0 {
			h.put(o.low+i, n*factor)
		}
	}
}

// times adds the products of what x and y counted: the histogram of a product of independent numbers.
func (h *histogram) times(x, y *histogram) {
	all := y.total()
	if all <= 0 {
		h.join(x, 1)
		return
	}
	for i, n := range x.counts {
		for k, m := range y.counts {
			if n > 0 && m > 0 { // of two numbers within a step each, the product is half a step above the sum of their steps
				h.put(x.low+i+y.low+k, n*m/all/2)
				h.put(x.low+i+y.low+k+1, n*m/all/2)
			}
		}
	}
}

// at is the value that a part p of what was counted does not exceed; 0 if nothing was.
func (h *histogram) at(p float64) float64 {
	left := p * h.total()
	for i, n := range h.counts {
		if n > 0 && left <= n {
			return math.Exp2((float64(h.low+i) + left/n) / stepsPerDouble)
		}
		left -= n
	}
	if len(h.counts) == 0 {
		return 0
	}
	return math.Exp2(float64(h.low+len(h.counts)) / stepsPerDouble)
}
