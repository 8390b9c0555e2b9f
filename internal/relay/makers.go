package relay

import (
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/dialect"
)

const (
	madeFor     = 24 * time.Hour // it is remembered who made a sealed part of an answer
	makerShards = 64
	makerHalf   = 512 // parts of a shard after which the older half is forgotten: 65,536 in all
)

// made says who made a sealed part of an answer; the zero value is that nobody knows.
type made struct {
	chain.Maker
	at time.Time
}

// makers remember who made the sealed parts of answers. Of a part only a mark is kept, which differs from key to key and
// from one run of the program to the next. They are bounded and safe for concurrent use.
type makers struct {
	seed   maphash.Seed
	shards [makerShards]makerShard
}

type makerShard struct {
	mu       sync.Mutex
	now, old map[uint64]made
	_        [40]byte // a shard's lock shares no cache line with its neighbour's
}

func newMakers() *makers { return &makers{seed: maphash.MakeSeed()} }

// mark is what a part is known by that has a mark, in an answer to the key or in its history.
func (m *makers) mark(key string, seal uint64) uint64 { return maphash.String(m.seed, key) ^ seal }

func (m *makers) put(mark uint64, by made) {
	h := &m.shards[mark%makerShards]
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == nil {
		h.now = make(map[uint64]made)
	}
	h.now[mark] = by
	if len(h.now) >= makerHalf {
		h.now, h.old = nil, h.now
	}
}

func (m *makers) find(mark uint64, now time.Time) made {
	h := &m.shards[mark%makerShards]
	h.mu.Lock()
	by, ok := h.now[mark]
	if !ok {
		by = h.old[mark]
	}
	h.mu.Unlock()
	if now.Sub(by.at) > madeFor {
		return made{}
	}
	return by
}

// history finds who made the sealed parts of a request's history, part by part, and who is to go first for their sake: the
// latest that is known. none of them known is nil.
func (r *Relay) history(chat *dialect.Chat, key *hearth.Key, now time.Time) (parts []chain.Maker, latest chain.Maker) {
	seals := chat.Seals(r.makers.seed)
	for i, seal := range seals {
		by := r.makers.find(r.makers.mark(keyID(key), seal), now)
		if by.Provider == "" {
			continue
		}
		if parts == nil {
			parts = make([]chain.Maker, len(seals))
		}
		parts[i], latest = by.Maker, by.Maker
	}
	return parts, latest
}

func keyID(key *hearth.Key) string {
	if key == nil {
		return ""
	}
	return key.ID
}

// made remembers who made the sealed parts of an answer, before the caller knows that it is complete.
func (r *Relay) made(x *exchange, o *outcome) {
	seals := x.stamp.Seals()
	if o.answer != nil {
		seals = o.answer.Seals
	}
	for _, seal := range seals {
		r.makers.put(r.makers.mark(keyID(x.key), seal), made{chain.Maker{Endpoint: o.endpoint.ID, Provider: o.endpoint.Provider.Slug}, time.Now()})
	}
}

// foreign says which sealed parts of the history the endpoint must not get: those that another provider is known to have
// made. nil = it gets them all.
func (x *exchange) foreign(e *hearth.Endpoint) func(part int) bool {
	slug := e.Provider.Slug
	if !slices.ContainsFunc(x.parts, func(m chain.Maker) bool { return m.Provider != "" && m.Provider != slug }) {
		return nil
	}
	return func(part int) bool { return x.parts[part].Provider != "" && x.parts[part].Provider != slug }
}

// leftOut puts it into the record that the endpoint gets the history without its sealed parts. The caller is told with the
// winner.
func (x *exchange) leftOut(e *hearth.Endpoint) {
	if !x.unsealed && x.foreign(e) != nil {
		x.unsealed = true
		x.gen.Notes = append(x.gen.Notes, "encrypted reasoning and signatures of the history were left out for "+e.Provider.Slug+", which did not make them")
	}
}

// noteLeftOut tells the caller of what leftOut noted. Nothing has been sent yet.
func (r *Relay) noteLeftOut(w http.ResponseWriter, x *exchange) {
	if x.unsealed {
		r.note(w, x)
	}
}
