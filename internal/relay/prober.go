package relay

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
)

const (
	probesAtOnce = 4
	probeLook    = time.Second // between two looks for who is to be probed, at most
	probeLeast   = 50 * time.Millisecond
	probeForget  = 10 * time.Minute // what was known of an endpoint that has needed none for so long
	// probeSlowest is what failures lengthen the time between two probes to: a cooldown is as long, and the next after it is
	// to be ours and not a caller's.
	probeSlowest = health.Cooldown
)

// Prober sends probes to the endpoints that may be probed and have failed: as soon as their cooldown is over, or their
// breaker lets one request through. Only a few are under way at a time, and an endpoint gets one at most every so often.
type Prober struct {
	Current func() *Relay                   // the relay of the configuration that holds
	Every   func() time.Duration            // least time between the beginnings of two probes of one endpoint
	Told    func(currency string, p Probed) // of every probe that was sent; nil = nobody is

	mu    sync.Mutex
	known map[string]*probing // by Endpoint.ID
	going int
	buf   []int
}

// probing is what is known of one endpoint.
type probing struct {
	going bool
	next  time.Time // no earlier
	fails int       // one after the other
}

// Run probes until ctx ends, and returns when no probe is under way any more.
func (p *Prober) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	p.known = make(map[string]*probing)
	t := time.NewTimer(probeLook)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			t.Reset(min(max(p.round(ctx, &all, now).Sub(now), probeLeast), probeLook))
		}
	}
}

// round sends the probes that are due now, and says when the next will be, as far as that is known.
func (p *Prober) round(ctx context.Context, all *sync.WaitGroup, now time.Time) (next time.Time) {
	r := p.Current()
	next = now.Add(probeLook)
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.known, func(_ string, k *probing) bool { return now.Sub(k.next) > probeForget }) // no probe lasts that long
	try := func(e *hearth.Endpoint) {
		k := p.known[e.ID]
		if k == nil {
			k = new(probing)
			p.known[e.ID] = k
		}
		if k.going || p.going == probesAtOnce {
			return
		}
		if k.next.After(now) {
			next = earlier(next, k.next)
			return
		}
		k.going, k.next = true, now.Add(p.gap(k.fails))
		p.going++
		all.Go(func() { p.probe(ctx, r, e, k) })
	}
	view := r.health.View()
	for i, e := range r.catalog.Endpoints {
		h := view[i]
		switch {
		case h.Skip != hearth.SkipCooldown || !e.Probed():
		case h.Out(now):
			next = earlier(next, h.Until)
		default:
			try(e)
		}
	}
	if r.router == nil || !r.opt.ByCost {
		return next
	}
	p.buf = r.router.Probes(p.buf[:0], now)
	for _, i := range p.buf {
		if e := r.catalog.Endpoints[i]; e.Probed() && view[i].Skip == "" {
			try(e)
		}
	}
	return next
}

// gap is how long an endpoint is left alone after the beginning of a probe: longer with every failure, and a bit less than
// that by chance, so that endpoints that failed together do not stay together.
func (p *Prober) gap(fails int) time.Duration {
	every := p.Every()
	d := min(every<<min(fails, 10), max(every, probeSlowest))
	return max(every, d-time.Duration(rand.Int64N(int64(d)/8+1)))
}

func (p *Prober) probe(ctx context.Context, r *Relay, e *hearth.Endpoint, k *probing) {
	got, sent := r.Probe(ctx, e)
	p.mu.Lock()
	k.going = false
	p.going--
	switch {
	case !sent:
		k.next = time.Time{} // it has had none
	case got.Outcome == health.Success:
		k.fails = 0
	default:
		k.fails++
	}
	p.mu.Unlock()
	if !sent || ctx.Err() != nil && got.Outcome == health.NoVerdict {
		return
	}
	r.log.Info("an endpoint that had failed was asked whether it answers", "endpoint", e.ID, "outcome", got.Word(), "took", got.Took, "why", got.Message, "cost", got.Cost)
	if p.Told != nil {
		p.Told(r.catalog.Currency, got)
	}
}

// Word is what came of a probe in a word.
func (p *Probed) Word() string {
	switch p.Outcome {
	case health.Success:
		return "answered"
	case health.Failure:
		return "failed"
	case health.RateLimited:
		return "rate_limited"
	case health.KeyRefused:
		return "key_refused"
	case health.NoVerdict:
	}
	return "no_verdict"
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
