package faults

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

// dials remembers every address that a gateway connects to with requests.
type dials struct {
	mu            sync.Mutex
	outside, here []string
}

func (d *dials) options() app.Options {
	dial := func(list *[]string) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			d.mu.Lock()
			*list = append(*list, address)
			d.mu.Unlock()
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
		}
	}
	return app.Options{Dial: dial(&d.outside), LocalDial: dial(&d.here)}
}

// kept fails the test if a request went anywhere but to the engine. external must not even have been connected to.
func (d *dials) kept(t *testing.T, engine string, external *rogue) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.outside) != 0 {
		t.Errorf("providers were dialled: %v", d.outside)
	}
	if i := slices.IndexFunc(d.here, func(a string) bool { return engine != "" && a != engine }); i >= 0 {
		t.Errorf("dialled %s, the engine is at %s", d.here[i], engine)
	}
	if n := len(external.connections()); n != 0 || external.bytes.Load() != 0 {
		t.Errorf("the provider saw %d connections and %d bytes", n, external.bytes.Load())
	}
}

const onlyLocal = `,"provider":{"only":["local-gpu"]}`

// localKey makes a key whose requests never leave the house.
func (g *gateway) localKey(t *testing.T) string {
	t.Helper()
	key, _, err := g.app.Accounts.Create(t.Context(), hearth.Key{Name: "stays at home", LocalOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// stays asks in both ways that promise that nothing leaves, and looks at what came back: an answer of the slot or an
// error, and nothing of anybody else.
func (g *gateway) stays(t *testing.T, more string) {
	t.Helper()
	key := g.localKey(t)
	for _, a := range []*answer{
		g.chat(t, question(more+onlyLocal)),
		g.call(t, key, "POST", "/api/v1/chat/completions", question(more+`,"provider":{"order":["backup","local-gpu"],"allow_fallbacks":true}`)),
		g.call(t, key, "POST", "/api/v1/chat/completions", question(more+`,"provider":{"only":["backup"]}`)),
	} {
		got := a.read()
		if a.status == 200 && got.provider != "Local" || a.status != 200 && strings.Contains(string(a.body), "Backup") && got.fault.Type != "not_allowed" {
			t.Errorf("%d %s: %.500s", a.status, got.provider, a.body)
		}
	}
}

// Under no fault of the slot's engine does a byte of a request that must stay in the house leave it.
func TestLocality(t *testing.T) {
	t.Parallel()
	for table, rows := range map[string][]row{
		"statuses": statuses, "overflows": overflows, "connections": connections, "starts": starts, "breaks": breaks, "ends": ends, "clothes": clothes,
	} {
		for i := range rows {
			r := &rows[i]
			if r.heavy {
				continue
			}
			t.Run(table+"/"+r.name, func(t *testing.T) {
				t.Parallel()
				r.stays(t)
			})
		}
	}
}

func (r *row) stays(t *testing.T) {
	var d dials
	backup := serve(t, well(backupText))
	engine, url := "", r.url
	var slot *rogue
	if url == "" {
		slot = serveOn(t, r.wrap.handshake(t))
		engine, url = slot.addr(), r.wrap.scheme()+slot.addr()
	}
	if url == "http://primary.invalid" { // the slot of a name needs trust in the network
		url += `", trust: "lan`
	}
	wait := ", wait: 5s"
	if r.never() {
		wait = ", wait: 500ms"
	}
	g := start(t, setup{backup: backup.url(), limits: r.limits, slots: slotAt(url, wait), options: d.options()})
	for _, m := range r.modes() {
		if slot != nil {
			slot.set(m.play...)
		}
		g.stays(t, strings.TrimSuffix(map[bool]string{true: streaming}[m.streamed]+m.more, ","))
	}
	d.kept(t, engine, backup)
}

// never says whether an engine that does so is never found to be ready.
func (r *row) never() bool { return r.wrap != plain || len(r.both) > 0 && r.both[0] == nil }

// A local engine that points elsewhere is not followed, not even to the address of a provider.
func TestLocalRedirects(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(itoa(status), func(t *testing.T) {
			t.Parallel()
			var d dials
			backup := serve(t, well(backupText))
			slot := serve(t, refusal(status, "moved", "Location: "+backup.url()+"/v1/chat/completions")...)
			g := start(t, setup{backup: backup.url(), slots: slotAt(slot.url(), ""), options: d.options()})
			g.stays(t, "")
			g.stays(t, streaming)
			d.kept(t, slot.addr(), backup)
			if slot.chats.Load() == 0 {
				t.Error("the engine was not asked at all")
			}
		})
	}
}

// Whatever state the slot is in, nothing leaves.
func TestLocalStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, slot string }{
		{"asleep, and slow to load", engineSlot(t, ", wait: 100ms", "--load", "30s")},
		{"a failed start", engineSlot(t, ", wait: 3s", "--fail-start")},
		{"crashing again and again", engineSlot(t, ", wait: 3s", "--load", "10ms", "--exit-after", "30ms")},
		{"disabled", engineSlot(t, ", disabled: true")},
		{"a window that is too small", engineSlot(t, ", wait: 5s, context: 4", "--load", "10ms")},
		{"an engine that is not there", slotAt("http://127.0.0.1:1", "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var d dials
			backup := serve(t, well(backupText))
			g := start(t, setup{backup: backup.url(), slots: c.slot, options: d.options()})
			for range 2 {
				g.stays(t, "")
				g.stays(t, streaming)
			}
			d.kept(t, "", backup)
		})
	}
	t.Run("busy, and its queue full", func(t *testing.T) {
		t.Parallel()
		var d dials
		backup := serve(t, well(backupText))
		slot := serve(t, say(begun(8)), stall)
		g := start(t, setup{backup: backup.url(), slots: slotAt(slot.url(), ", concurrency: 1, queue: 1, wait: 100ms, queue_wait: 100ms"), options: d.options()})
		ctx, cancel := context.WithCancel(t.Context())
		var held sync.WaitGroup
		held.Go(func() {
			for ctx.Err() == nil && slot.chats.Load() == 0 { // until it was ready in time
				g.leave(ctx, question(streaming+onlyLocal))
			}
		})
		until(t, "the slot is taken", func() bool { return slot.chats.Load() == 1 })
		g.stays(t, "")
		g.stays(t, streaming)
		d.kept(t, slot.addr(), backup)
		cancel()
		held.Wait()
	})
	t.Run("in cooldown", func(t *testing.T) {
		t.Parallel()
		var d dials
		backup := serve(t, well(backupText))
		slot := serve(t, refusal(500, "fell over")...)
		g := start(t, setup{backup: backup.url(), slots: slotAt(slot.url(), ""), options: d.options()})
		for range 3 {
			g.chat(t, question(onlyLocal))
		}
		if a := g.chat(t, question(onlyLocal)); a.read().fault.Type != "endpoints_cooling_down" {
			t.Errorf("no cooldown: %s", a.body)
		}
		g.stays(t, "")
		d.kept(t, slot.addr(), backup)
	})
}
