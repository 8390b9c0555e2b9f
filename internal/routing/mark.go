package routing

// Mark is a number that stays the same while the router learns nothing and sends nothing: two that are equal need no State
// between them. What is judged of an answer after it ended (see Judge) shows with the next request.
func (r *Router) Mark() uint64 {
	h := uint64(len(r.markets))
	for _, k := range r.markets {
		for _, e := range k.ends {
			for _, x := range []int64{e.sent.Load(), e.flight.Load(), e.cool.Load(), e.shut.Load()} {
				h = fold(h^prime0, uint64(x)^prime1)
			}
			e.mu.Lock()
			if e.Flag.Benchmark {
				h++
			}
			e.mu.Unlock()
		}
	}
	return h
}
