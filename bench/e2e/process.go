package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// process is one program under measurement. It ends with stop, or when its context does.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string // file with its output
	exited chan struct{}
}

// start runs a program whose output goes to a file in dir.
func start(ctx context.Context, dir, name string, env []string, program string, args ...string) (*process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, fmt.Errorf("make log of %s: %w", name, err)
	}
	defer log.Close()
	p := &process{name: name, log: log.Name(), exited: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		// How it ended is told by its log; that it ended, by the channel.
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// stop asks the process to end and kills it after ten seconds.
func (p *process) stop() {
	if p == nil {
		return
	}
	// A signal to a process that has ended already fails, and that is fine.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// tail is the end of the process's output, for an error message.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(b) == 0 {
		return "it printed nothing"
	}
	return "its last output: " + strings.TrimSpace(string(b[max(0, len(b)-600):]))
}

// ready polls url until it answers 200.
func (p *process) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case <-poll.C:
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready; %s", p.name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time at %s; %s", p.name, url, p.tail())
		}
	}
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// pids are the process and its children: nginx works in the children.
func (p *process) pids() []int {
	pid := p.cmd.Process.Pid
	out := []int{pid}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return out
	}
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended
		}
		for s := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(s); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// cpu is the processor time that the process and its children have used. It reads their CPU clocks, which
// count nanoseconds where /proc/<pid>/stat counts hundredths of a second.
func (p *process) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range p.pids() {
		var ts syscall.Timespec
		// clock_getcpuclockid(3): the bits of ^pid, shifted by three, and 2 for "scheduler time of the process".
		clock := int32(^pid)<<3 | 2
		_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0)
		if errno != 0 {
			return 0, fmt.Errorf("read CPU clock of %s (pid %d): %w", p.name, pid, errno)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// memory reads a field of /proc/<pid>/status, VmRSS or VmHWM, in MiB, summed over the process and its children.
func (p *process) memory(field string) (float64, error) {
	var sum float64
	for _, pid := range p.pids() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, fmt.Errorf("read memory of %s: %w", p.name, err)
		}
		kb, err := statusKB(string(b), field)
		if err != nil {
			return 0, fmt.Errorf("read memory of %s: %w", p.name, err)
		}
		sum += kb / 1024
	}
	return sum, nil
}

// statusKB finds "field:  123 kB".
func statusKB(status, field string) (float64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		}
	}
	return 0, errors.New("no line " + field)
}

// freePort asks the kernel for a loopback port nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
