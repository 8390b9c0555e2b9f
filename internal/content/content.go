// Package content keeps prompts and answers for operators who want to read them later. Nothing is kept unless a
// configuration says so. What is kept stands apart from the records of requests, in a file of its own, is rid of secrets
// and personal data before it is written, and is deleted after a while. It never holds up a request: what cannot be kept in
// time is dropped, counted, and said in the log.
package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth/internal/store"
)

const (
	memory      = 64 << 20 // bytes of prompts and answers that are not written yet, of requests on their way included
	batch       = 64       // drafts in one transaction
	retainEvery = time.Minute
	retainRows  = 200 // deleted in one transaction
	sayEvery    = time.Minute
)

// Options are the settings of a Log.
type Options struct {
	Path   string // of the file; it is made when there is something to keep
	Memory int64  // bytes that wait to be written, 0 = 64 MiB
	Log    *slog.Logger
}

// Retention says how long contents are kept.
type Retention struct {
	MaxAge   time.Duration // since the arrival of the request; must be positive
	MaxBytes int64         // of the file that are in use; the oldest are deleted beyond it. 0 = no bound
}

// Log keeps contents. Its methods may be called from many goroutines, and of a nil Log: it keeps nothing.
type Log struct {
	path      string
	limit     int64
	log       *slog.Logger
	held      atomic.Int64 // bytes
	dropped   atomic.Int64
	retention atomic.Pointer[Retention]
	due       atomic.Bool // it is time to look for what is too old

	mu      sync.Mutex
	queue   []*Draft
	pending map[string]struct{} // ids that are not written yet
	written chan struct{}       // closed, and made anew, when pending has become smaller
	closed  bool
	file    *store.Contents // nil = not opened yet

	failedAt time.Time // when it was last said that contents cannot be written; of the writer alone

	wake chan struct{}
	done chan struct{}
	stop context.CancelFunc
}

// Open starts the writer. A file that cannot be opened is no error: it is tried again when there is something to write, and
// the log says so. The caller must Close the Log.
func Open(ctx context.Context, o Options, r Retention) *Log {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Memory <= 0 {
		o.Memory = memory
	}
	l := &Log{
		path: o.Path, limit: o.Memory, log: o.Log, pending: make(map[string]struct{}), written: make(chan struct{}),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.Retain(r)
	var run context.Context
	run, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := os.Stat(l.path); !errors.Is(err, fs.ErrNotExist) { // of an earlier run: what is too old in it goes
		if _, err := l.open(run); err != nil {
			l.log.Error("kept prompts and answers cannot be read", "err", err)
		}
	}
	go l.writeLoop(run)
	return l
}

// Retain says how long contents are kept from now on.
func (l *Log) Retain(r Retention) {
	l.retention.Store(&r)
	l.due.Store(true)
	l.rouse()
}

// Dropped is how many contents were dropped since the start because they could not be kept in time.
func (l *Log) Dropped() int64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take holds n bytes of the memory.
func (l *Log) take(n int64) bool {
	if l.held.Add(n) > l.limit {
		l.held.Add(-n)
		return false
	}
	return true
}

// add puts a draft into the queue.
func (l *Log) add(d *Draft) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, d)
		l.pending[d.id] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		d.Discard()
		l.dropped.Add(1)
		return
	}
	l.rouse()
}

// Content is the JSON document of what was kept of a generation; see render. A content that waits to be written is waited
// for. The error is store.ErrNotFound, or the file's.
func (l *Log) Content(ctx context.Context, id string) ([]byte, error) {
	if l == nil {
		return nil, store.ErrNotFound
	}
	for {
		l.mu.Lock()
		_, waits := l.pending[id]
		written, file := l.written, l.file
		l.mu.Unlock()
		if !waits {
			if file == nil {
				return nil, store.ErrNotFound
			}
			return file.Content(ctx, id)
		}
		select {
		case <-written:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open is the file, opened if it was not.
func (l *Log) open(ctx context.Context) (*store.Contents, error) {
	l.mu.Lock()
	file := l.file
	l.mu.Unlock()
	if file != nil {
		return file, nil
	}
	file, err := store.OpenContents(ctx, l.path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
	return file, nil
}

// writeLoop writes what is queued and deletes what is too old, until the log is closed and the queue is empty.
func (l *Log) writeLoop(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	said := spoken{log: l.log}
	for {
		drafts, closed := l.next()
		if len(drafts) > 0 {
			l.write(ctx, drafts)
		}
		said.drops(l.dropped.Load())
		switch {
		case closed && len(drafts) == 0, ctx.Err() != nil:
			return
		case closed, len(drafts) == batch:
			continue
		case l.due.Swap(false) && l.retain(ctx):
			l.due.Store(true) // there may be more, but what waits to be written goes first
			continue
		}
		select {
		case <-l.wake:
		case <-tick.C:
			l.due.Store(true)
		case <-ctx.Done():
		}
	}
}

// next takes a batch from the queue.
func (l *Log) next() (drafts []*Draft, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), batch)
	drafts = append(drafts, l.queue[:n]...)
	l.queue = append(l.queue[:0:0], l.queue[n:]...)
	return drafts, l.closed
}

// write redacts and writes a batch.
func (l *Log) write(ctx context.Context, drafts []*Draft) {
	rows := make([]store.ContentRow, 0, len(drafts))
	for _, d := range drafts {
		rows = append(rows, store.ContentRow{ID: d.id, At: d.at, Document: d.render()})
	}
	file, err := l.open(ctx)
	if err == nil {
		err = file.Insert(ctx, rows)
	}
	if err != nil {
		l.dropped.Add(int64(len(rows)))
		l.failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range drafts {
		delete(l.pending, d.id)
		d.Discard()
	}
	close(l.written)
	l.written = make(chan struct{})
}

// failed says why contents cannot be written, once in a while: a full disk stays full for many requests. How many were dropped
// is said by spoken.
func (l *Log) failed(err error) {
	if now := time.Now(); l.failedAt.IsZero() || now.Sub(l.failedAt) >= sayEvery {
		l.failedAt = now
		l.log.Error("prompts and answers could not be kept", "err", err)
	}
}

// retain deletes a few contents that are too old, or too much. True: there may be more.
func (l *Log) retain(ctx context.Context) bool {
	l.mu.Lock()
	file := l.file
	l.mu.Unlock()
	if file == nil {
		return false
	}
	r := l.retention.Load()
	n, err := file.Forget(ctx, time.Now().Add(-r.MaxAge), r.MaxBytes, retainRows)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Error("old prompts and answers could not be deleted, it is tried again", "err", err)
		}
		return false
	}
	if n > 0 {
		l.log.Info("old prompts and answers were deleted", "generations", n)
	}
	return n > 0
}

// spoken says now and then how much was dropped.
type spoken struct {
	log  *slog.Logger
	told int64
	at   time.Time
}

func (s *spoken) drops(n int64) {
	now := time.Now()
	if n == s.told || now.Sub(s.at) < sayEvery {
		return
	}
	s.log.Warn("prompts and answers were dropped: they come faster than they can be kept, or cannot be written; the requests were served", "generations", n-s.told, "since_start", n)
	s.told, s.at = n, now
}

// Close writes what is queued and closes the file. If ctx ends first, the rest is dropped; the error says so. What is offered
// afterwards is dropped.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.rouse()
	var err error
	select {
	case <-l.done:
	case <-ctx.Done():
		l.stop()
		<-l.done
		l.mu.Lock()
		if n := len(l.queue); n > 0 {
			err = fmt.Errorf("close kept prompts and answers: %d were dropped: %w", n, ctx.Err())
		}
		l.mu.Unlock()
	}
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	return err
}
