package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
)

// sector is the unit in bytes that the model's disk writes.
const sector = 512

var errPower = errors.New("the power is off")

// model is a disk in memory. What was not synced is held back: when the power is cut, any subset of the sectors written
// since, each in any of the versions it had and torn at any byte, any size the file had, and any subset of the changes
// of names in their order are on the disk. A sync that fails has done the same and takes all pages for written, so that
// a later one does not write them.
type model struct {
	mu     sync.Mutex
	chance *rand.Rand

	names, safeNames map[string]*inode
	renames          []func(map[string]*inode) // changes of names since the last Sync

	ops    int
	endAt  int               // the power goes, or the process is killed, in the midst of this operation; 0 = never
	kill   bool              // the latter
	onEnd  func()            // is told first
	ended  bool              // nothing is done any more
	left   map[string][]byte // what the cut left
	space  int64             // bytes that can still be written, < 0 = no bound
	fail   func(op string) error
	lie    bool // syncs do nothing
	lieDir bool // Sync of the directory does nothing
	forgot bool // a failed sync has thrown pages away: what was only written is gone when the process is killed
}

// inode is a file, whatever names it has.
type inode struct {
	disk     *model
	now      []byte           // as the processes see it
	safe     []byte           // as of the last sync
	versions map[int][][]byte // what stood in a sector since the last sync, by its number
	sizes    []int            // the sizes since
}

func newModel(seed uint64, content map[string][]byte) *model {
	m := &model{chance: rand.New(rand.NewPCG(seed, 0)), space: -1, names: make(map[string]*inode)}
	for name, b := range content {
		m.names[name] = &inode{disk: m, now: b, safe: bytes.Clone(b)}
	}
	m.safeNames = maps.Clone(m.names)
	return m
}

// perhaps is true half of the time.
func (m *model) perhaps() bool { return m.chance.IntN(2) == 0 }

// op is the beginning of every change: here the power goes, the process is killed, or the disk fails. m.mu is held.
func (m *model) op(name string, during func()) error {
	if m.ended {
		return errPower
	}
	if m.ops++; m.ops == m.endAt {
		if m.perhaps() {
			during()
		}
		m.end()
		return errPower
	}
	if m.fail != nil {
		return m.fail(name)
	}
	return nil
}

// end ends this life. m.mu is held.
func (m *model) end() {
	if m.ended {
		return
	}
	m.ended = true
	if m.onEnd != nil {
		m.onEnd()
	}
	if !m.kill {
		m.left = m.cut()
	}
}

// cut is what a power cut at this moment would leave.
func (m *model) cut() map[string][]byte {
	names := maps.Clone(m.safeNames)
	for _, change := range m.renames {
		if m.perhaps() {
			change(names)
		}
	}
	left := make(map[string][]byte)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		left[name] = names[name].lottery()
	}
	return left
}

// lottery is what may be on the disk of a file.
func (n *inode) lottery() []byte {
	m := n.disk
	b := bytes.Clone(n.safe)
	if len(n.sizes) > 0 {
		sizes := append([]int{len(n.safe)}, n.sizes...)
		least, most := slices.Min(sizes), slices.Max(sizes)
		size := least + m.chance.IntN(most-least+1)
		b = append(b[:min(size, len(b))], make([]byte, max(0, size-len(b)))...)
	}
	for _, number := range slices.Sorted(maps.Keys(n.versions)) {
		versions := n.versions[number]
		at := number * sector
		if at >= len(b) {
			continue
		}
		version := versions[m.chance.IntN(len(versions))]
		switch tear := m.chance.IntN(sector); m.chance.IntN(6) {
		case 0, 1: // as it was
		case 2: // torn: only its beginning is new
			copy(b[at:min(at+tear, len(b))], version)
		case 3: // only its end
			if at+tear < len(b) {
				copy(b[at+tear:min(at+sector, len(b))], version[tear:])
			}
		default:
			copy(b[at:min(at+sector, len(b))], version)
		}
	}
	return b
}

// changed notes that the bytes from off to end are new.
func (n *inode) changed(off, end int) {
	if n.versions == nil {
		n.versions = make(map[int][][]byte)
	}
	for number := off / sector; number*sector < end; number++ {
		version := make([]byte, sector)
		if at := number * sector; at < len(n.now) {
			copy(version, n.now[at:])
		}
		n.versions[number] = append(n.versions[number], version)
	}
	n.sizes = append(n.sizes, len(n.now))
}

func (n *inode) settled() { n.versions, n.sizes = nil, nil }

func (n *inode) WriteAt(p []byte, off int64) (int, error) {
	m := n.disk
	m.mu.Lock()
	defer m.mu.Unlock()
	return n.write(p, off)
}

func (n *inode) write(p []byte, off int64) (int, error) {
	m := n.disk
	put := func() {
		if grown := int(off) + len(p) - len(n.now); grown > 0 {
			n.now = append(n.now, make([]byte, grown)...)
		}
		copy(n.now[off:], p)
		n.changed(int(off), int(off)+len(p))
	}
	if err := m.op("write", put); err != nil {
		return 0, err
	}
	full := m.space >= 0 && int64(len(p)) > m.space
	if full {
		p = p[:m.space]
	}
	put()
	if m.space >= 0 {
		m.space -= int64(len(p))
	}
	if full {
		return len(p), syscall.ENOSPC
	}
	return len(p), nil
}

func (n *inode) WriteSync(p []byte, off int64) error {
	if _, err := n.WriteAt(p, off); err != nil {
		return err
	}
	return n.Datasync()
}

func (n *inode) Truncate(size int64) error {
	m := n.disk
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op("truncate", func() {}); err != nil {
		return err
	}
	was := len(n.now)
	if int(size) > was { // a failed sync has thrown pages away: what was there reads as zeros
		n.now = append(n.now, make([]byte, int(size)-was)...)
	}
	n.now = n.now[:size:size] // what is written there later does not show through
	n.changed(min(int(size), was), max(int(size), was))
	return nil
}

func (n *inode) Datasync() error {
	m := n.disk
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op("sync", func() {}); err != nil {
		if !errors.Is(err, errPower) {
			n.safe = n.lottery()
			if m.perhaps() { // the pages are thrown away
				n.now = bytes.Clone(n.safe)
				m.forgot = true
			}
			n.settled()
		}
		return err
	}
	if !m.lie {
		// What a failed sync lost stays lost: only what was written since goes to the disk.
		n.safe = append(n.safe[:min(len(n.safe), len(n.now))], make([]byte, max(0, len(n.now)-len(n.safe)))...)
		for number, versions := range n.versions {
			if at := number * sector; at < len(n.safe) {
				copy(n.safe[at:min(at+sector, len(n.safe))], versions[len(versions)-1])
			}
		}
		n.settled()
	}
	return nil
}

func (n *inode) Allocate(_, size int64) error {
	m := n.disk
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.space >= 0 && size > m.space {
		return syscall.ENOSPC
	}
	return m.op("allocate", func() {})
}

func (n *inode) Close() error { return nil }

func (m *model) Lock() (io.Closer, error) { return io.NopCloser(nil), nil }

func (m *model) List() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.names)), nil
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func (m *model) Read(name string) (io.ReadSeekCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil {
		return nil, fs.ErrNotExist
	}
	return readCloser{bytes.NewReader(bytes.Clone(n.now))}, nil
}

// rename does a change of names, which is on the disk for sure after the next Sync.
func (m *model) rename(op string, change func(map[string]*inode)) error {
	both := func() {
		change(m.names)
		m.renames = append(m.renames, change)
	}
	if err := m.op(op, both); err != nil {
		return err
	}
	both()
	return nil
}

func (m *model) Create(name string, _ bool) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.names[name]; n != nil {
		if err := m.op("create", func() {}); err != nil {
			return nil, err
		}
		was := len(n.now)
		n.now = nil
		n.changed(0, was)
		return n, nil
	}
	n := &inode{disk: m}
	return n, m.rename("create", func(names map[string]*inode) { names[name] = n })
}

func (m *model) Change(name string, _ bool) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.names[name]; n != nil {
		return n, nil
	}
	return nil, fs.ErrNotExist
}

func (m *model) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[from] == nil {
		return fs.ErrNotExist
	}
	n := m.names[from]
	return m.rename("rename", func(names map[string]*inode) {
		if names[from] == n {
			delete(names, from)
		}
		names[to] = n
	})
}

func (m *model) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] == nil {
		return nil
	}
	return m.rename("remove", func(names map[string]*inode) { delete(names, name) })
}

func (m *model) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op("sync names", func() {}); err != nil {
		return err
	}
	if !m.lieDir {
		m.safeNames, m.renames = maps.Clone(m.names), nil
	}
	return nil
}
