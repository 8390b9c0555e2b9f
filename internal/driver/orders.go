package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// Names of the drivers whose engines are started and stopped by orders.
const (
	Command = "command"
	HTTP    = "http"
	Docker  = "docker"
)

// Limits of orders whose action does not say its own.
const (
	startLimit  = 10 * time.Minute // if the slot has no StartTimeout either
	stopLimit   = 60 * time.Second // beside the grace
	statusLimit = 10 * time.Second
	// statusPace is how often an engine that is not ready yet is asked whether it runs at all.
	statusPace = time.Second
)

// alive is whether an engine runs, ready or not.
type alive uint8

const (
	unsure alive = iota // nobody can say
	runs
	runsNot
)

// orders are how one engine is started, stopped and asked that is not our child. They obey their context.
type orders interface {
	// start returns when the order is carried out; the engine need not be ready then. To start what runs is no error.
	start(ctx context.Context) error
	// stop returns nil when nothing of the engine runs, also when nothing ran before. It has grace to end by itself,
	// and is to end at once when hurry is closed.
	stop(ctx context.Context, grace time.Duration, hurry <-chan struct{}) error
	// status says whether the engine runs. An error of type *slot.ExitError with runsNot is how it ended.
	status(ctx context.Context) (alive, error)
	// watch returns when a running engine has ended, with the reason, or when ctx has; nil = it cannot tell.
	watch(ctx context.Context) error
	logTail() []string
	close()
}

// orderDriver starts engines by orders.
type orderDriver struct {
	d    *Drivers
	dial dialer
	make func(*hearth.Slot) (orders, error)
}

// ordered is the driver of a slot whose engine is started and stopped by orders. It fails if the slot lacks what it needs.
func (d *Drivers) ordered(s *hearth.Slot) (orderDriver, error) {
	if err := d.needsURL(s); err != nil {
		return orderDriver{}, err
	}
	start, stop := s.Actions.Start, s.Actions.Stop
	switch s.Driver {
	case Command:
		for _, a := range []*hearth.Action{start, stop} {
			if a == nil || len(a.Command) == 0 || a.Command[0] == "" {
				return orderDriver{}, errors.New("driver command needs a start and a stop command")
			}
		}
		return orderDriver{d: d, make: d.commands}, nil
	case HTTP:
		if s.Preset == "" && (start == nil || start.URL == "" || stop == nil || stop.URL == "") {
			return orderDriver{}, errors.New("driver http needs a preset, or a start and a stop request")
		}
		if s.Preset != "" && !slices.Contains(hearth.EngineNames(), s.Preset) {
			return orderDriver{}, fmt.Errorf("unknown preset %q", s.Preset)
		}
		return orderDriver{d: d, make: func(s *hearth.Slot) (orders, error) { return d.http(s, nil) }}, nil
	}
	if s.Container == "" {
		return orderDriver{}, errors.New("driver docker needs the name of a container")
	}
	return orderDriver{d: d, make: d.docker}, nil
}

func (o orderDriver) Start(ctx context.Context, s *hearth.Slot) (slot.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	place, err := o.d.occupy(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := o.d.room(ctx, s); err != nil {
		closeAll(place)
		return nil, err
	}
	e, err := o.engine(s, place)
	if err != nil {
		closeAll(place)
		return nil, err
	}
	go e.begin(true)
	return e, nil
}

// occupy takes the devices that the slot's engine has to itself: for one that is no child of ours, the gateway holds the
// locks itself.
func (d *Drivers) occupy(ctx context.Context, s *hearth.Slot) ([]*os.File, error) {
	paths := d.devices(s)
	if len(paths) == 0 {
		return nil, nil
	}
	if d.o.Dir == "" {
		return nil, errors.New("start the engine: there is no directory to record it in")
	}
	return d.lockAll(ctx, s, paths)
}

func (o orderDriver) engine(s *hearth.Slot, place []*os.File) (*ordered, error) {
	do, err := o.make(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &ordered{
		conf: s, do: do, look: newObserver(s, o.dial), url: trimURL(s.URL), place: place, log: o.d.o.Log.With("slot", s.Name),
		ctx: ctx, cancel: cancel, begun: make(chan struct{}), watched: make(chan struct{}), exited: make(chan struct{}),
	}, nil
}

// ordered is an engine that is started and stopped by orders.
type ordered struct {
	conf  *hearth.Slot
	do    orders
	look  *observer
	url   string
	place []*os.File // locks of the device
	log   *slog.Logger

	ctx     context.Context // of the start and the watch
	cancel  context.CancelFunc
	begun   chan struct{} // closed when the start has been carried out, or has failed
	failed  error         // why it has failed; set before begun is closed
	watched chan struct{} // closed when nothing is done in the background any more
	exited  chan struct{}

	mu    sync.Mutex
	err   error // how it ended; set before exited is closed
	ended bool
	ready bool      // a probe has said yes
	ran   bool      // it has been seen to run
	asked time.Time // when it was last asked whether it runs
	gone  bool      // Stop has seen that nothing is left
}

// begin carries out the start, if that is wanted, and then watches the engine.
func (e *ordered) begin(start bool) {
	defer close(e.watched)
	if start {
		limit := e.conf.StartTimeout
		if limit <= 0 {
			limit = startLimit
		}
		ctx, cancel := context.WithTimeout(e.ctx, limitOf(e.conf.Actions.Start, limit))
		e.failed = e.do.start(ctx)
		cancel()
	}
	close(e.begun)
	if e.failed != nil {
		return
	}
	if err := e.do.watch(e.ctx); err != nil && e.ctx.Err() == nil {
		e.end(err)
	}
}

// limitOf is how long an action may take.
func limitOf(a *hearth.Action, usual time.Duration) time.Duration {
	if a != nil && a.Timeout > 0 {
		return a.Timeout
	}
	return usual
}

// end notes that the engine has ended. Only the first reason counts.
func (e *ordered) end(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		e.ended, e.err = true, why
		close(e.exited)
	}
}

func (e *ordered) URL() string             { return e.url }
func (e *ordered) APIKey() hearth.Secret   { return e.conf.APIKey }
func (e *ordered) Died() <-chan struct{}   { return e.exited }
func (e *ordered) Exited() <-chan struct{} { return e.exited }
func (e *ordered) ExitError() error        { return e.err }
func (e *ordered) LogTail() []string       { return e.do.logTail() }

// Probe asks, as soon as the start has been carried out, whether the engine runs, and then the engine itself.
func (e *ordered) Probe(ctx context.Context) (slot.Report, error) {
	select {
	case <-e.begun:
	default:
		return slot.Report{Why: "the order to start it has not been carried out yet"}, nil
	}
	if e.failed != nil {
		return slot.Report{}, fmt.Errorf("start the engine: %w", e.failed)
	}
	state, note, exit := e.state(ctx)
	if state == runsNot && exit != nil {
		e.end(exit)
		return slot.Report{}, exit
	}
	report, err := e.look.look(ctx, e.url, e.conf.APIKey)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil && report.Ready && (state != runsNot || e.conf.Driver == Command):
		// A command may be wrong about the engine: the way to it may be down. A server knows.
		e.ready, e.ran = true, true
		if report.Facts.Warning == "" {
			report.Facts.Warning = note
		}
		return report, nil
	case state == runsNot && e.ran:
		return slot.Report{}, errors.New("the engine does not run any more")
	case state == runsNot:
		report = slot.Report{}
	case noAnswer(ctx, err), unreachable(err) && (!e.ready || late(err)):
		report, err = slot.Report{Why: "it does not answer"}, nil
	}
	if note != "" {
		report.Why = note
	}
	return report, err
}

// state is whether the engine runs, asked at most at a certain pace until it is ready. note is what the operator should
// know of it; exit is how it ended, if that is known.
func (e *ordered) state(ctx context.Context) (state alive, note string, exit error) {
	e.mu.Lock()
	soon := !e.ready && time.Since(e.asked) < statusPace
	if !soon {
		e.asked = time.Now()
	}
	e.mu.Unlock()
	if soon {
		return unsure, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, limitOf(e.conf.Actions.Status, statusLimit))
	defer cancel()
	state, err := e.do.status(ctx)
	var how *slot.ExitError
	switch {
	case state == runsNot && (errors.As(err, &how) || errors.Is(err, errNoContainer)):
		return runsNot, "", err
	case state == runsNot:
		return runsNot, "its status says that it does not run", nil
	case err != nil && ctx.Err() == nil:
		note = err.Error()
	}
	if state == runs {
		e.mu.Lock()
		e.ran = true
		e.mu.Unlock()
	}
	return state, note, nil
}

// Stop gives up a start that is under way, orders the engine to stop, and returns when nothing of it runs.
func (e *ordered) Stop(ctx context.Context, grace time.Duration) error {
	e.cancel()
	<-e.watched
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	if gone {
		return nil
	}
	// An order is carried out to its end even in a hurry: without it the engine would go on.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+limitOf(e.conf.Actions.Stop, stopLimit))
	defer cancel()
	if err := e.do.stop(limited, grace, ctx.Done()); err != nil {
		return fmt.Errorf("stop the engine: %w", err)
	}
	e.mu.Lock()
	e.gone = true
	e.mu.Unlock()
	e.end(errors.New("engine was stopped"))
	e.letGo()
	return nil
}

// Leave lets the engine go on.
func (e *ordered) Leave() error {
	e.mu.Lock()
	ended := e.ended
	e.mu.Unlock()
	if ended {
		return errors.New("leave the engine: it has ended")
	}
	e.cancel()
	<-e.watched
	e.letGo()
	return nil
}

func (e *ordered) letGo() {
	e.do.close()
	e.look.close()
	closeAll(e.place)
}

// until asks is at a growing pace until it says yes or fails, or ctx ends.
func until(ctx context.Context, is func() (bool, error)) error {
	for pause := 20 * time.Millisecond; ; pause = min(500*time.Millisecond, pause*3/2) {
		if yes, err := is(); yes || err != nil {
			return err
		}
		if within(nil, ctx.Done(), pause); ctx.Err() != nil {
			return fmt.Errorf("it takes too long: %w", ctx.Err())
		}
	}
}
