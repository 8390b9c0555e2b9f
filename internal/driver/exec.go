package driver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

const (
	bindTries = 3
	// pipeWait is how long the output of a process that has exited is waited for: a grandchild may hold the pipe.
	pipeWait = 500 * time.Millisecond
	// killWait is how long a killed process may take to be gone.
	killWait = 5 * time.Second
	// groupPoll is the pace of looking whether a killed group is gone.
	groupPoll = 5 * time.Millisecond
)

// execDriver runs an engine as a child process in a process group of its own.
type execDriver struct{ log *slog.Logger }

func (d execDriver) Start(ctx context.Context, s *hearth.Slot) (slot.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &process{conf: s, log: d.log.With("slot", s.Name), probe: newProber(), exited: make(chan struct{})}
	if err := p.launch(); err != nil {
		return nil, err
	}
	go p.supervise()
	return p, nil
}

// process is one engine of the exec driver. Until it is ready it may be several processes, one after the other:
// a free port can be taken by somebody else before the engine binds it.
type process struct {
	conf   *hearth.Slot
	log    *slog.Logger
	probe  *prober
	output tail
	exited chan struct{}
	err    error // how it ended; set before exited is closed

	mu       sync.Mutex
	cmd      *exec.Cmd
	url      string
	key      hearth.Secret
	ready    bool // a probe has said yes: it will not be launched again
	stopping bool
}

// launch starts the process.
func (p *process) launch() error {
	port := p.conf.Port
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}
	key := hearth.Secret(rand.Text())
	fill := strings.NewReplacer("${port}", strconv.Itoa(port), "${model}", p.conf.Model.ID, "${api_key}", key.Reveal())
	args := make([]string, len(p.conf.Command))
	for i, a := range p.conf.Command {
		args[i] = fill.Replace(a)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = environment(p.conf.Env, fill)
	cmd.Dir = p.conf.Dir
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.WaitDelay = pipeWait
	// No Pdeathsig: it would fire when the thread that started the process ends, not when the gateway does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return errors.New("start the engine: it is to be stopped already")
	}
	p.output.begin()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	p.cmd, p.url, p.key = cmd, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), ""
	if usesKey(p.conf) {
		p.key = key
	}
	return nil
}

// usesKey says whether the slot hands this start's random API key to its engine.
func usesKey(s *hearth.Slot) bool {
	const key = "${api_key}"
	for _, v := range s.Env {
		if strings.Contains(v.Reveal(), key) {
			return true
		}
	}
	return slices.ContainsFunc(s.Command, func(a string) bool { return strings.Contains(a, key) })
}

// freePort finds a port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// environment is what an engine may see: what it needs of ours to find its libraries and devices, and the slot's own.
func environment(own map[string]hearth.Secret, fill *strings.Replacer) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "PATH", name == "HOME", name == "LANG", name == "LD_LIBRARY_PATH",
			strings.HasPrefix(name, "CUDA_"), strings.HasPrefix(name, "HIP_"):
			if _, ok := own[name]; !ok {
				env = append(env, kv)
			}
		}
	}
	for name, v := range own {
		env = append(env, name+"="+fill.Replace(v.Reveal()))
	}
	return env
}

// supervise waits for the end of the process, clears its group, and launches it again if only its port was taken.
func (p *process) supervise() {
	defer close(p.exited)
	defer p.probe.close()
	for try := 1; ; try++ {
		_ = p.cmd.Wait() // the process state says more
		pid, state := p.cmd.Process.Pid, p.cmd.ProcessState
		_ = syscall.Kill(-pid, syscall.SIGKILL) // what it left behind; normally there is nobody
		p.err = exitError(state)
		if try == bindTries || p.conf.Port != 0 || state.Success() || !p.output.saysBind() || !p.again() {
			return
		}
		p.log.Warn("engine could not bind its port, trying another", "try", try+1)
		if err := p.launch(); err != nil {
			p.log.Warn("engine could not be launched again", "error", err)
			return
		}
	}
}

// again says whether another launch makes sense.
func (p *process) again() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ready && !p.stopping
}

func exitError(s *os.ProcessState) error {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return &slot.ExitError{Code: -1, Signal: w.Signal().String()}
	}
	return &slot.ExitError{Code: s.ExitCode()}
}

func (p *process) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

func (p *process) APIKey() hearth.Secret {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key
}

func (p *process) Exited() <-chan struct{} { return p.exited }
func (p *process) ExitError() error        { return p.err }
func (p *process) LogTail() []string       { return p.output.last() }

// Probe takes every failure of the network as "not yet": the end of the process is seen without asking.
func (p *process) Probe(ctx context.Context) (slot.Report, error) {
	url := p.URL()
	ready, err := p.probe.ask(ctx, url, p.conf.Probe, p.APIKey())
	var refused *refusedError
	if err != nil && !errors.As(err, &refused) {
		return slot.Report{}, nil
	}
	if ready {
		p.mu.Lock()
		defer p.mu.Unlock()
		if ready = url == p.url; ready { // else it is another process's answer
			p.ready = true
		}
	}
	return slot.Report{Ready: ready}, err
}

// Leave would let the engine go on.
func (p *process) Leave() error { return errors.New("leave the engine: it ends with the gateway") }

// Stop asks the whole group to end, kills it after grace or when ctx ends, and returns when it is gone.
func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	p.signal(syscall.SIGTERM)
	if !within(p.exited, ctx.Done(), grace) {
		p.signal(syscall.SIGKILL)
		if !within(p.exited, nil, killWait) {
			return errors.New("stop the engine: the killed process has not ended")
		}
	}
	p.mu.Lock()
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	for end := time.Now().Add(killWait); groupAlive(pid); {
		if time.Now().After(end) {
			return errors.New("stop the engine: a process of its group has not ended")
		}
		within(nil, nil, groupPoll)
	}
	return nil
}

// signal sends s to the group, unless the process was seen to end: its number could be somebody else's by then.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // an error means that it has ended meanwhile
	}
}

// within waits for done, but not past d nor past the end of cut.
func within(done, cut <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-cut:
	case <-t.C:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
