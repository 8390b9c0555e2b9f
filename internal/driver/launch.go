package driver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// lockWait is how long a lock may be held by what only happens to have it: for an instant, every program that the gateway
// is just starting has all its files.
const lockWait = 500 * time.Millisecond

// launch starts the process, which inherits the locks; they are closed here in any case.
func (p *process) launch(locks []*os.File, first bool) error {
	defer closeAll(locks)
	port := p.conf.Port
	if port == 0 {
		var err error
		if port, err = p.d.ports.take(); err != nil {
			return err
		}
	}
	r, err := p.begin(port, locks, first)
	if err != nil {
		p.d.ports.giveBack(port)
		return err
	}
	if err := p.d.save(r); err != nil { // it can still be found by what it inherited, and be stopped
		p.log.Warn("engine is not recorded: another gateway could not adopt it", "error", err)
	}
	return nil
}

// begin starts the process, unless it is to be stopped already.
func (p *process) begin(port int, locks []*os.File, first bool) (record, error) {
	out, err := p.output.open(first)
	if err != nil {
		return record{}, err
	}
	defer out.Close()
	cmd, key := command(p.conf, port)
	cmd.Env = append(cmd.Env, tagName+"="+p.d.tag(p.conf.Name))
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, locks

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return record{}, errors.New("start the engine: it is to be stopped already")
	}
	if err := cmd.Start(); err != nil {
		return record{}, fmt.Errorf("start the engine: %w", err)
	}
	r := record{
		ID: p.d.id, Slot: p.conf.Name, PID: cmd.Process.Pid, Boot: bootID(), Line: line(p.conf), Port: port,
		Log: p.output.begun(), Begun: time.Now().UnixMilli(),
	}
	if seen, err := look(r.PID); err == nil { // it is not buried yet, whatever it does
		r.Start = seen.start
	}
	if usesKey(p.conf) {
		r.Key = key
	}
	p.cmd, p.now = cmd, r
	return r, nil
}

// command is what a slot's configuration makes of a port, and the API key of this start.
func command(s *hearth.Slot, port int) (*exec.Cmd, string) {
	key := rand.Text()
	fill := strings.NewReplacer("${port}", strconv.Itoa(port), "${model}", s.Model.ID, "${api_key}", key)
	args := make([]string, len(s.Command))
	for i, a := range s.Command {
		args[i] = fill.Replace(a)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir = environment(s.Env, fill), s.Dir
	// No Pdeathsig: it would fire when the thread that started the process ends, not when the gateway does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, key
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

// environment is what an engine may see: what it needs of ours to find its libraries and devices, and the slot's own.
func environment(own map[string]hearth.Secret, fill *strings.Replacer) []string {
	// Workers that name themselves with setproctitle, as vLLM's do, would write over their environment without this, and
	// with it over their tag.
	env := []string{"SPT_NOENV=1"}
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
		if name != tagName {
			env = append(env, name+"="+fill.Replace(v.Reveal()))
		}
	}
	return env
}

// url is where the process of a record is to listen.
func (r record) url() string { return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)) }

// seize ends what an earlier start has left of the slot, and takes the locks that its processes will hold: the slot's, and
// on an exclusive node those of its devices, which keep out the engines of all other slots and gateways but companions.
func (d *Drivers) seize(ctx context.Context, s *hearth.Slot) ([]*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rest := ending{d: d, name: s.Name, grace: s.StopGrace, force: d.killWait}
	if err := rest.run(ctx); err != nil {
		d.o.Log.Warn("an earlier engine of the slot is in the way", "slot", s.Name, "error", err)
		return nil, &slot.BusyError{Message: "an earlier engine of the slot has not ended"}
	}
	paths := []string{d.file(s.Name, ".lock")}
	return d.lockAll(ctx, s, append(paths, d.devices(s)...))
}

// devices are the files of the locks of the devices that a slot's engine has to itself, in the order in which they are
// taken.
func (d *Drivers) devices(s *hearth.Slot) (paths []string) {
	for _, name := range s.Alone() {
		paths = append(paths, filepath.Join(d.o.LockDir, fileName(name)+".engine"))
	}
	slices.Sort(paths)
	return paths
}

// lockAll takes several locks, or none.
func (d *Drivers) lockAll(ctx context.Context, s *hearth.Slot, paths []string) ([]*os.File, error) {
	var locks []*os.File
	for _, path := range paths {
		f, err := lockSoon(ctx, path)
		if err == nil {
			locks = append(locks, f)
			continue
		}
		closeAll(locks)
		if errors.Is(err, errHeld) {
			d.o.Log.Warn("another engine holds the device", "slot", s.Name, "lock", path)
			return nil, &slot.BusyError{Message: "another engine holds the device"}
		}
		return nil, err
	}
	return locks, nil
}

// lockSoon takes a lock that may be held for an instant.
func lockSoon(ctx context.Context, path string) (*os.File, error) {
	for end := time.Now().Add(lockWait); ; {
		f, err := lock(path)
		if !errors.Is(err, errHeld) || time.Now().After(end) {
			return f, err
		}
		if within(nil, ctx.Done(), stopPoll); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was written
	}
}
