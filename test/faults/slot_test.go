package faults

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// A slot that cannot serve is passed over, with the word for it in the record, and the provider behind it answers.
func TestSlotWords(t *testing.T) {
	t.Parallel()
	stalled := func() script { return script{say(begun(8)), stall} }
	for _, c := range []struct {
		name   string
		word   string
		slot   string // of an engine that the gateway starts, or that is not there
		engine script // of a slot whose engine is played
		more   string // of that slot
		before int    // requests that stay in the slot meanwhile
		failed int    // requests that fail there before
	}{
		{name: "asleep, and slow to load", word: "slot_loading", slot: engineSlot(t, ", wait: 100ms", "--load", "30s")},
		{name: "a failed start", word: "slot_failed", slot: engineSlot(t, ", wait: 30s", "--fail-start")},
		{name: "not there", word: "slot_failed", slot: slotAt("http://127.0.0.1:1", "")},
		{name: "no place in time", word: "slot_busy", engine: stalled(), more: ", concurrency: 1, queue_wait: 100ms", before: 1},
		{name: "no place in the queue", word: "slot_queue_full", engine: stalled(), more: ", concurrency: 1, queue: 0", before: 1},
		{name: "its engine says that it loads", word: "slot_loading", engine: refusal(503, "Loading model")},
		{name: "in cooldown", word: "cooldown", engine: refusal(500, "fell over"), failed: 3},
		{name: "its key was refused, which is no account", word: "cooldown", engine: refusal(401, "Invalid API Key"), failed: 3},
		{name: "a window that is too small", word: "context_length", slot: engineSlot(t, ", context: 4", "--load", "10ms")},
	} {
		for _, more := range []string{"", streaming} {
			t.Run(c.name+map[string]string{"": "/whole", streaming: "/stream"}[more], func(t *testing.T) {
				t.Parallel()
				backup := serve(t, well(backupText))
				var engine *rogue
				slot := c.slot
				if slot == "" {
					engine = serve(t, c.engine...)
					slot = slotAt(engine.url(), c.more)
				}
				g := start(t, setup{backup: backup.url(), slots: slot})
				ctx, cancel := context.WithCancel(t.Context())
				var held sync.WaitGroup
				for range c.before {
					held.Go(func() { g.leave(ctx, question(streaming)) })
					until(t, "the place is taken", func() bool { return strings.Contains(g.slot(t), `"inflight":1`) && engine.chats.Load() == 1 })
				}
				for range c.failed {
					_ = g.chat(t, question(more)).read()
				}
				a := g.chat(t, question(more))
				if got := a.read(); got.provider != "Backup" || got.text != backupText {
					t.Errorf("%d %.500s", a.status, a.body)
				}
				if w := g.record(t, a).words(); len(w) != 2 || w[0] != c.word || w[1] != "200" {
					t.Errorf("provider_responses %v, want %s and 200", w, c.word)
				}
				cancel()
				held.Wait()
			})
		}
	}
}

// What a caller puts behind a web address is not fetched on the way to an own engine, unless the operator says so.
func TestMediaAddresses(t *testing.T) {
	t.Parallel()
	trap, backup := serve(t, well("a picture")), serve(t, well(backupText))
	slot := serve(t, well(twenty))
	var d dials
	g := start(t, setup{backup: backup.url(), slots: slotAt(slot.url(), ""), options: d.options()})
	for _, kind := range []string{`{"type":"image_url","image_url":{"url":"%"}}`, `{"type":"video_url","video_url":{"url":"%"}}`} {
		for _, address := range []string{trap.url() + "/a.png", strings.Replace(trap.url(), "127.0.0.1", "localhost", 1), "file:///etc/passwd", "http://[::1]:1/", "gopher://" + trap.addr()} {
			part := strings.Replace(kind, "%", address, 1)
			body := `{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"text","text":"count to twenty"},` + part + `]}]` + onlyLocal + `}`
			a := g.chat(t, body)
			if got := a.read(); a.status < 400 || a.status >= 500 || got.fault == nil {
				t.Errorf("%s: %d %.300s", address, a.status, a.body)
			}
		}
	}
	if trap.bytes.Load() != 0 || slot.holds("/a.png") || slot.holds("passwd") {
		t.Errorf("fetched %d bytes; the engine was told the address: %v", trap.bytes.Load(), slot.holds("/a.png"))
	}
	d.kept(t, slot.addr(), backup)
}
