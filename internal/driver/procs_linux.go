package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"myip.co.kr/hearth/internal/slot"
)

const (
	// maxEnviron bounds what is read of a process's environment: the kernel lets it be no larger.
	maxEnviron = 4 << 20
	maxStat    = 16 << 10
	// settleWait is how long processes that cannot say whose they are at the moment are waited for, all in all.
	settleWait = 100 * time.Millisecond
	settlePoll = time.Millisecond
)

// scan lists the processes of this user, or for root of all users, except this one.
func scan() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	uid, self, end := os.Getuid(), os.Getpid(), time.Now().Add(settleWait)
	var all []proc
	var r reader
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		var st syscall.Stat_t
		if syscall.Stat("/proc/"+name, &st) != nil || uid != 0 && int(st.Uid) != uid {
			continue // it has ended meanwhile, or is somebody else's: neither to be read nor to be signalled
		}
		if p, err := r.settled(name, pid, end); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// look reads what the kernel says of a process, without its tag.
func look(pid int) (proc, error) {
	s, err := new(reader).look(strconv.Itoa(pid), pid)
	return s.proc, err
}

// reader reads small files of the kernel, one after the other: an engine that is being stopped is looked for in all
// processes many times a second, for which os.File does too much.
type reader struct{ b []byte }

// read returns the beginning of a file, most bytes of it. What it returns holds until the next call.
func (r *reader) read(path string, most int) ([]byte, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	if r.b == nil {
		r.b = make([]byte, 16<<10)
	}
	for n := 0; ; {
		if n == len(r.b) {
			if n >= most {
				return r.b[:most], nil
			}
			r.b = append(r.b, make([]byte, n)...)
		}
		got, err := retry(func() (int, error) { return syscall.Read(fd, r.b[n:]) })
		if err != nil || got <= 0 {
			return r.b[:n], err
		}
		n += got
	}
}

// retry calls f again when a signal has interrupted it.
func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// stat is what the kernel says of a process.
type stat struct {
	proc
	kernel         bool   // it is a thread of the kernel: it has no environment
	headless       bool   // its first thread has ended, and others have not: only they show its environment
	envAt, envEnds uint64 // where its environment lies; 0 = it has none, or that is not for us to know
}

// settled reads all of a process. For an instant a process has no environment, and so no tag: while it goes over to another
// program, and from when it gives its memory back until it has ended, which can be long before it closes its files. That
// instant is waited for, until end.
func (r *reader) settled(name string, pid int, end time.Time) (proc, error) {
	for {
		s, err := r.look(name, pid)
		if err != nil || s.dead || s.kernel {
			return s.proc, err
		}
		tag, whole := r.tag("/proc/" + name)
		if s.headless {
			tag, whole = r.threadsTag("/proc/" + name)
		}
		if whole || s.envAt == s.envEnds && s.envAt > 0 || !time.Now().Before(end) {
			s.tag = tag
			return s.proc, nil
		}
		within(nil, nil, settlePoll)
	}
}

func (r *reader) look(name string, pid int) (stat, error) {
	b, err := r.read("/proc/"+name+"/stat", maxStat)
	if err != nil {
		return stat{}, err
	}
	// pid (comm) state ppid pgrp …; comm may hold anything, so count from its last bracket: the third field is f[0].
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 49 {
		return stat{}, fmt.Errorf("process %d: its stat has %d fields", pid, len(f))
	}
	var bad error
	field := func(n int) uint64 {
		v, err := strconv.ParseUint(string(f[n-3]), 10, 64)
		bad = errors.Join(bad, err)
		return v
	}
	const isKernels = 0x00200000 // PF_KTHREAD
	s := stat{proc: proc{pid: pid, group: int(field(5)), start: field(22)}, kernel: field(9)&isKernels != 0, envAt: field(50), envEnds: field(51)}
	zombie := f[0][0] == 'Z'
	s.headless = zombie && field(20) > 1
	s.dead = f[0][0] == 'X' || zombie && !s.headless
	return s, bad
}

// tag reads the tag in the environment of a process or thread, as it was when its program began. ok is false if there is
// no environment at the moment.
func (r *reader) tag(dir string) (tag string, ok bool) {
	env, err := r.read(dir+"/environ", maxEnviron)
	if err != nil {
		return "", !errors.Is(err, syscall.ESRCH) // else it is not for us to know
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(tagName+"=")); ok {
			return string(v), true
		}
	}
	return "", len(env) > 0
}

// threadsTag reads the tag of a process that only its threads show.
func (r *reader) threadsTag(dir string) (tag string, ok bool) {
	for _, thread := range entries(dir + "/task") {
		if tag, ok := r.tag(dir + "/task/" + thread); ok {
			return tag, true
		}
	}
	return "", false
}

// signal sends sig to exactly this process, if it is still there. The number of a process can be another's at any time
// after its end, so it is looked at once more after the kernel has given a handle on it.
func (p proc) signal(sig syscall.Signal) {
	h, err := os.FindProcess(p.pid) // on Linux, a pidfd
	if err != nil {
		return
	}
	defer func() { _ = h.Release() }()
	if now, err := look(p.pid); err != nil || !now.same(p) {
		return
	}
	_ = h.Signal(sig) // an error means that it has ended meanwhile, or that it is not ours to signal
}

// bootID tells one boot of the machine from another: process numbers and start times mean something within one only.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// holders are those of all whose open files include the very opening of path that holds its lock, which they can only have
// inherited.
func holders(all []proc, path string) []proc {
	var want syscall.Stat_t
	if syscall.Stat(path, &want) != nil {
		return nil
	}
	var out []proc
	for _, p := range all {
		base := "/proc/" + strconv.Itoa(p.pid)
		for _, fd := range entries(base + "/fd") {
			var st syscall.Stat_t
			if syscall.Stat(base+"/fd/"+fd, &st) != nil || st.Dev != want.Dev || st.Ino != want.Ino {
				continue
			}
			if info, err := os.ReadFile(base + "/fdinfo/" + fd); err == nil && holdsLock(info) {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// holdsLock reads the kernel's account of an open file for a line such as "lock:	1: FLOCK  ADVISORY  WRITE 7 08:01:9 0 EOF".
func holdsLock(fdinfo []byte) bool {
	for line := range bytes.Lines(fdinfo) {
		if bytes.HasPrefix(line, []byte("lock:")) && bytes.Contains(line, []byte("FLOCK")) {
			return true
		}
	}
	return false
}

// entries are the names in a directory, as far as they can be read.
func entries(path string) []string {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // those that were read before an error are there too
	return names
}

// awaitExit returns when the child has ended, without burying it: until then its number, and that of its group, are
// nobody else's. The error is how it ended, nil if that is not known yet.
func awaitExit(pid int) error {
	var info [128 / 4]int32 // siginfo_t
	if waitid(pid, &info) {
		return endOf(&info)
	}
	return nil
}

// waitid waits for the end of a child, and says whether there is such a child.
func waitid(pid int, info *[128 / 4]int32) bool {
	const byPID = 1
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(info)),
			syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if !errors.Is(errno, syscall.EINTR) {
			return errno == 0
		}
	}
}

// endOf reads how a child ended from its siginfo_t: si_code, and si_status behind si_pid and si_uid in a union that is
// aligned like a pointer.
func endOf(info *[128 / 4]int32) error {
	const exited, killed, dumped = 1, 2, 3
	status := info[3+int(unsafe.Sizeof(uintptr(0)))/8+2]
	switch info[2] {
	case exited:
		return &slot.ExitError{Code: int(status)}
	case killed, dumped:
		return &slot.ExitError{Code: -1, Signal: syscall.Signal(status).String()}
	}
	return nil
}

// unseen is never needed: there is /proc.
func (e ending) unseen() ([]proc, bool, error) { return nil, false, errors.ErrUnsupported }
