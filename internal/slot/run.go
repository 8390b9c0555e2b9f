package slot

import (
	"context"
	"errors"
	"time"

	"myip.co.kr/hearth"
)

// Pace of the questions whether an engine is ready. The interval grows by half each time; while somebody waits it
// stays small enough that a ready engine is noticed within 30 ms.
const (
	pollFirst   = 10 * time.Millisecond
	pollWaiting = 25 * time.Millisecond
	pollMax     = 250 * time.Millisecond
	probeLimit  = 5 * time.Second  // one probe
	checkEvery  = 10 * time.Second // probes of a ready engine
	stopRetry   = time.Second      // after a stop that failed
)

// run is one engine from the decision to start it until nothing of it is left. It has its own goroutine, which
// may wait as long as a driver makes it wait, and tells the node at most evReady and then exactly one evEnded.
type run struct {
	node *node
	slot int
	id   uint64
	conf *hearth.Slot
}

// live starts the engine, watches it, and stops it when ctx ends.
func (r *run) live(ctx context.Context) {
	eng, err := r.node.drivers[r.slot].Start(ctx, r.conf)
	if err != nil {
		r.givenUp(ctx, nil)
		r.ended(ctx, err, nil)
		return
	}
	err = r.poll(ctx, eng)
	if err == nil {
		r.node.tell(message{event: event{kind: evReady, slot: r.slot, run: r.id}, engine: eng})
		err = r.check(ctx, eng)
	}
	r.givenUp(ctx, eng) // before the engine logs its end
	r.clear(eng)
	r.ended(ctx, err, eng)
}

// poll waits until the engine is ready; an error says why it will not be.
func (r *run) poll(ctx context.Context, eng Engine) error {
	for pause := pollFirst; ; pause = min(pollMax, pause*3/2) {
		report, err := r.probe(ctx, eng)
		if report.Ready || err != nil {
			return err
		}
		if r.node.views[r.slot].Load().Waiting > 0 {
			pause = min(pause, pollWaiting)
		}
		if err := r.wait(ctx, eng, pause); err != nil {
			return err
		}
	}
}

// check watches a ready engine until it ends or ctx does.
func (r *run) check(ctx context.Context, eng Engine) error {
	for {
		if err := r.wait(ctx, eng, checkEvery); err != nil {
			return err
		}
		if _, err := r.probe(ctx, eng); err != nil {
			return err
		}
	}
}

// wait lets d pass, unless the engine ends or ctx does.
func (r *run) wait(ctx context.Context, eng Engine, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-eng.Exited():
		return exit(eng)
	case <-t.C:
		return nil
	}
}

// probe asks the engine once, but does not wait for the answer of one that ends or is to be stopped.
func (r *run) probe(ctx context.Context, eng Engine) (Report, error) {
	type result struct {
		Report
		err error
	}
	got := make(chan result, 1)
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	r.node.runs.Go(func() {
		report, err := eng.Probe(limited)
		got <- result{report, err}
	})
	select {
	case <-ctx.Done():
		return Report{}, ctx.Err()
	case <-eng.Exited():
		return Report{}, exit(eng)
	case res := <-got:
		if limited.Err() != nil && res.err != nil {
			return Report{}, nil // it did not answer in time, which is no answer
		}
		return res.Report, res.err
	case <-limited.Done():
		return Report{}, ctx.Err()
	}
}

// exit is why an engine ended, never nil.
func exit(eng Engine) error {
	if err := eng.ExitError(); err != nil {
		return err
	}
	return errors.New("engine ended")
}

// clear stops the engine, and tries again until nothing of it is left: the place must not be taken before.
func (r *run) clear(eng Engine) {
	for {
		err := eng.Stop(r.node.force, r.conf.StopGrace)
		if err == nil {
			return
		}
		r.node.log.Error("engine could not be stopped", "slot", r.conf.Name, "error", err)
		<-time.After(stopRetry)
	}
}

// ended tells the node that the run is over, and the operator why if that was not asked for.
func (r *run) ended(ctx context.Context, err error, eng Engine) {
	m := message{event: event{kind: evEnded, slot: r.slot, run: r.id}}
	if ctx.Err() == nil {
		m.cause, m.detail = "engine does not answer", err.Error()
		if eng == nil {
			m.cause = "engine could not be started"
		}
		if exit := (*ExitError)(nil); errors.As(err, &exit) {
			m.cause = exit.Error() + "; see the gateway's log"
		}
		if last := r.warn("engine ended", m.detail, eng); last != "" {
			m.detail += ": " + last
		}
	}
	r.node.tell(m)
}

// givenUp tells the operator that the start took too long, if that is why ctx ended. eng is nil if the driver was
// what took long.
func (r *run) givenUp(ctx context.Context, eng Engine) {
	if why := (*givenUp)(nil); errors.As(context.Cause(ctx), &why) {
		r.warn("engine is given up", why.cause, eng)
	}
}

// warn logs what went wrong with the last lines of the engine's log, and returns the very last, "" = there is none.
func (r *run) warn(message, why string, eng Engine) (last string) {
	args := []any{"slot", r.conf.Name, "error", why}
	if eng != nil {
		if tail := eng.LogTail(); len(tail) > 0 {
			last = tail[len(tail)-1]
			args = append(args, "log", tail[max(0, len(tail)-20):])
		}
	}
	r.node.log.Warn(message, args...)
	return last
}
