package ledger

import (
	"hash/maphash"
	"sync"

	"myip.co.kr/hearth/internal/store"
)

// tailBytes bounds the records held in memory until the store has them. Of more than that only the sequence is
// kept, and they are read from the journal.
const tailBytes = 32 << 20

// tail holds the rows that are in the journal and not yet in the store, by sequence and by id.
type tail struct {
	seed  maphash.Seed
	limit int

	mu    sync.RWMutex
	first uint64            // sequence of rows[0]: every earlier one is in the store
	rows  []store.Row       // a row without a record is to be read from the journal
	ids   map[uint64]uint64 // hash of id → sequence; the seed is random, so a collision is a matter of 2^-64
	bytes int               // of all records in rows
}

func newTail(first uint64) *tail {
	return &tail{seed: maphash.MakeSeed(), limit: tailBytes, first: first, ids: make(map[uint64]uint64)}
}

// add makes a row visible. Rows of concurrent writers come in any order.
func (t *tail) add(r store.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Seq < t.first {
		return // the applier has read it from the journal already
	}
	at := int(r.Seq - t.first)
	for len(t.rows) <= at {
		t.rows = append(t.rows, store.Row{})
	}
	if r.ID != "" {
		id := maphash.String(t.seed, r.ID)
		if seq, ok := t.ids[id]; !ok || r.Seq < seq {
			t.ids[id] = r.Seq // of two with one id the first counts, as in the store
		}
	}
	if t.bytes+len(r.Record) > t.limit {
		r = store.Row{Seq: r.Seq, ID: r.ID}
	}
	t.bytes += len(r.Record)
	t.rows[at] = r
}

// find returns the record of an id; nil if it stands only in the journal, at seq.
func (t *tail) find(id string) (record []byte, seq uint64, ok bool) {
	h := maphash.String(t.seed, id)
	t.mu.RLock()
	defer t.mu.RUnlock()
	seq, ok = t.ids[h]
	if !ok {
		return nil, 0, false
	}
	return t.rows[seq-t.first].Record, seq, true
}

// base is the first sequence that is not yet in the store.
func (t *tail) base() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.first
}

// batch appends up to n rows from the front to dst, as far as their records are in memory.
func (t *tail) batch(dst []store.Row, n int) []store.Row {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range t.rows[:min(n, len(t.rows))] {
		if r.Record == nil {
			break
		}
		dst = append(dst, r)
	}
	return dst
}

// drop forgets everything up to and including seq: the store has it.
func (t *tail) drop(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq < t.first {
		return
	}
	n := min(int(seq+1-t.first), len(t.rows))
	for i := range t.rows[:n] {
		r := &t.rows[i]
		t.bytes -= len(r.Record)
		if id := maphash.String(t.seed, r.ID); r.ID != "" && t.ids[id] == t.first+uint64(i) {
			delete(t.ids, id)
		}
	}
	rest := copy(t.rows, t.rows[n:])
	clear(t.rows[rest:])
	t.rows = t.rows[:rest]
	if rest == 0 && cap(t.rows) > 4*batchRows {
		t.rows = nil // what a stalled store made grow
		t.ids = make(map[uint64]uint64)
	}
	t.first = seq + 1
}
