package slot

import (
	"context"
	"sync"
)

// watchRoom is how many events a watcher may be behind.
const watchRoom = 256

// hub passes events on to those who watch.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	closed   bool
}

type watcher struct {
	ch     chan Event
	missed int
}

// Watch tells of every step of every slot from now on, until ctx ends or the fleet is closed; then the channel is
// closed. A watcher that does not keep up loses the oldest events, and is told how many.
func (f *Fleet) Watch(ctx context.Context) <-chan Event { return f.hub.watch(ctx) }

func (h *hub) watch(ctx context.Context) <-chan Event {
	w := &watcher{ch: make(chan Event, watchRoom)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(w.ch)
		return w.ch
	}
	if h.watchers == nil {
		h.watchers = map[*watcher]struct{}{}
	}
	h.watchers[w] = struct{}{}
	context.AfterFunc(ctx, func() { h.drop(w) })
	return w.ch
}

func (h *hub) drop(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.watchers[w]; ok {
		delete(h.watchers, w)
		close(w.ch)
	}
}

// emit tells all watchers and waits for none.
func (h *hub) emit(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.put(e)
	}
}

func (w *watcher) put(e Event) {
	for {
		e.Missed = w.missed
		select {
		case w.ch <- e:
			w.missed = 0
			return
		default:
		}
		select {
		case lost := <-w.ch:
			w.missed += 1 + lost.Missed
		default:
		}
	}
}

// close ends all watching.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.watchers {
		close(w.ch)
	}
	h.watchers = nil
}
