package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
)

// holdEnv makes the test binary hold a lock of a database until its standard input ends: "lock path".
const holdEnv = "HEARTH_LEDGER_HOLD"

// The bytes of the -shm file that stand for SQLite's locks, https://sqlite.org/walformat.html#wal_locks.
const (
	walWriteLock      = 120
	walCheckpointLock = 121
)

func holdMain() {
	lock, path, _ := strings.Cut(os.Getenv(holdEnv), " ")
	at, err := strconv.ParseInt(lock, 10, 64)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path+"-shm", os.O_RDWR, 0)
	}
	for err == nil {
		err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1})
		if err == nil {
			break
		}
		if errors.Is(err, syscall.EAGAIN) {
			err = nil // the applier is at it
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// hold lets another process take a lock of the database and returns what ends it.
func (b *books) hold(t *testing.T, lock int) (release func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", holdEnv, lock, filepath.Join(b.dir, "hearth.db")))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("holding the database's lock: %q, %v", line, err)
	}
	return sync.OnceFunc(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
}

func TestStalledStore(t *testing.T) {
	t.Run("records are taken, readable and applied after", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		release := b.hold(t, walWriteLock)
		defer release()
		ids := names("gen", 1000)
		record(t, b, ids...)
		for _, id := range ids[:20] {
			mustFind(t, b, id)
		}
		checkStore(t, b, 0)
		release()
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		checkStore(t, b, 1000)
	})
	t.Run("memory is bounded, the journal has the rest", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{SegmentBytes: 64 << 10})
		b.tail.mu.Lock()
		b.tail.limit = 20_000
		b.tail.mu.Unlock()
		release := b.hold(t, walWriteLock)
		defer release()
		ids := names("gen", 1200)
		record(t, b, ids...)
		b.tail.mu.RLock()
		held := b.tail.bytes
		b.tail.mu.RUnlock()
		if held > 20_000 {
			t.Errorf("%d bytes held in memory, want at most 20,000", held)
		}
		for _, id := range []string{ids[0], ids[600], ids[1199]} {
			mustFind(t, b, id)
		}
		release()
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		record(t, b, "one more")
		mustFind(t, b, "one more")
		waitFor(t, "the last record in the store", func() bool { return b.Pending() == 0 })
		checkStore(t, b, 1201)
	})
	t.Run("a full journal refuses before dispatch", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{MaxBytes: 128 << 10})
		release := b.hold(t, walWriteLock)
		defer release()
		var err error
		n := 0
		for ; ; n++ {
			if err = b.Reserve(); err != nil {
				break
			}
			record(t, b, fmt.Sprint("gen-", n))
			b.Unreserve()
		}
		var e *hearth.Error
		if !errors.As(err, &e) || e.Type != hearth.ErrOverloaded || e.RetryAfter <= 0 || !errors.Is(err, journal.ErrFull) || n == 0 {
			t.Errorf("after %d records Reserve: %v, want overloaded", n, err)
		}
		release()
		waitFor(t, "space in the journal", func() bool {
			if b.Reserve() != nil {
				return false
			}
			b.Unreserve()
			return true
		})
		checkStore(t, b, n)
	})
	t.Run("close gives up in time and nothing is lost", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		release := b.hold(t, walWriteLock)
		defer release()
		record(t, b, names("gen", 10)...)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := b.Ledger.Close(ctx)
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "10 records stay in the journal") {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("Close took %s", d)
		}
		release()
		if err := errors.Join(b.journal.Close(), b.store.Close()); err != nil {
			t.Fatal(err)
		}
		b.Ledger = nil
		b = open(t, dir, journal.Options{})
		checkStore(t, b, 10)
	})
}

func TestDiscard(t *testing.T) {
	// Until a checkpoint is through, a power cut may take the last transactions from the database.
	b := open(t, t.TempDir(), journal.Options{SegmentBytes: 64 << 10})
	record(t, b, "first")
	waitFor(t, "the first record in the store", func() bool { return b.Pending() == 0 })
	release := b.hold(t, walCheckpointLock)
	defer release()
	for _, id := range []string{"one", "two", "three"} { // the third is applied after the second was settled
		record(t, b, names(id, 100)...)
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
	}
	if b.journal.First() != 1 || b.journal.Segments() < 4 {
		t.Errorf("first record kept is %d, %d segments: discarded before they were safe", b.journal.First(), b.journal.Segments())
	}
	release()
	record(t, b, "last")
	waitFor(t, "the journal without old segments", func() bool { return b.journal.Segments() == 1 })
	checkStore(t, b, 302)
}
