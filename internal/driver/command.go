package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
)

const (
	// commandOutput is how much of the output of a command is kept for its error, in bytes.
	commandOutput = 4 << 10
	// commandKill is the time between SIGTERM and SIGKILL of a command that takes too long.
	commandKill = time.Second
	// pipeWait is how long the output of a command that has ended is waited for: what it started may hold it.
	pipeWait = 500 * time.Millisecond
)

// commands starts, stops and asks an engine with the operator's commands.
type commands struct {
	conf   *hearth.Slot
	look   *observer // for engines without a status command
	output output
}

func (d *Drivers) commands(s *hearth.Slot) (orders, error) {
	if d.o.Dir == "" {
		return nil, errors.New("there is no directory for the output of commands")
	}
	return &commands{conf: s, look: newObserver(s, nil), output: output{path: d.file(s.Name, ".log")}}, nil
}

func (c *commands) start(ctx context.Context) error { return c.logged(ctx, c.conf.Actions.Start, true) }

func (c *commands) stop(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	if err := c.logged(ctx, c.conf.Actions.Stop, false); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		if c.conf.Actions.Status == nil { // then it is gone when it does not answer any more
			report, err := c.look.look(ctx, trimURL(c.conf.URL), c.conf.APIKey)
			return err != nil && ctx.Err() == nil || err == nil && !report.Ready, nil
		}
		state, err := c.status(ctx)
		return state == runsNot, err
	})
}

// status asks the status command: exit code 0 means that the engine runs, any other that it does not.
func (c *commands) status(ctx context.Context) (alive, error) {
	if c.conf.Actions.Status == nil {
		return unsure, nil
	}
	limited, cancel := context.WithTimeout(ctx, limitOf(c.conf.Actions.Status, statusLimit))
	defer cancel()
	out := &capped{most: commandOutput}
	err := c.run(limited, c.conf.Actions.Status, out, out)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return runs, nil
	case errors.As(err, &exit) && exit.Exited() && limited.Err() == nil:
		return runsNot, nil
	}
	return unsure, describe("status", err, out.String())
}

func (c *commands) watch(context.Context) error { return nil } // nothing tells when it ends
func (c *commands) logTail() []string           { return c.output.last() }
func (c *commands) close()                      { c.look.close() }

// logged runs a command that may leave an engine behind: its output goes to a file, which what it started may go on
// writing to.
func (c *commands) logged(ctx context.Context, a *hearth.Action, start bool) error {
	f, err := c.output.open(start)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.run(ctx, a, f, f); err != nil {
		what := "stop"
		if start {
			what = "start"
		}
		return describe(what, err, strings.Join(c.output.last(), "\n"))
	}
	return nil
}

// describe is the error of a command, with the last thing that it wrote.
func describe(what string, err error, wrote string) error {
	var exit *exec.ExitError
	why := fmt.Sprintf("%s command: %v", what, err)
	if errors.As(err, &exit) {
		why = fmt.Sprintf("%s command ended with %v", what, exit)
	}
	lines := strings.Split(strings.TrimSpace(wrote), "\n")
	if last := clean(lines[len(lines)-1], 300); last != "" {
		why += ": " + last
	}
	return errors.New(why)
}

// run runs a command in a process group of its own. When ctx ends, the group is asked to end and then killed; what a
// command that ends by itself leaves behind is left alone: it may be the engine.
func (c *commands) run(ctx context.Context, a *hearth.Action, stdout, stderr io.Writer) error {
	fill := strings.NewReplacer("${model}", engineModel(c.conf))
	args := make([]string, len(a.Command))
	for i, arg := range a.Command {
		args[i] = fill.Replace(arg)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir = environment(c.conf.Env, fill), c.conf.Dir
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeWait
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start it: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = awaitExit(cmd.Process.Pid) // Wait says how
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done(): // until Wait has buried the command, its group can be nobody else's
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // an error means that it has ended meanwhile
		within(ended, nil, commandKill)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("it was ended: %w", ctx.Err())
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // it has ended well, and what it started holds its output
	}
	return err
}
