package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// recordHeader is the size in bytes of what stands before a payload.
const recordHeader = 4 + 4 + 8 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is a record's header without its checksum.
type header struct {
	length uint32
	seq    uint64
	synced uint64
}

// appendRecord appends a whole record to dst.
func appendRecord(dst []byte, seq, synced uint64, payload []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = binary.LittleEndian.AppendUint64(dst, synced)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[at:], crc32.Checksum(dst[at+4:], castagnoli))
	return dst
}

// readHeader reads the header at the start of b, which holds at least recordHeader bytes.
func readHeader(b []byte) header {
	return header{
		length: binary.LittleEndian.Uint32(b[4:]),
		seq:    binary.LittleEndian.Uint64(b[8:]),
		synced: binary.LittleEndian.Uint64(b[16:]),
	}
}

// intact says whether the record at the start of b, header and payload, has the checksum it carries.
func intact(b []byte) bool {
	return binary.LittleEndian.Uint32(b) == crc32.Checksum(b[4:], castagnoli)
}

// fits says whether h can be the record expected at next: a record with the next sequence, or a mark of the last.
func (h header) fits(next uint64) bool {
	if h.synced > h.seq || h.length > MaxPayload {
		return false
	}
	if h.length == 0 {
		return h.seq == next-1
	}
	return h.seq == next
}
