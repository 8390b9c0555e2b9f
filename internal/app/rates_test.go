package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// market publishes exchange rates; the answer is empty while it is closed.
type market struct{ body atomic.Pointer[string] }

func (m *market) set(body string) { m.body.Store(&body) }

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Api-Key") != "rates-secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, *m.body.Load())
}

// A new rate holds for the requests that come from then on; endpoints whose rate is too old are out, own slots are not.
func TestRates(t *testing.T) {
	m := new(market)
	m.set(`{"rates":{"KRW":1400,"later":"1500.5","wrong":0.0007}}`)
	srv := httptest.NewServer(m)
	defer srv.Close()
	source := "\nexchange_sources:\n  - {currency: USD, url: \"" + srv.URL + "/latest?base=USD\", pointer: /rates/KRW, headers: {X-Api-Key: rates-secret}}\n"
	w := startWorld(t, source)
	rate := func() string {
		r := w.chat(ask(qwen, ""))
		_, rest, _ := strings.Cut(string(r.body), `"exchange_rate":`)
		rate, _, _ := strings.Cut(rest, ",")
		return rate
	}
	if got := rate(); got != "1400" {
		t.Errorf("the first request is billed at %s, want what was fetched before it", got)
	}
	before := w.chat(ask(qwen, "")).header.Get("X-MyIP-Generation-Id")

	open := w.streaming(`{"model": "` + qwen + `", "stream": true, "messages": [{"role": "user", "content": "count"}], "max_tokens": 40}`)
	w.reload("/rates/KRW", "/rates/later")
	eventually(t, "the rate of the new place holds", func() bool { return rate() == "1500.5" })
	rest, err := io.ReadAll(open.Body)
	open.Body.Close()
	if err != nil || !strings.Contains(string(rest), `"exchange_rate":1400,`) {
		t.Errorf("%v: a stream that began under the rate before is not billed at it: %s", err, rest)
	}
	if r := w.generation(before, w.user); !strings.Contains(string(r.body), `"exchange_rate":"1400"`) {
		t.Errorf("the record forgot its rate: %s", r.body)
	}

	w.reload("/rates/KRW", "/rates/wrong")
	eventually(t, "a rate that cannot be true is not used, nor is that of another place", func() bool {
		r := w.chat(ask(qwen, ""))
		return r.status == 503 && strings.Contains(string(r.body), `"type":"endpoints_cooling_down"`) && r.header.Get("Retry-After") != ""
	})
	if r := w.chat(ask(gemma, "")); r.status != 200 || r.header.Get("X-MyIP-Provider") != "MyIP Local GPU" {
		t.Errorf("own slots need no rate: %d %s", r.status, r.body)
	}
	if log := w.log.String(); !strings.Contains(log, "0.0007 is less than half") || strings.Contains(log, "rates-secret") {
		t.Error("the log does not say why, or says a secret")
	}
	w.reload("pointer: /rates/KRW", "pointer: /rates/wrong, stale: allow")
	eventually(t, "stale: allow uses the old one", func() bool { return rate() == "1390" })
	w.reload()
	eventually(t, "the rate is back", func() bool { return rate() == "1400" })
}
