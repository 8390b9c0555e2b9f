package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

const (
	segmentMagic = "HEARTHJ1"
	// segmentHeader is the size in bytes of what stands before the first record: magic, journal id, first
	// sequence, the sequence before it in the previous segment, CRC-32C, zeros.
	segmentHeader = 8 + 16 + 8 + 8 + 4 + 4
	segmentSuffix = ".journal"
	// halfSegment is the name of a segment that is being made.
	halfSegment = "new.segment"
)

// segment is one file of the journal.
type segment struct {
	name    string // of its file
	id      [16]byte
	first   uint64 // sequence of its first record
	follows uint64 // last sequence before it; first-1 unless sequences were skipped
	last    uint64 // sequence of its last record; first-1 if it has none. Of the active one: see Journal.next
	size    int64  // of the active one: see Journal.size
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// segmentFirst reads a segment's first sequence from its file name.
func segmentFirst(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// listSegments finds the segment files of a directory, ascending.
func listSegments(d disk) ([]*segment, error) {
	names, err := d.List()
	if err != nil {
		return nil, err
	}
	var list []*segment
	for _, name := range names {
		if first, ok := segmentFirst(name); ok {
			list = append(list, &segment{name: name, first: first, follows: first - 1, last: first - 1})
		}
	}
	slices.SortFunc(list, func(a, b *segment) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	return list, nil
}

func (s *segment) appendHeader(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, segmentMagic...)
	dst = append(dst, s.id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, s.first)
	dst = binary.LittleEndian.AppendUint64(dst, s.follows)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// readHeader takes id and follows from a segment's header; false: it is not the header of this segment.
func (s *segment) readHeader(b []byte) bool {
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic {
		return false
	}
	const crcAt = segmentHeader - 8
	if binary.LittleEndian.Uint32(b[crcAt:]) != crc32.Checksum(b[:crcAt], castagnoli) ||
		binary.LittleEndian.Uint32(b[crcAt+4:]) != 0 || binary.LittleEndian.Uint64(b[24:]) != s.first {
		return false
	}
	copy(s.id[:], b[8:24])
	s.follows = binary.LittleEndian.Uint64(b[32:])
	return s.follows < s.first
}
