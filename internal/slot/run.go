package slot

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	restLimit   = 5 * time.Second  // for a driver to clear what a dead engine has left, before that is stopped
	// unreadyMax is how long an engine that was ready may say that it is not, while nobody uses it.
	unreadyMax = 10 * time.Second
)

var (
	errLeave    = errors.New("the engine goes on without the gateway")
	errNoAnswer = errors.New("no answer in time")
)

// run is one engine from the decision to start it until nothing of it is left. It has its own goroutine, which
// may wait as long as a driver makes it wait, and tells the node at most one evReady and then exactly one evEnded.
type run struct {
	node *node
	part
	slot int
	id   uint64
	conf *hearth.Slot // as of the start
}

// live starts the engine, unless it was found, watches it, and stops it when ctx ends.
func (r *run) live(ctx context.Context, eng Engine) {
	if eng == nil {
		var err error
		if eng, err = r.driver.Start(ctx, r.conf); err != nil {
			r.givenUp(ctx, nil)
			r.ended(ctx, err, nil, false)
			return
		}
	}
	eng = masked{eng}
	r.cell.run.Store(r.id)
	r.cell.engine.Store(&eng)
	report, err := r.poll(ctx, eng)
	if err == nil {
		r.node.tell(message{event: event{kind: evReady, slot: r.slot, run: r.id, report: &report}, engine: eng})
		err = r.check(ctx, eng)
		err = r.died(ctx, eng, err)
	}
	r.givenUp(ctx, eng) // before the engine logs its end
	left := errors.Is(context.Cause(ctx), errLeave) && r.left(eng)
	if !left {
		r.clear(eng)
	}
	tail := eng.LogTail()
	r.cell.tail.Store(&tail)
	r.cell.engine.Store(nil)
	r.ended(ctx, err, eng, left)
}

// poll waits until the engine is ready; an error says why it will not be.
func (r *run) poll(ctx context.Context, eng Engine) (Report, error) {
	for pause := pollFirst; ; pause = min(pollMax, pause*3/2) {
		report, err := r.probe(ctx, eng)
		switch {
		case errors.Is(err, errNoAnswer):
		case report.Ready || err != nil:
			return report, err
		}
		if v := r.cell.view.Load(); v != nil && v.Waiting > 0 { // an engine that was found may be asked before anything is published
			pause = min(pause, pollWaiting)
		}
		if err := r.wait(ctx, eng, pause); err != nil {
			return Report{}, err
		}
	}
}

// check watches a ready engine until it ends or ctx does, and tells the node what it says of itself. One that goes on
// saying that it is not ready has failed, but not while somebody uses it.
func (r *run) check(ctx context.Context, eng Engine) error {
	pause := checkEvery
	var since time.Time // when it began to say that it is not ready
	for {
		if err := r.wait(ctx, eng, pause); err != nil {
			return err
		}
		report, err := r.probe(ctx, eng)
		if errors.Is(err, errNoAnswer) {
			continue // which says nothing: it may be busy
		} else if err != nil {
			return err
		}
		r.node.tell(message{event: event{kind: evReport, slot: r.slot, run: r.id, report: &report}})
		switch {
		case report.Ready:
			pause, since = checkEvery, time.Time{}
		case since.IsZero():
			pause, since = pollMax, time.Now()
		case time.Since(since) >= unreadyMax && r.cell.view.Load().Inflight == 0:
			return fmt.Errorf("engine is not ready any more: %s", report.Why)
		}
	}
}

// died tells the node at once that the engine, which was ready, is of no use any more, and waits for what its driver still
// has to see to. It returns why, as well as that can be said by then.
func (r *run) died(ctx context.Context, eng Engine, err error) error {
	if busy := (*BusyError)(nil); ctx.Err() != nil || errors.As(err, &busy) {
		return err
	}
	end := ending{cause: "engine does not answer", detail: err.Error()}
	if exit := (*ExitError)(nil); errors.As(err, &exit) {
		end.cause = exit.Error() + "; see the gateway's log"
	}
	r.node.tell(message{event: event{kind: evDied, slot: r.slot, run: r.id, end: end}})
	select {
	case <-eng.Died():
	default:
		return err // it is still there
	}
	t := time.NewTimer(restLimit)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.node.force.Done():
	case <-eng.Exited():
	case <-t.C:
	}
	return err
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
	case <-eng.Died():
		return exit(eng)
	case <-t.C:
		return nil
	}
}

// probe asks the engine once, but does not wait for the answer of one that ends or is to be stopped: an error is
// errNoAnswer then, or the engine's, which says that it will not be ready any more.
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
	case res := <-got:
		if limited.Err() == nil {
			return res.Report, res.err
		}
	case <-eng.Exited():
	case <-eng.Died():
	case <-limited.Done():
	}
	return Report{}, errNoAnswer
}

// exit is why an engine ended, never nil.
func exit(eng Engine) error {
	if err := eng.ExitError(); err != nil {
		return err
	}
	return errors.New("engine ended")
}

// left lets go of the engine and reports whether that was possible.
func (r *run) left(eng Engine) bool {
	err := eng.Leave()
	if err != nil {
		r.node.log.Error("engine could not be left running", "slot", r.conf.Name, "error", err)
	}
	return err == nil
}

// clear stops the engine, and tries again until nothing of it is left: the place must not be taken before.
func (r *run) clear(eng Engine) {
	for {
		err := eng.Stop(r.node.force, r.cell.conf.Load().StopGrace)
		if err == nil {
			return
		}
		r.node.log.Error("engine could not be stopped", "slot", r.conf.Name, "error", err)
		<-time.After(stopRetry)
	}
}

// ended tells the node that the run is over, and the operator why if that was not asked for.
func (r *run) ended(ctx context.Context, err error, eng Engine, left bool) {
	m := message{event: event{kind: evEnded, slot: r.slot, run: r.id, end: ending{left: left}}}
	if ctx.Err() == nil {
		m.end = r.why(err, eng)
	} else if why := (*givenUp)(nil); errors.As(context.Cause(ctx), &why) && eng != nil {
		m.end.detail = withLast(why.cause, eng.LogTail())
	}
	r.node.tell(m)
}

// why is how a run ended that nobody wanted to end.
func (r *run) why(err error, eng Engine) ending {
	if busy := (*BusyError)(nil); errors.As(err, &busy) {
		r.node.log.Info("slot's device is not free", "slot", r.conf.Name, "error", err)
		return ending{cause: busy.Message, detail: err.Error(), busy: true}
	}
	e := ending{cause: "engine does not answer", detail: err.Error()}
	if eng == nil {
		e.cause = "engine could not be started"
	}
	tail := r.warn("engine ended", e.detail, eng)
	if exit := (*ExitError)(nil); errors.As(err, &exit) {
		e.cause = exit.Error() + reason(tail) + "; see the gateway's log"
	}
	e.detail = withLast(e.detail, tail)
	return e
}

// givenUp tells the operator that the start took too long, if that is why ctx ended. eng is nil if the driver was
// what took long.
func (r *run) givenUp(ctx context.Context, eng Engine) {
	if why := (*givenUp)(nil); errors.As(context.Cause(ctx), &why) {
		r.warn("engine is given up", why.cause, eng)
	}
}

// warn logs what went wrong with the last lines of the engine's log, and returns them.
func (r *run) warn(message, why string, eng Engine) (tail []string) {
	args := []any{"slot", r.conf.Name, "error", why}
	if eng != nil {
		if tail = eng.LogTail(); len(tail) > 0 {
			args = append(args, "log", tail[max(0, len(tail)-20):])
		}
	}
	r.node.log.Warn(message, args...)
	return tail
}

// Bounds of what a view shows of an engine's log.
const (
	wordLines = 3
	wordBytes = 200 // of a line

	reasonLines = 10 // among which the reason of the end is looked for
)

// withLast is what went wrong, with the last lines of an engine's log that are not empty.
func withLast(what string, tail []string) string {
	var words []string
	for i := len(tail) - 1; i >= 0 && len(words) < wordLines; i-- {
		line := strings.ToValidUTF8(strings.TrimSpace(tail[i]), "?")
		if len(line) > wordBytes {
			line = strings.ToValidUTF8(line[:wordBytes], "") + "…"
		}
		if line != "" {
			words = append([]string{line}, words...)
		}
	}
	if len(words) == 0 {
		return what
	}
	return what + ": " + strings.Join(words, " | ")
}

// reasons are what engines say of why they end, and what a caller may be told of it: nothing that stands in the log.
var reasons = []struct{ says, means string }{
	{"out of memory", "out of memory"},
	{"outofmemory", "out of memory"},
	{"failed to allocate", "out of memory"},
	{"address already in use", "its port is taken"},
	{"failed to load model", "the model could not be loaded"},
	{"error loading model", "the model could not be loaded"},
	{"unable to load model", "the model could not be loaded"},
	{"no such file", "a file is missing"},
}

// reason is what a caller may know of the end of an engine with such a log: ": " and a few words, or nothing.
func reason(tail []string) string {
	for _, r := range reasons {
		for _, line := range tail[max(0, len(tail)-reasonLines):] {
			if strings.Contains(strings.ToLower(line), r.says) {
				return ": " + r.means
			}
		}
	}
	return ""
}
