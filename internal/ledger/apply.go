package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"myip.co.kr/hearth/internal/store"
)

const (
	batchRows  = 500                    // so many records are worth a transaction
	batchMost  = 2 * batchRows          // most of them in one: those that came meanwhile go along
	batchEvery = 500 * time.Millisecond // a record waits at most this long for others to go with it
	// checkpointEvery is how often the store's own log is moved into its file and the journal's segments that are
	// safe there are removed.
	checkpointEvery = 5 * time.Second
	retryMin        = 100 * time.Millisecond // after the store failed
	retryMax        = 5 * time.Second
	complainEvery   = 30 * time.Second // while it goes on failing
)

// applyLoop moves records to the store until the ledger closes or ctx ends.
func (l *Ledger) applyLoop(ctx context.Context) {
	checkpoint := time.NewTicker(checkpointEvery)
	defer checkpoint.Stop()
	for {
		select {
		case <-ctx.Done():
			l.done <- nil
			return
		case <-l.closing:
			err := l.applyAll(ctx, l.journal.Last())
			l.settle(ctx)
			l.done <- err
			return
		case <-checkpoint.C:
			l.settle(ctx)
			continue
		case <-l.wake:
		}
		l.gather(ctx)
		// Of what comes meanwhile a batch is gathered first: else a busy gateway would make a transaction for every few.
		_ = l.applyAll(ctx, l.journal.Last()) // fails only when ctx ends
		if l.journal.Segments() > 1 {
			l.settle(ctx)
		}
	}
}

// gather waits until a batch is worth a transaction.
func (l *Ledger) gather(ctx context.Context) {
	timer := time.NewTimer(batchEvery)
	defer timer.Stop()
	l.gathering.Store(true)
	defer l.gathering.Store(false)
	for l.Pending() < batchRows {
		select {
		case <-ctx.Done():
			return
		case <-l.closing:
			return
		case <-timer.C:
			return
		case <-l.wake:
		}
	}
}

// applyAll moves everything up to a sequence, and tries again as long as the store fails.
func (l *Ledger) applyAll(ctx context.Context, last uint64) error {
	wait := retryMin
	var complained time.Time
	for {
		err := l.catchUp(ctx, last)
		if err == nil {
			if !complained.IsZero() {
				l.log.Info("ledger: the database takes records again")
			}
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if time.Since(complained) >= complainEvery {
			complained = time.Now()
			l.log.Error("ledger: the database does not take records, they stay in the journal", "error", err, "waiting", l.Pending())
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMax)
	}
}

// catchUp moves batch after batch until the store has all that the journal has up to a sequence.
func (l *Ledger) catchUp(ctx context.Context, to uint64) error {
	var rows []store.Row
	for l.tail.base() <= to {
		if err := l.store.Present(); err != nil {
			return err
		}
		var last uint64
		var err error
		if rows, last, err = l.nextBatch(rows[:0]); err != nil {
			return err
		}
		if last < l.tail.base() {
			return fmt.Errorf("the journal does not give record %d back", l.tail.base())
		}
		rows = slices.DeleteFunc(rows, func(r store.Row) bool { return r.ID == "" }) // beginnings of answers
		if _, err := l.store.Apply(ctx, l.journal.ID(), last, rows); err != nil {
			return err
		}
		l.tail.drop(last)
	}
	return nil
}

var errBatchFull = errors.New("batch is full")

// nextBatch takes rows from memory, or from the journal where memory does not have the next one, and returns the
// last sequence they cover.
func (l *Ledger) nextBatch(rows []store.Row) (_ []store.Row, last uint64, err error) {
	if rows = l.tail.batch(rows, batchMost); len(rows) > 0 {
		return rows, rows[len(rows)-1].Seq, nil
	}
	n := 0
	err = l.journal.Replay(l.tail.base(), func(seq uint64, payload []byte) error {
		if payload[0] != begunMark {
			rows = l.appendRow(rows, seq, payload)
		}
		last = seq
		if n++; n == batchMost {
			return errBatchFull
		}
		return nil
	})
	if errors.Is(err, errBatchFull) {
		err = nil
	}
	return rows, last, err
}

// appendRow appends the row of a record as it stands in the journal.
func (l *Ledger) appendRow(rows []store.Row, seq uint64, payload []byte) []store.Row {
	g, err := decode(payload)
	if err != nil || g.ID == "" {
		// Its checksum is good, so it was written like this: it can never be read. It must not hold up the rest.
		l.log.Error("ledger: a record cannot be read and is passed over", "sequence", seq, "error", err)
		return rows
	}
	return append(rows, store.NewRow(seq, g, append([]byte(nil), payload...)))
}

// settle makes what was applied safe in the store's file and then lets the journal forget it.
func (l *Ledger) settle(ctx context.Context) {
	applied := l.tail.base() - 1
	safe, err := l.store.Checkpoint(ctx)
	if err == nil {
		err = l.store.Present() // what is safe in a file that is gone is not safe
	}
	if err == nil && safe {
		err = l.discard(applied)
	}
	if err != nil && ctx.Err() == nil {
		l.log.Warn("ledger: tidying up failed, it is tried again", "error", err)
	}
}
