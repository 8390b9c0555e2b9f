package faults

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth/internal/app"
)

// torrent streams mib MiB of content as fast as it is taken, and then ends as it should. sent counts its bytes.
func torrent(mib int, sent *atomic.Int64) script {
	piece := parts(word(strings.Repeat("y", 16<<10)))
	return script{say(sseHead + parts(roleEvent)), func(l *link) bool {
		for range mib << 6 {
			if !l.say(piece) {
				return false
			}
			sent.Add(int64(len(piece)))
		}
		return l.say(parts(finishEvent, usageEvent, "[DONE]") + lastPart)
	}}
}

// stopped is a caller that has asked for a stream and reads nothing.
func (g *gateway) stopped(t *testing.T) *wire {
	w := g.dial(t)
	_ = w.SetDeadline(time.Now().Add(2 * time.Minute))
	w.ask(g, streaming, 0)
	return w
}

// settled waits until a count does not change any more.
func settled(t *testing.T, n *atomic.Int64) int64 {
	t.Helper()
	last, same := int64(-1), 0
	until(t, "nothing moves", func() bool {
		now := n.Load()
		if same++; now != last || now == 0 {
			last, same = now, 0
		}
		return same >= 60 // looks, 5 ms apart
	})
	return last
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Callers that take nothing hold the upstream back, not memory.
func TestStoppedReaders(t *testing.T) {
	const readers, mib, each = 16, 24, 2 << 20
	var sent atomic.Int64
	up := serve(t, torrent(mib, &sent)...)
	g := start(t, setup{primary: up.url()})
	_ = g.chat(t, question("")) // the first of everything
	sent.Store(0)
	before := heap()
	var all []*wire
	for range readers {
		all = append(all, g.stopped(t))
	}
	until(t, "all have begun", func() bool { return up.chats.Load() == readers+1 })
	n := settled(t, &sent)
	if n > readers*mib<<20/2 {
		t.Errorf("the upstreams could send %d MiB to callers that take nothing", n>>20)
	}
	if grown := int64(heap()) - int64(before); grown > readers*each {
		t.Errorf("the heap grew by %d KiB for each caller that takes nothing", grown>>10/readers)
	} else {
		t.Logf("the heap grew by %d KiB for each of %d stopped callers; %d KiB each are under way", grown>>10/readers, readers, n>>10/readers)
	}
	// One of them goes on reading, and gets everything.
	resp, err := readAllOf(all[0])
	if err != nil || !bytes.HasSuffix(resp, []byte("data: [DONE]\n\n\r\n0\r\n\r\n")) || bytes.Count(resp, []byte("y")) < mib<<20 {
		t.Errorf("the one that went on got %d bytes, %v", len(resp), err)
	}
	for _, w := range all {
		w.Close()
	}
	until(t, "every connection upstream is closed", func() bool { return up.chatting() <= 1 })
}

// readAllOf reads a chunked answer as it stands on the wire.
func readAllOf(w *wire) ([]byte, error) {
	var b bytes.Buffer
	piece := make([]byte, 256<<10)
	for !bytes.HasSuffix(b.Bytes(), []byte("\r\n0\r\n\r\n")) {
		n, err := w.r.Read(piece)
		b.Write(piece[:n])
		if err != nil {
			return b.Bytes(), err
		}
	}
	return b.Bytes(), nil
}

// A caller that reads slowly, but reads, gets its whole answer.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	up := serve(t, torrent(4, &sent)...)
	g := start(t, setup{slots: slotAt(up.url(), "")})
	w := g.stopped(t)
	var got bytes.Buffer
	piece := make([]byte, 64<<10)
	pace := time.NewTicker(3 * time.Millisecond)
	defer pace.Stop()
	for !bytes.HasSuffix(got.Bytes(), []byte("\r\n0\r\n\r\n")) {
		<-pace.C
		n, err := w.r.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			t.Fatalf("after %d bytes: %v", got.Len(), err)
		}
	}
	if !bytes.Contains(got.Bytes(), []byte(`"finish_reason":"stop"`)) || !bytes.Contains(got.Bytes(), []byte("data: [DONE]")) {
		t.Errorf("it ended with %q", got.Bytes()[got.Len()-300:])
	}
}

// A caller that takes nothing loses its stream: the upstream is told, the place in the slot is free, and the record says
// that the caller left.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	up := serve(t, once(torrent(64, &sent), well(twenty)))
	const limit = 2 * time.Second
	g := start(t, setup{slots: slotAt(up.url(), ", concurrency: 1, wait: 50s, queue_wait: 50s"), options: app.Options{WriteLimit: limit}})
	w := g.stopped(t)
	until(t, "the slot is taken", func() bool { return up.chats.Load() == 1 && strings.Contains(g.slot(t), `"inflight":1`) })
	began := time.Now()
	select {
	case <-up.first().gone:
		if took := time.Since(began); took < limit/2 {
			t.Errorf("the caller had only %s", took)
		}
	case <-time.After(patience):
		t.Fatal("the upstream still works for a caller that takes nothing")
	}
	if a := g.chat(t, question("")); a.read().text != twenty {
		t.Errorf("the next caller: %s", a.body)
	}
	// What was on its way may still be read; then the connection ends, and not as if the answer were complete.
	rest, _ := io.ReadAll(w.r)
	if bytes.Contains(rest, []byte("[DONE]")) || bytes.HasSuffix(rest, []byte("\r\n0\r\n\r\n")) {
		t.Errorf("an answer that was given up ended as if it were complete")
	}
	_, id, _ := bytes.Cut(rest, []byte("X-Generation-Id: "))
	id, _, _ = bytes.Cut(id, []byte("\r\n"))
	a := &answer{header: map[string][]string{"X-Generation-Id": {string(id)}}}
	if rec := g.record(t, a); !rec.Cancelled || rec.Status != 200 || !rec.free() {
		t.Errorf("the record: %+v", rec)
	}
}

// first is the connection of the first chat request.
func (r *rogue) first() *link {
	for _, l := range r.connections() {
		if l.asked() > 0 {
			return l
		}
	}
	r.t.Fatal("no request has come")
	return nil
}
