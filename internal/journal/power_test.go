package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// life is what happens to a journal between two of its openings.
type life struct {
	seed  uint64
	kill  bool // it ends with the process, else with the power
	after int  // in the midst of this operation of the disk, if the steps make so many
	steps []step
}

type step struct {
	do    string
	n     int
	fails string // the operation that fails
}

func drawLives(faults bool) *rapid.Generator[[]life] {
	does := []string{"append", "append", "append", "append together", "append together", "sync", "discard", "reserve", "reopen", "skip"}
	if faults {
		does = append(does, "fail", "fail", "fill", "heal")
	}
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			do: rapid.SampledFrom(does).Draw(t, "do"), n: rapid.IntRange(1, 1800).Draw(t, "n"),
			fails: rapid.SampledFrom([]string{"sync", "sync", "write", "rename", "sync names", "create", "truncate", "any"}).Draw(t, "fails"),
		}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) life {
		return life{
			seed: rapid.Uint64().Draw(t, "seed"), kill: rapid.Bool().Draw(t, "kill"), after: rapid.IntRange(1, 80).Draw(t, "after"),
			steps: rapid.SliceOfN(one, 1, 25).Draw(t, "steps"),
		}
	}), 1, 4)
}

// history is what a journal was given and must give back.
type history struct {
	durability Durability
	disk       *model
	j          *Journal
	count      int

	mu      sync.Mutex
	given   map[string]bool   // every payload ever
	taken   map[uint64]string // acknowledged: found after the process was killed
	safe    map[uint64]string // and synced: found after the power was cut
	dropped uint64            // discarded up to here
	ended   bool              // this life is over
	faulty  bool              // the disk may fail
}

// runLives plays the lives and returns how the journal broke its word.
func runLives(lives []life, d Durability, set func(*model)) error {
	h := &history{durability: d, given: map[string]bool{}, taken: map[uint64]string{}, safe: map[uint64]string{}}
	var left map[string][]byte
	for i, l := range lives {
		if h.disk == nil || left != nil {
			h.disk = newModel(l.seed, left)
		}
		set(h.disk)
		h.ended, h.faulty = false, false
		h.disk.fail, h.disk.space, h.disk.endAt = nil, -1, 0
		if err := h.open(); err != nil {
			return fmt.Errorf("life %d: %w", i, err)
		}
		if err := h.live(l); err != nil {
			return fmt.Errorf("life %d: %w", i, err)
		}
		left = h.disk.left
		h.disk.ended = false
	}
	if left != nil {
		h.disk = newModel(0, left)
	}
	h.ended, h.faulty = false, false
	h.disk.fail, h.disk.space, h.disk.endAt = nil, -1, 0
	if err := h.open(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return h.j.Close()
}

// open opens the journal and looks for all that must be there.
func (h *history) open() error {
	j, err := Open(Options{Dir: "model", SegmentBytes: minSegment, Durability: h.durability, disk: h.disk, pause: time.Nanosecond})
	if err != nil {
		return h.excuse(err)
	}
	h.j = j
	found := map[uint64]string{}
	var last uint64
	seen := map[string]bool{}
	if err := j.Replay(1, func(seq uint64, p []byte) error {
		s := string(p)
		switch {
		case seq <= last:
			return fmt.Errorf("record %d behind %d", seq, last)
		case !h.given[s]:
			return fmt.Errorf("record %d was never given: %.30q", seq, s)
		case seen[s]:
			return fmt.Errorf("record %d is there twice: %.30q", seq, s)
		}
		last, seen[s], found[seq] = seq, true, s
		return nil
	}); err != nil {
		return err
	}
	h.mu.Lock()
	for seq, p := range h.taken {
		if seq > h.dropped && found[seq] != p {
			h.mu.Unlock()
			return fmt.Errorf("record %d is %.30q, acknowledged was %.30q", seq, found[seq], p)
		}
	}
	if !h.ended {
		h.taken = found // whatever was found is there for good
		h.safe = maps.Clone(found)
	}
	h.mu.Unlock()
	return h.append(20) // it goes on
}

// excuse is nil if the power is off or the disk fails: then an error is none of the journal's.
func (h *history) excuse(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if (h.ended || h.faulty) && !errors.Is(err, errBroken) {
		return nil
	}
	return err
}

// append appends a record of n bytes.
func (h *history) append(n int) error {
	h.mu.Lock()
	h.count++
	p := fmt.Sprintf("%d:%s", h.count, strings.Repeat("x", n))
	h.given[p] = true
	h.mu.Unlock()
	seq, err := h.j.Append([]byte(p))
	if err != nil {
		return h.excuse(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil // nobody was told in time
	}
	if was, ok := h.taken[seq]; ok {
		return fmt.Errorf("%w: sequence %d was given to %.30q and %.30q", errBroken, seq, was, p)
	}
	h.taken[seq] = p
	if h.durability == Power {
		h.safe[seq] = p
	}
	return nil
}

var errBroken = errors.New("a promise was broken")

// live plays the steps of a life and ends it.
func (h *history) live(l life) error {
	h.disk.mu.Lock()
	h.disk.kill, h.disk.endAt = l.kill, h.disk.ops+l.after
	h.disk.onEnd = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ended = true
		if !l.kill || h.disk.forgot {
			h.taken = h.safe
		}
	}
	h.disk.mu.Unlock()
	for i, s := range append(slices.Clip(l.steps), step{do: "heal"}, step{do: "reserve"}, step{do: "append", n: 30}) {
		if err := h.step(s); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, s.do, err)
		}
		if err := h.counted(); err != nil {
			return fmt.Errorf("after step %d, %s: %w", i, s.do, err)
		}
	}
	h.disk.mu.Lock()
	h.disk.end()
	h.disk.mu.Unlock()
	abandon(h.j)
	return nil
}

// abandon ends what a dead process does not do any more.
func abandon(j *Journal) {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.stop)
	}
	j.mu.Unlock()
	<-j.stopped
}

// counted compares the journal's own account with its files.
func (h *history) counted() error {
	h.j.mu.Lock()
	defer h.j.mu.Unlock()
	sum := h.j.size
	for i, s := range h.j.segments[:len(h.j.segments)-1] {
		sum += s.size
		if next := h.j.segments[i+1]; next.first <= s.last {
			return fmt.Errorf("%w: segment %d begins in segment %d to %d", errBroken, next.first, s.first, s.last)
		}
	}
	if used := h.j.Used(); used != sum {
		return fmt.Errorf("%w: %d bytes used, the segments have %d", errBroken, used, sum)
	}
	next := h.j.done.Load() + 1
	for _, b := range h.j.unsafe.bytes(nil) {
		for ; len(b) > 0; next++ {
			r := readHeader(b)
			if r.seq != next {
				return fmt.Errorf("%w: record %d is kept in the place of %d", errBroken, r.seq, next)
			}
			b = b[recordHeader+int(r.length):]
		}
	}
	if next != h.j.next {
		return fmt.Errorf("%w: records up to %d are kept, %d were written", errBroken, next-1, h.j.next-1)
	}
	if h.durability == Power && h.j.unsafe.size > 0 {
		return fmt.Errorf("%w: %d bytes wait for nobody", errBroken, h.j.unsafe.size)
	}
	return nil
}

func (h *history) step(s step) error {
	switch s.do {
	case "append":
		return h.append(s.n)
	case "append together":
		errs := make([]error, 2+s.n%4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = h.append(s.n / (i + 1)) })
		}
		wg.Wait()
		return errors.Join(errs...)
	case "sync":
		return h.sync(h.j.Sync)
	case "discard":
		h.mu.Lock()
		seqs := slices.Sorted(maps.Keys(h.taken))
		if len(seqs) > 0 {
			h.dropped = max(h.dropped, seqs[s.n%len(seqs)])
		}
		h.mu.Unlock()
		return h.excuse(h.j.Discard(h.dropped))
	case "reserve":
		err := h.j.Reserve()
		if err == nil {
			h.j.Unreserve()
		}
		return h.excuse(err)
	case "skip":
		return h.excuse(h.j.SkipTo(h.j.Last() + uint64(1+s.n%9)))
	case "reopen":
		if h.faulty {
			return nil
		}
		if err := h.sync(h.j.Close); err != nil || h.over() {
			return err
		}
		return h.open()
	}
	h.change(s)
	return nil
}

// sync calls what makes all safe that was acknowledged before.
func (h *history) sync(do func() error) error {
	h.mu.Lock()
	before := maps.Clone(h.taken)
	h.mu.Unlock()
	if err := do(); err != nil {
		return h.excuse(err)
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		maps.Copy(h.safe, before)
		h.disk.forgot = false
	}
	return nil
}

// change makes the disk worse or better.
func (h *history) change(s step) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faulty = s.do != "heal"
	switch s.do {
	case "heal":
		h.disk.space, h.disk.fail = -1, nil
	case "fill":
		h.disk.space = int64(s.n)
	case "fail":
		left := 1 + s.n%6
		h.disk.fail = func(op string) error {
			if left == 0 || s.fails != op && s.fails != "any" {
				return nil
			}
			left--
			return syscall.EIO
		}
	}
}

func (h *history) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

func TestPowerCut(t *testing.T) {
	for _, d := range []Durability{Power, Process} {
		for name, faults := range map[string]bool{"a sound disk": false, "a disk that fails": true} {
			t.Run(string(d)+"/"+name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					lives := drawLives(faults).Draw(t, "lives")
					if err := runLives(lives, d, func(*model) {}); err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}

// The model can fail: on a disk that lies the same scripts lose records.
func TestPowerCutModel(t *testing.T) {
	for name, set := range map[string]func(*model){
		"syncs do nothing":                  func(m *model) { m.lie = true },
		"syncs of the directory do nothing": func(m *model) { m.lieDir = true },
	} {
		t.Run(name, func(t *testing.T) {
			lost := 0
			rapid.Check(t, func(t *rapid.T) {
				if runLives(drawLives(false).Draw(t, "lives"), Power, set) != nil {
					lost++
				}
			})
			if lost == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}
