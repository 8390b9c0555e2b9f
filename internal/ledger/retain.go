package ledger

import (
	"context"
	"time"
)

// Retention says how long records are kept. Sums of days are kept for ever.
type Retention struct {
	MaxAge   time.Duration // since the arrival of the request, 0 = for ever
	MaxBytes int64         // of the database that are in use, 0 = no bound
}

const (
	retainEvery = time.Minute
	// retainPause is between two transactions that delete: the applier goes first.
	retainPause = 20 * time.Millisecond
	// slack is the share of the file that may be free before it is given back to the system: 1/slack. Free pages are used
	// again, so that a database in balance neither grows nor shrinks.
	slack = 4
)

// Retain says how long records are kept from now on.
func (l *Ledger) Retain(r Retention) { l.retention.Store(&r) }

// retainLoop deletes what is too old, or too much, until the ledger closes or ctx ends.
func (l *Ledger) retainLoop(ctx context.Context) {
	defer close(l.retained)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := l.retention.Load()
		if r == nil || r.MaxAge <= 0 && r.MaxBytes <= 0 {
			continue
		}
		n, err := l.retain(ctx, *r)
		if err != nil && ctx.Err() == nil {
			l.log.Warn("ledger: old records could not be deleted, it is tried again", "error", err)
		}
		if n > 0 {
			l.log.Info("ledger: old records were deleted, sums of days keep counting them", "records", n)
		}
	}
}

// retain deletes until nothing is too old and the database is not too large, and returns how many records that were.
func (l *Ledger) retain(ctx context.Context, r Retention) (deleted int, err error) {
	step := func(before time.Time) (more bool, err error) {
		n, err := l.store.Forget(ctx, before)
		deleted += n
		if err != nil || n == 0 {
			return false, err
		}
		return true, l.pause(ctx)
	}
	for more := r.MaxAge > 0; more && err == nil; {
		more, err = step(time.Now().Add(-r.MaxAge))
	}
	for more := r.MaxBytes > 0; more && err == nil; {
		var used, file int64
		if used, file, err = l.store.Size(ctx); err != nil {
			break
		}
		if used <= r.MaxBytes {
			return deleted, l.shrink(ctx, used, file)
		}
		more, err = step(time.Time{})
	}
	return deleted, err
}

// shrink gives the free part of the file back, if that is large.
func (l *Ledger) shrink(ctx context.Context, used, file int64) error {
	for file-used > file/slack {
		before := file
		if err := l.store.Shrink(ctx); err != nil {
			return err
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
		var err error
		if used, file, err = l.store.Size(ctx); err != nil || file >= before { // one that cannot shrink
			return err
		}
	}
	return nil
}

// pause lets the applier write, which has more than one batch to write when it is behind.
func (l *Ledger) pause(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retainPause):
		}
		if l.Pending() <= batchRows {
			return nil
		}
	}
}
