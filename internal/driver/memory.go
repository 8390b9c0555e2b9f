package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

const (
	memoryWait   = 30 * time.Second // for memory to become free
	memoryPoll   = 200 * time.Millisecond
	memoryLimit  = 5 * time.Second // for one answer
	memoryAnswer = 4 << 10         // bytes
)

// memoryCommand asks NVIDIA's driver; a node may have another command.
var memoryCommand = []string{"nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"}

// room waits until the node's devices have as much free memory as the slot wants before a start: what an engine has given
// back can take a while to be free.
func (d *Drivers) room(ctx context.Context, s *hearth.Slot) error {
	if s.MinFree == 0 {
		return nil
	}
	command := s.Node.FreeMemory
	if len(command) == 0 {
		command = memoryCommand
	}
	for end := time.Now().Add(d.memoryWait); ; {
		free, err := freeMemory(ctx, command)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && free >= s.MinFree {
			return nil
		}
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return err // there will be no such command in half a minute either
		}
		if time.Now().After(end) {
			if err != nil {
				return err
			}
			const mib = 1 << 20
			return &slot.BusyError{Message: fmt.Sprintf("the device has %d MiB of memory free, and %d MiB are needed", free/mib, (s.MinFree+mib-1)/mib)}
		}
		within(nil, ctx.Done(), memoryPoll)
	}
}

// freeMemory is the free memory of all devices in bytes, as the command says it.
func freeMemory(ctx context.Context, command []string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, memoryLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = environment(nil, strings.NewReplacer())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it has not been waited for yet
	cmd.WaitDelay = memoryPoll
	out := capped{most: memoryAnswer}
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("ask for the free memory of the device with %s: %w", command[0], err)
	}
	free, err := sumMiB(out.String())
	if err != nil {
		return 0, fmt.Errorf("understand the free memory that %s says: %w", command[0], err)
	}
	return free, nil
}

// sumMiB adds up the numbers of a text, one per line, in MiB.
func sumMiB(text string) (int64, error) {
	const mib, most = 1 << 20, 1 << 40 // an exbibyte, in MiB
	var sum int64
	lines := strings.Fields(text)
	if len(lines) == 0 {
		return 0, errors.New("it says nothing")
	}
	for _, l := range lines {
		n, err := strconv.ParseInt(l, 10, 64)
		if err != nil || n < 0 || n > most {
			return 0, fmt.Errorf("%.40q is not a number of MiB", l)
		}
		sum += n
	}
	if sum > most {
		return 0, errors.New("it says too much")
	}
	return sum * mib, nil
}

// capped keeps the beginning of what is written to it.
type capped struct {
	bytes.Buffer
	most int
}

func (c *capped) Write(b []byte) (int, error) {
	c.Buffer.Write(b[:min(len(b), max(0, c.most-c.Len()))])
	return len(b), nil
}
