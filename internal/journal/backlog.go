package journal

const (
	// blockBytes is the size of a block of the backlog; a longer record has a block of its own.
	blockBytes = 256 << 10
	// keepBlocks is how many empty blocks are kept.
	keepBlocks = 16
)

// backlog holds the bytes of the records that are not known to be on the disk, so that what a failed sync may have lost
// can be written once more.
type backlog struct {
	blocks [][]byte
	skip   int   // bytes of the first block that are safe
	start  int64 // how many bytes there were before the first one held, ever
	size   int64 // bytes held
	spare  [][]byte
}

// end is where the bytes of the last record end, among all that ever were.
func (b *backlog) end() int64 { return b.start + b.size }

// add appends a record and returns its bytes.
func (b *backlog) add(seq, synced uint64, payload []byte) []byte {
	n := recordHeader + len(payload)
	last := len(b.blocks) - 1
	if last < 0 || cap(b.blocks[last])-len(b.blocks[last]) < n {
		b.blocks = append(b.blocks, b.block(n))
		last++
	}
	at := len(b.blocks[last])
	b.blocks[last] = appendRecord(b.blocks[last], seq, synced, payload)
	b.size += int64(n)
	return b.blocks[last][at:]
}

func (b *backlog) block(n int) []byte {
	if last := len(b.spare) - 1; last >= 0 && n <= blockBytes {
		block := b.spare[last]
		b.spare[last], b.spare = nil, b.spare[:last]
		return block
	}
	return make([]byte, 0, max(n, blockBytes))
}

// undo takes the record back that was added last, n bytes long.
func (b *backlog) undo(n int) {
	last := len(b.blocks) - 1
	b.blocks[last] = b.blocks[last][:len(b.blocks[last])-n]
	b.size -= int64(n)
}

// bytes appends the parts that are held to dst. They are good until they are dropped.
func (b *backlog) bytes(dst [][]byte) [][]byte {
	for i, block := range b.blocks {
		if i == 0 {
			block = block[b.skip:]
		}
		if len(block) > 0 {
			dst = append(dst, block)
		}
	}
	return dst
}

// drop forgets the bytes before end.
func (b *backlog) drop(end int64) {
	n := int(end - b.start)
	if n <= 0 {
		return
	}
	b.start, b.size = end, b.size-int64(n)
	n += b.skip
	gone := 0
	for gone < len(b.blocks) && n >= len(b.blocks[gone]) {
		block := b.blocks[gone]
		n -= len(block)
		if cap(block) == blockBytes && len(b.spare) < keepBlocks {
			b.spare = append(b.spare, block[:0])
		}
		gone++
	}
	rest := copy(b.blocks, b.blocks[gone:])
	clear(b.blocks[rest:])
	b.blocks, b.skip = b.blocks[:rest], n
}
