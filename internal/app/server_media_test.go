package app_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestServer_MediaOfTheHouse: an address of this machine in a request is followed by nobody here: not by an engine, and
// not by the gateway that downloads for it.
func TestServer_MediaOfTheHouse(t *testing.T) {
	var conns atomic.Int64
	victim := httptest.NewUnstartedServer(http.NotFoundHandler())
	victim.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	victim.Start()
	defer victim.Close()
	ask := func(more string) string {
		return `{"model":"` + gemma + `","messages":[{"role":"user","content":[{"type":"text","text":"hi"},` +
			`{"type":"image_url","image_url":{"url":"` + victim.URL + `/secret.png"}}]}]` + more + `}`
	}
	const onlyLocal = `,"provider":{"only":["local-gpu"]}`
	for _, name := range []string{"refuse", "fetch"} {
		t.Run(name, func(t *testing.T) {
			w := startWorld(t, "", "{name: MyIP Local GPU}", "{name: MyIP Local GPU, media_urls: "+name+"}", "name: gemma,", "name: gemma, image_tokens: 256,")
			r := w.chat(ask(onlyLocal))
			if e := r.fault(t); r.status != 400 || !strings.Contains(e.Error.Message, "data") || strings.Contains(e.Error.Message, "secret.png") {
				t.Errorf("only own slots: %d %s", r.status, r.body)
			}
			if r := w.chat(ask("")); r.status != 200 || r.header.Get("X-MyIP-Provider") != "Acme AI" {
				t.Errorf("with a provider behind them, which is sent the address itself: %d %s", r.status, r.body)
			}
		})
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made to the address", n)
	}
}
