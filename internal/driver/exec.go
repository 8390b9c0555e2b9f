package driver

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

const (
	bindTries = 3
	// restWait is how long the end of what an engine left behind may keep its own end from being told.
	restWait = time.Second
	// adoptedPoll is the pace of looking whether an engine that is not our child is still there.
	adoptedPoll = 200 * time.Millisecond
)

// execDriver runs an engine as a child process in a process group of its own.
type execDriver struct{ d *Drivers }

func (e execDriver) Start(ctx context.Context, s *hearth.Slot) (slot.Engine, error) {
	if e.d.o.Dir == "" {
		return nil, errors.New("start the engine: there is no directory to record it in")
	}
	locks, err := e.d.seize(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := e.d.room(ctx, s); err != nil {
		closeAll(locks)
		return nil, err
	}
	p := e.d.process(s)
	if err := p.launch(locks, true); err != nil {
		return nil, err
	}
	go p.supervise()
	return p, nil
}

// process is one engine of the exec driver, started here or adopted. Until it is ready it may be several processes, one
// after the other: a free port can be taken by somebody else before the engine binds it.
type process struct {
	d      *Drivers
	conf   *hearth.Slot
	log    *slog.Logger
	look   *observer
	output output
	died   chan struct{} // closed when the process that was ready, or else the last one, has ended
	exited chan struct{} // closed when what it left behind has ended too
	err    error         // how it ended; set before died is closed

	mu       sync.Mutex
	cmd      *exec.Cmd // nil: adopted
	now      record
	trusted  record        // whose port was seen to be its own
	seen     time.Time     // when
	ready    bool          // a probe has said yes: it will not be launched again
	stopping bool          // Stop clears what is left, not supervise
	gone     bool          // Stop has seen that nothing is left
	once     sync.Once     // closes cleared
	cleared  chan struct{} // closed when Stop has done its part, or could not
	left     chan struct{} // closed when the engine is to go on without us
}

func (d *Drivers) process(s *hearth.Slot) *process {
	return &process{
		d: d, conf: s, log: d.o.Log.With("slot", s.Name), look: newObserver(s, nil), output: output{path: d.file(s.Name, ".log")},
		died: make(chan struct{}), exited: make(chan struct{}), cleared: make(chan struct{}), left: make(chan struct{}),
	}
}

// supervise waits for the end of the process, clears what it left behind, and launches it again if only its port was
// taken.
func (p *process) supervise() {
	defer close(p.exited)
	dead := sync.OnceFunc(func() { close(p.died) })
	defer dead()
	defer p.look.close()
	for try := 1; ; try++ {
		child, r := p.present()
		if child == nil {
			p.err = p.watch(r.leader())
		} else {
			p.err = awaitExit(r.PID)
		}
		if p.err != nil && p.served() {
			dead() // there will be no other
		}
		if !p.clear(child != nil, r) { // while a child is not buried, its group can be nobody else's
			try = bindTries
		}
		if child != nil {
			_ = child.Wait() // the process state says more
			if p.err == nil {
				p.err = exitError(child.ProcessState)
			}
		}
		if try == bindTries || !p.bindFailed(child, r) {
			return
		}
		p.log.Warn("engine could not bind its port, trying another", "try", try+1)
		if err := p.again(); err != nil {
			p.log.Warn("engine could not be launched again", "error", err)
			return
		}
	}
}

// present is the process as it is now.
func (p *process) present() (*exec.Cmd, record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.now
}

// served says whether a probe has said yes.
func (p *process) served() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// watch returns when an adopted process has ended, or is left alone.
func (p *process) watch(leader proc) error {
	tick := time.NewTicker(adoptedPoll)
	defer tick.Stop()
	for {
		if now, err := look(leader.pid); err != nil || now.dead || !now.same(leader) {
			return errors.New("engine that an earlier gateway started has ended")
		}
		select {
		case <-p.left:
			return nil
		case <-p.cleared:
		case <-tick.C:
		}
	}
}

// clear ends what the leader has left behind. If the engine is being stopped, that is Stop's part, and is waited for. It
// returns false when there must be no other launch.
func (p *process) clear(child bool, r record) bool {
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	select {
	case <-p.left:
		return false
	default:
	}
	if stopping {
		<-p.cleared
		return false
	}
	rest := ending{d: p.d, name: p.conf.Name, leader: r.leader(), child: child, force: restWait}
	if err := rest.run(context.Background()); err != nil {
		p.log.Warn("what an engine left behind has not ended", "error", err)
		return false
	}
	return true
}

// bindFailed says whether the process ended for its port, so that another launch makes sense.
func (p *process) bindFailed(child *exec.Cmd, r record) bool {
	if child == nil || p.conf.Port != 0 || child.ProcessState.Success() {
		return false
	}
	p.mu.Lock()
	again := !p.ready && !p.stopping
	p.mu.Unlock()
	if !again {
		return false
	}
	if p.output.saysBind() {
		return true
	}
	taken, err := listeners(r.Port) // it has not said so, but nothing of ours is left that could listen there
	return err == nil && len(taken) > 0
}

// again launches the process once more.
func (p *process) again() error {
	_, r := p.present()
	p.d.ports.giveBack(r.Port)
	ctx, cancel := context.WithTimeout(context.Background(), restWait)
	defer cancel()
	locks, err := p.d.seize(ctx, p.conf)
	if err != nil {
		return err
	}
	return p.launch(locks, false)
}

func (p *process) URL() string {
	_, r := p.present()
	return r.url()
}

func (p *process) APIKey() hearth.Secret {
	_, r := p.present()
	return hearth.Secret(r.Key)
}

func (p *process) Died() <-chan struct{}   { return p.died }
func (p *process) Exited() <-chan struct{} { return p.exited }
func (p *process) ExitError() error        { return p.err }
func (p *process) LogTail() []string       { return p.output.last() }

// Leave lets the engine go on. Its record stays, and says what the next gateway needs.
func (p *process) Leave() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return errors.New("leave the engine: it has ended")
	case <-p.left:
		return nil
	default:
	}
	if p.stopping {
		return errors.New("leave the engine: it is being stopped")
	}
	close(p.left)
	p.look.close()
	return nil
}

// Stop ends everything that the start has brought about, and returns when nothing of it is left. The record goes first: a
// gateway that dies meanwhile must not hand the engine to the next one.
func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	p.mu.Lock()
	p.stopping = true
	gone, r, child := p.gone, p.now, p.cmd != nil
	p.mu.Unlock()
	if gone {
		return nil // what there is now is another start's
	}
	done := func() { p.once.Do(func() { close(p.cleared) }) }
	defer done()
	if err := p.d.forget(p.conf.Name); err != nil {
		p.log.Warn("record of an engine is not removed", "error", err)
	}
	all := ending{d: p.d, name: p.conf.Name, leader: r.leader(), child: child, grace: grace, force: p.d.killWait}
	if err := all.run(ctx); err != nil {
		return err
	}
	done()
	<-p.exited
	p.d.ports.giveBack(r.Port)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	return nil
}

// exitError is how a child ended.
func exitError(s *os.ProcessState) error {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return &slot.ExitError{Code: -1, Signal: w.Signal().String()}
	}
	return &slot.ExitError{Code: s.ExitCode()}
}
