package faults

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fall is a chain of which every candidate fails.
type fall struct {
	name            string
	primary, backup script // nil = there is none
	slots           string
	limits          string // of the primary
	backupLimits    string
	more            string // further keys of the request
	before          int    // requests that are made before the one that is looked at

	status int
	typ    string
	says   string   // part of the message
	words  []string // status of each candidate in the record, * = any
	after  int      // largest Retry-After; 0 = none
	slot   string   // metadata.slot_status
	retry  bool     // a retry helps
}

var falls = []fall{
	{name: "all answer 500", primary: refusal(500, "fell over"), backup: refusal(503, "fell over too"), status: 502, typ: "provider_error", words: []string{"500", "503"}, retry: true},
	{name: "all reset", primary: script{reset}, backup: script{reset}, status: 502, typ: "provider_error", words: []string{"null", "null"}, retry: true},
	{name: "all are silent", primary: script{stall}, backup: script{stall}, limits: short, backupLimits: short, status: 504, typ: "timeout", words: []string{"null", "null"}, retry: true},
	{name: "one is silent, one answers 500", primary: script{stall}, backup: refusal(500, "fell over"), limits: short, status: 502, typ: "provider_error", words: []string{"null", "500"}, retry: true},
	{name: "all are rate limited", primary: refusal(429, "slow", "Retry-After: 9"), backup: refusal(429, "slow", "Retry-After: 4"), status: 429, typ: "rate_limited", words: []string{"429", "429"}, after: 4, retry: true},
	{name: "all are still rate limited", before: 1, primary: refusal(429, "slow", "Retry-After: 50"), backup: refusal(429, "slow", "Retry-After: 40"), status: 503, typ: "endpoints_cooling_down", words: []string{"rate_limited", "rate_limited"}, after: 40, retry: true},
	{name: "one is rate limited, one answers 500", primary: refusal(429, "slow"), backup: refusal(500, "fell over"), status: 502, typ: "provider_error", words: []string{"429", "500"}, retry: true},
	{name: "all reject the request", primary: refusal(400, "temperature is too hot"), backup: refusal(400, "temperature must be at most 2"), status: 400, typ: "invalid_request", says: "temperature must be at most 2", words: []string{"400", "400"}},
	{name: "all find the body too large", primary: refusal(413, "too large"), backup: refusal(413, "too large"), status: 413, says: "too large", words: []string{"413", "413"}},
	{name: "one rejects the request, one answers 500", primary: refusal(400, "temperature is too hot"), backup: refusal(500, "fell over"), status: 502, typ: "provider_error", words: []string{"400", "500"}, retry: true},
	{name: "all refuse our key", primary: refusal(401, "bad key "+primaryKey), backup: refusal(401, "bad key "+backupKey), status: 502, typ: "provider_error", words: []string{"401", "401"}, retry: true},
	{name: "all are in cooldown", before: 3, primary: refusal(500, "fell over"), backup: refusal(500, "fell over"), status: 503, typ: "endpoints_cooling_down", words: []string{"cooldown", "cooldown"}, after: 60, retry: true},
	{name: "all answer with nothing", primary: script{say(sseHead + lastPart)}, backup: script{say(sseHead + lastPart)}, status: 502, typ: "provider_error", words: []string{"*", "*"}, retry: true},
	{name: "fallbacks are not allowed", primary: refusal(500, "fell over"), backup: script{well(backupText)}, more: `,"provider":{"allow_fallbacks":false}`, status: 502, typ: "provider_error", words: []string{"500"}, retry: true},
	{name: "the slot's engine is not there", slots: slotAt("http://127.0.0.1:1", ""), status: 503, typ: "model_loading", slot: "slot_failed", words: []string{"slot_failed"}, after: 60, retry: true},
	{name: "a provider fails, and the slot behind it is not there", primary: refusal(500, "fell over"), slots: slotAt("http://127.0.0.1:1", ", priority: 100"), status: 503, typ: "model_loading", slot: "slot_failed", words: []string{"500", "slot_failed"}, after: 60, retry: true},
	{name: "the slot is not there, and the provider behind it fails", primary: refusal(500, "fell over"), slots: slotAt("http://127.0.0.1:1", ""), status: 502, typ: "provider_error", words: []string{"slot_failed", "500"}, retry: true},
}

// slotAt is a slot whose engine somebody else runs.
func slotAt(url, more string) string {
	return `- {name: slot, model: author/model, driver: always, url: "` + url + `", price: {prompt: 1, completion: 2}` + more + `}`
}

func TestWholeChainFails(t *testing.T) {
	t.Parallel()
	for i := range falls {
		f := &falls[i]
		for _, kind := range []string{"stream", "whole"} {
			t.Run(f.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f.run(t, kind == "stream")
			})
		}
	}
}

func (f *fall) run(t *testing.T, streamed bool) {
	s := setup{slots: f.slots, limits: f.limits, backupLimits: f.backupLimits}
	var primary, backup *rogue
	if f.primary != nil {
		primary = serve(t, f.primary...)
		s.primary = primary.url()
	}
	if f.backup != nil {
		backup = serve(t, f.backup...)
		s.backup = backup.url()
	}
	g := start(t, s)
	body := question(f.more)
	if streamed {
		body = question(streaming + f.more)
	}
	for range f.before {
		_ = g.chat(t, body).read()
	}
	a := g.chat(t, body)
	got, rec := a.read(), g.record(t, a)
	if a.status != f.status || got.fault == nil || f.typ != "" && got.fault.Type != f.typ || !strings.Contains(got.fault.Message+got.fault.Metadata.Raw, f.says) {
		t.Fatalf("want %d %s %q, got %d %s", f.status, f.typ, f.says, a.status, a.body)
	}
	if !slices.EqualFunc(rec.words(), f.words, func(a, b string) bool { return a == b || b == "*" }) {
		t.Errorf("provider_responses %v, want %v", rec.words(), f.words)
	}
	if n := len(got.fault.Metadata.Attempts); f.before == 0 && n != len(f.words) {
		t.Errorf("the error tells of %d attempts, want %d: %s", n, len(f.words), a.body)
	}
	if !rec.free() || rec.Status != f.status || text(rec.Error) != got.fault.Type || rec.Provider != nil {
		t.Errorf("the record: %+v", rec)
	}
	after, _ := strconv.Atoi(a.header.Get("Retry-After"))
	if f.after == 0 && a.header.Get("Retry-After") != "" || f.after > 0 && (after < 1 || after > f.after) {
		t.Errorf("Retry-After %q, want at most %d", a.header.Get("Retry-After"), f.after)
	}
	if got.fault.Metadata.Slot != f.slot {
		t.Errorf("slot_status %q", got.fault.Metadata.Slot)
	}
	if no := a.header.Get("X-Should-Retry") == "false"; no == f.retry {
		t.Errorf("X-Should-Retry: %q", a.header.Get("X-Should-Retry"))
	}
	for _, secret := range []string{primaryKey, backupKey, "127.0.0.1"} {
		if strings.Contains(string(a.body), secret) {
			t.Errorf("the answer tells %q: %s", secret, a.body)
		}
	}
	if f.name == "fallbacks are not allowed" && backup.chats.Load() != 0 {
		t.Error("the backup was asked")
	}
}
