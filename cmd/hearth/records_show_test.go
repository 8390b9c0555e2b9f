package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestShow(t *testing.T) {
	h := newHouse(t)
	key := h.key(t, "night\x1b[31mly")
	g := answered("gen-1", key, "acme", "a/b", time.Date(2026, 11, 30, 9, 0, 0, 0, seoul))
	g.Attempts = append([]hearth.Attempt{{Model: "a/b", Provider: "Cheap", Slug: "cheap", Endpoint: "cheap:a/b", Status: 500, Latency: 120 * time.Millisecond, Message: "no\nluck"},
		{Model: "a/b", Slug: "local-gpu", Endpoint: "local-gpu/gpu-1:a/b", Skip: hearth.SkipLoading}}, g.Attempts...)
	g.Notes = []string{"top_k ignored"}
	terms := []hearth.RoutedTerms{
		{Endpoint: "cheap:a/b", Share: .75, Price: .0812, Wait: .1, Decode: .2, Failed: .001, Later: -.0822, Total: .3, TTFT: 1.2, Rest: 3.4, InFlight: 3, Cap: 12.5, Errors: .02, Limits: .003, State: "closed"},
		{Endpoint: "acme:a/b", Share: .25, Price: .1, Wait: .1, Decode: .2, Quality: .01, Total: .41, TTFT: 1.1, Rest: 3, State: "half_open", Flagged: true, New: true},
	}
	g.Routing = []hearth.Routed{
		{Model: "a/b", Priority: 50, Endpoint: "cheap:a/b", Reason: "share", Share: .75, Kappa: .85, Snapshot: 7, Candidates: terms},
		{Model: "a/b", Priority: 50, Endpoint: "acme:a/b", Reason: "retry", Share: 1, Kappa: .85, Snapshot: 8},
	}
	h.record(t, g)
	want := `generation    gen-1
arrived       2026-11-30T09:00:00+09:00
key           night?[31mly
asked for     a/b
answered by   acme:a/b
status        200
tokens        1000 in (0 cached), 100 out
cost          0.147 KRW
first token   0.0015 s
whole answer  2 s
note          top_k ignored

TRIED                BECAME        TOOK    WHY
cheap:a/b            500           0.12 s  no?luck
local-gpu/gpu-1:a/b  slot_loading  -       -
acme:a/b             200           -       -

a/b, priority 50: cheap:a/b is the first, reason share, share 75 %; value of time 0.85, snapshot 7
ENDPOINT   SHARE  PRICE   WAIT  DECODE  FAILED  QUALITY  LATER    TOTAL KRW  FIRST TOKEN  REST   IN FLIGHT  ERRORS  429    STATE
cheap:a/b  75 %   0.0812  0.1   0.2     0.001   0        -0.0822  0.3        1.2 s        3.4 s  3 of 12.5  2 %     0.3 %  closed
acme:a/b   25 %   0.1     0.1   0.2     0       0.01     0        0.41       1.1 s        3 s    0          0 %     0 %    half_open, flagged, not measured

a/b, priority 50: acme:a/b is the first, reason retry, share 100 %; value of time 0.85, snapshot 8
`
	if diff := cmp.Diff(want, h.must(t, "records", "show", "gen-1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	refused := answered("gen-2", "key-gone", "", "a/b", time.Date(2026, 11, 30, 9, 0, 0, 0, seoul))
	refused.Endpoint, refused.Attempts, refused.HTTP, refused.Error, refused.Cancelled, refused.FirstToken = "", nil, 503, "model_loading", true, 0
	h.record(t, refused)
	out := h.must(t, "records", "show", "gen-2")
	for _, line := range []string{"key           key-gone\n", "status        503 model_loading, the caller left\n", "first token   -\n"} {
		if !strings.Contains(out, line) || strings.Contains(out, "answered by") || strings.Contains(out, "TRIED") {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	if code, _, errs := h.hearth("records", "show", "gen-3"); code == 0 || !strings.Contains(errs, `there is no record of a generation "gen-3"`) {
		t.Errorf("%d %s", code, errs)
	}
}
