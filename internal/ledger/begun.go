package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// begunMark stands in the journal before what is known of an answer when it begins to go to its caller. A record begins
// with a brace.
const begunMark = '>'

// noteInterrupted is said of an answer that the end of the process cut off.
const noteInterrupted = "the gateway ended in the middle of this answer"

// begun are the answers that have begun and have no record yet, as they stand in the journal.
type begun struct {
	mu      sync.Mutex
	open    map[string]*begunAnswer
	writing sync.WaitGroup
}

type begunAnswer struct {
	seq     uint64 // 0: it is on its way to the journal
	payload []byte
}

// Begin notes that the answer of g begins to go to its caller. If the process dies before Record, the next one makes the
// record of what was known, and says so in it. g is read before Begin returns. It waits for no disk.
func (l *Ledger) Begin(g *hearth.Generation) error {
	record, err := encode(g)
	if err == nil && len(record) > maxRecord {
		record, err = encode(shorten(g))
	}
	if err != nil {
		return fmt.Errorf("note the beginning of an answer: %w", err)
	}
	a := &begunAnswer{payload: append([]byte{begunMark}, record...)}
	l.begun.mu.Lock()
	l.begun.open[g.ID] = a
	l.begun.mu.Unlock()
	if !l.journal.Waits() {
		return l.write(a)
	}
	l.begun.writing.Go(func() {
		if err := l.write(a); err != nil {
			l.log.Warn("ledger: the beginning of an answer is not noted", "error", err)
		}
	})
	return nil
}

func (l *Ledger) write(a *begunAnswer) error {
	seq, err := l.journal.Append(a.payload)
	if err != nil {
		return fmt.Errorf("note the beginning of an answer: %w", err)
	}
	l.tail.add(store.Row{Seq: seq, Record: a.payload}) // without an id it becomes no row
	l.begun.mu.Lock()
	a.seq = seq
	l.begun.mu.Unlock()
	l.nudge()
	return nil
}

func (b *begun) end(id string) {
	b.mu.Lock()
	delete(b.open, id)
	b.mu.Unlock()
}

// discard lets the journal forget what is safe in the store, after what has begun in there was written once more.
func (l *Ledger) discard(applied uint64) error {
	active := l.journal.Active()
	var old []*begunAnswer
	l.begun.mu.Lock()
	for _, a := range l.begun.open {
		if a.seq != 0 && a.seq < active {
			old = append(old, a)
		}
	}
	l.begun.mu.Unlock()
	for _, a := range old {
		if err := l.write(a); err != nil {
			return err
		}
	}
	return l.journal.Discard(min(applied, active-1))
}

// interrupted makes the records of answers that had begun when the last process died. All of the journal is in the store.
func (l *Ledger) interrupted(ctx context.Context) error {
	open := make(map[string][]byte)
	if err := l.journal.Replay(l.journal.First(), func(_ uint64, payload []byte) error {
		if begun, ok := bytes.CutPrefix(payload, []byte{begunMark}); ok {
			open[idOf(begun)] = bytes.Clone(begun)
		} else if len(open) > 0 {
			delete(open, idOf(payload))
		}
		return nil
	}); err != nil {
		return err
	}
	for id, record := range open {
		if _, err := l.store.Record(ctx, id); !errors.Is(err, store.ErrNotFound) {
			if err != nil {
				return err
			}
			continue
		}
		g, err := decode(record)
		if err != nil {
			l.log.Error("ledger: the beginning of an answer cannot be read and is passed over", "error", err)
			continue
		}
		g.FinishReason, g.Error = "error", string(hearth.ErrInternal)
		g.Notes = append(g.Notes, noteInterrupted)
		if err := l.Record(g); err != nil {
			return err
		}
	}
	if n := len(open); n > 0 {
		l.log.Warn("ledger: the last process ended in the middle of answers; their records say so", "answers", n)
	}
	return nil
}

// idOf is the id of a record, which stands at its beginning.
func idOf(record []byte) string {
	rest, _ := bytes.CutPrefix(record, []byte(`{"id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}
