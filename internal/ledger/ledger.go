// Package ledger keeps the record of every request: it is written to the journal first and moved from there to
// the store by one goroutine, the applier. A record is readable from the moment Record returns.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/store"
)

// retryFull is what a caller is told to wait when no record can be kept.
const retryFull = 5 * time.Second

// Ledger records generations. Its methods may be called from many goroutines.
type Ledger struct {
	journal *journal.Journal
	store   *store.Store
	log     *slog.Logger
	tail    *tail
	purses  *purses
	begun   begun

	wake chan struct{}
	// gathering: the applier waits for a batch to fill or its time to be up. Set before it looks at what is pending,
	// cleared before it takes the batch, so that no record is forgotten.
	gathering atomic.Bool
	closing   chan struct{} // closed by Close: the applier applies what is there and ends
	cancel    context.CancelFunc
	retention atomic.Pointer[Retention]
	retained  chan struct{} // closed when nothing is deleted any more
	done      chan error    // the applier's last word
	once      sync.Once
}

// Open applies what an earlier run left in the journal and starts the applier. The journal and the store belong to
// the caller, who closes them after the ledger.
func Open(ctx context.Context, j *journal.Journal, s *store.Store, log *slog.Logger) (*Ledger, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	applied, err := s.Applied(ctx, j.ID())
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	switch last, first := j.Last(), j.First(); {
	case applied > last:
		// A power cut took the journal's tail after the store had it.
		if err := j.SkipTo(applied + 1); err != nil {
			return nil, fmt.Errorf("open ledger: %w", err)
		}
	case first > applied+1 && applied > 0:
		log.Warn("ledger: the database is older than the journal; records between them are missing",
			"from", applied+1, "to", first-1)
		applied = first - 1
	case first > applied+1:
		applied = first - 1
	}
	l := &Ledger{
		journal: j, store: s, log: log, tail: newTail(applied + 1),
		begun: begun{open: make(map[string]*begunAnswer)},
		wake:  make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan error, 1), retained: make(chan struct{}),
	}
	if err := l.catchUp(ctx, j.Last()); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l.purses = newPurses()
	if err := l.purses.read(ctx, s); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := l.interrupted(ctx); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	var run context.Context
	run, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go l.applyLoop(run)
	go l.retainLoop(run)
	return l, nil
}

// Reserve holds back space for one record before a request is dispatched; each success needs one Unreserve, after
// Record. The error is a *hearth.Error of type overloaded.
func (l *Ledger) Reserve() error {
	err := l.journal.Reserve()
	if err == nil {
		return nil
	}
	e := hearth.Errorf(hearth.ErrOverloaded, "The gateway cannot keep a record of this request now, so it is not served. Try again later.")
	e.RetryAfter, e.Err = retryFull, err
	return e
}

// Unreserve gives back what Reserve held back.
func (l *Ledger) Unreserve() { l.journal.Unreserve() }

// Record writes g down. When it returns nil the record is as durable as the journal promises and Generation finds
// it. g may be changed afterwards. An id that was recorded before is kept as it was.
func (l *Ledger) Record(g *hearth.Generation) error {
	record, err := encode(g)
	if err == nil && len(record) > maxRecord {
		record, err = encode(shorten(g))
	}
	if err != nil {
		return fmt.Errorf("record generation: %w", err)
	}
	seq, err := l.journal.Append(record)
	if err != nil {
		return fmt.Errorf("record generation: %w", err)
	}
	l.tail.add(store.NewRow(seq, g, record))
	if g.Streamed {
		l.begun.end(g.ID)
	}
	l.purses.spend(g)
	l.nudge()
	return nil
}

// nudge tells the applier that there is something for it.
func (l *Ledger) nudge() {
	if l.gathering.Load() && l.Pending() < batchRows {
		return // it takes it when its time is up: waking it for each record would cost more than the record
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Generation finds a record by its id. Whether the caller may see it the caller of this must check, by its KeyID.
// The error is a *hearth.Error of type not_found, or the store's.
func (l *Ledger) Generation(ctx context.Context, id string) (*hearth.Generation, error) {
	record, err := l.find(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, hearth.Errorf(hearth.ErrNotFound, "There is no generation with this id.")
	}
	if err != nil {
		return nil, err
	}
	g, err := decode(record)
	if err != nil {
		return nil, fmt.Errorf("read generation %s: %w", id, err)
	}
	return g, nil
}

// find looks in the tail first: a record leaves it only after it is in the store.
func (l *Ledger) find(ctx context.Context, id string) ([]byte, error) {
	record, seq, ok := l.tail.find(id)
	if !ok {
		return l.store.Record(ctx, id)
	}
	if record != nil {
		return record, nil
	}
	record, err := l.readJournal(seq)
	if err != nil || record == nil { // it was applied, and the segment discarded, in between
		return l.store.Record(ctx, id)
	}
	return record, nil
}

var errFound = errors.New("found")

// readJournal reads one record of which the tail kept only the sequence.
func (l *Ledger) readJournal(seq uint64) (record []byte, err error) {
	err = l.journal.Replay(seq, func(_ uint64, payload []byte) error {
		record = append([]byte(nil), payload...)
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return record, err
}

// Pending is how many records wait to be moved to the store.
func (l *Ledger) Pending() int { return int(l.journal.Last() + 1 - l.tail.base()) }

// Close moves what is left to the store, syncs the journal and ends the applier. If ctx ends first, the rest stays
// in the journal and is moved when it is opened again; the error says so. Record must not be called any more.
func (l *Ledger) Close(ctx context.Context) error {
	l.begun.writing.Wait()
	l.once.Do(func() { close(l.closing) })
	var err error
	select {
	case err = <-l.done:
	case <-ctx.Done():
		l.cancel()
		err = <-l.done
		if n := l.Pending(); n > 0 {
			err = fmt.Errorf("close ledger: %d records stay in the journal until the next start: %w", n, errors.Join(ctx.Err(), err))
		}
	}
	l.cancel()
	<-l.retained
	l.done <- nil // a second Close has nothing to wait for
	if syncErr := l.journal.Sync(); syncErr != nil {
		err = errors.Join(err, fmt.Errorf("close ledger: %w", syncErr))
	}
	return err
}
