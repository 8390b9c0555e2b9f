package routing

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// A session stays with its endpoint while the cache there is warm.
const (
	warmFor      = 300.0 // seconds in which a cache surely lives
	fadingFor    = 600.0 // seconds after which it surely does not; the session is forgotten then
	fadingWeight = 0.3   // of the hits in between

	sessionShards = 64
	sessionHalf   = 512 // sessions of a shard after which the older half is forgotten: 65,536 in all
	outPrior      = 2.0 // answers that the model's mean length weighs as much as in a session's
)

// session is what is known of a conversation.
type session struct {
	end    *end    // that answered last
	at     float64 // when
	prefix float64 // tokens that its cache may hold
	out    float64 // tokens of the answers, their sum
	n      float64 // answers
	armed  bool    // it sticks
}

// sessions are bounded and safe for concurrent use. Those used least lately go first, by halves: nothing is searched.
type sessions struct {
	shards [sessionShards]shard
}

type shard struct {
	mu       sync.Mutex
	now, old map[uint64]session
	_        [40]byte // a shard's lock shares no cache line with its neighbour's
}

// find returns the session of a key, if it was used in the last ten minutes.
func (s *sessions) find(key uint64, now float64) (session, bool) {
	if key == 0 {
		return session{}, false
	}
	h := &s.shards[key%sessionShards]
	h.mu.Lock()
	found, ok := h.now[key]
	if !ok {
		found, ok = h.old[key]
	}
	h.mu.Unlock()
	return found, ok && now-found.at <= fadingFor
}

// answered notes an answer in a session: where, how much the cache there may hold now, how long it was (0 = not known).
// proven says that the session sticks from now on; it also goes on sticking where it did.
func (s *sessions) answered(key uint64, now float64, where *end, prefix, out float64, proven bool) {
	if key == 0 {
		return
	}
	h := &s.shards[key%sessionShards]
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.now[key]
	if !ok {
		known, ok = h.old[key]
	}
	if !ok || now-known.at > fadingFor {
		known = session{}
	}
	known.armed = proven || known.armed && known.end == where
	known.end, known.at, known.prefix = where, now, prefix
	if out > 0 {
		known.out, known.n = known.out+out, known.n+1
	}
	h.put(key, known)
}

// put remembers a session as it is.
func (s *sessions) put(key uint64, known session) {
	h := &s.shards[key%sessionShards]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(key, known)
}

// put remembers a session. The caller holds the shard's lock.
func (h *shard) put(key uint64, known session) {
	if h.now == nil {
		h.now = make(map[uint64]session)
	}
	h.now[key] = known
	if len(h.now) >= sessionHalf {
		h.now, h.old = nil, h.now
	}
}

// each calls fn for every session, in no order.
func (s *sessions) each(fn func(key uint64, known session)) {
	for i := range s.shards {
		h := &s.shards[i]
		h.mu.Lock()
		for key, known := range h.old {
			if _, newer := h.now[key]; !newer {
				fn(key, known)
			}
		}
		for key, known := range h.now {
			fn(key, known)
		}
		h.mu.Unlock()
	}
}

// SessionKey names a session of an API key with a model: the one that the caller names, else the one that begins with
// these first messages (system, then user). It is 0 if there is nothing to tell it by.
func SessionKey(keyID, model, explicit string, system, user []byte) uint64 {
	if explicit == "" && len(system)+len(user) == 0 {
		return 0
	}
	h := mix(0, []byte(keyID))
	h = mix(h, []byte(model))
	if explicit != "" {
		h = mix(h^1, []byte(explicit))
	} else {
		h = mix(mix(h, system), user)
	}
	return max(h, 1)
}

// Seed makes the Draw of an Ask from a generation id.
func Seed(id string) uint64 { return mix(0, []byte(id)) }

const (
	prime0 = 0x9e3779b97f4a7c15
	prime1 = 0xe7037ed1a0b428db
	prime2 = 0x8ebc6af09c88c6e3
)

// mix hashes b into h by folded multiplication, as wyhash does. It is the same on every machine and in every process.
func mix(h uint64, b []byte) uint64 {
	h = fold(h^prime0, uint64(len(b))^prime1)
	for len(b) >= 16 {
		h = fold(binary.LittleEndian.Uint64(b)^prime1, binary.LittleEndian.Uint64(b[8:])^h)
		b = b[16:]
	}
	var rest [16]byte
	copy(rest[:], b)
	return fold(binary.LittleEndian.Uint64(rest[:])^prime2^h, binary.LittleEndian.Uint64(rest[8:])^fold(h, prime1))
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// draws is a source of numbers that depend on a seed alone (splitmix64).
type draws uint64

// next is the next number of at least 0 and less than 1.
func (d *draws) next() float64 {
	*d += prime0
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
