package faults

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// late is an upstream that lets the early headers go out first, also on a busy machine.
func late(then ...act) script { return append(script{wait(3 * time.Second)}, then...) }

// With early headers a stream has begun before anybody answers. Who answers then stands in each chunk, and an error can
// only come in-band.
func TestEarlyHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		primary, backup script
		by              string // "" = nobody
		status          int    // of an answer that is not a stream
	}{
		"the primary answers late":    {primary: late(well(twenty)), backup: script{well(backupText)}, by: "Primary"},
		"the primary fails late":      {primary: late(refusal(500, "fell over")...), backup: script{well(backupText)}, by: "Backup"},
		"all fail late":               {primary: late(refusal(500, "fell over")...), backup: refusal(503, "fell over too")},
		"all reject the request late": {primary: late(refusal(400, "too hot")...), backup: refusal(400, "too hot")},
		"cut after late words":        {primary: late(say(begun(8)), hangUp), backup: script{well(backupText)}, by: "Primary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, setup{primary: serve(t, c.primary...).url(), backup: serve(t, c.backup...).url(), more: "early_headers: 1s\n"})
			a := g.chat(t, question(streaming))
			if a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" || a.header.Get("X-Myip-Provider") != "" || a.generation() == "" {
				t.Fatalf("%d %v", a.status, a.header)
			}
			got, rec := a.readStream(), g.record(t, a)
			failed := c.by == "" || strings.HasPrefix(name, "cut")
			if failed != (got.fault != nil) || got.id != a.generation() || c.by != "" && got.provider != c.by {
				t.Errorf("%+v\n%s", got, a.body)
			}
			if !failed && got.text != map[string]string{"Primary": twenty, "Backup": backupText}[c.by] {
				t.Errorf("text %q", got.text)
			}
			if rec.Status != 200 || rec.free() != failed || (rec.Error != nil) != failed || text(rec.Provider) != c.by {
				t.Errorf("the record: %+v", rec)
			}
			if whole := g.chat(t, question("")); whole.header.Get("Content-Type") != "application/json" {
				t.Errorf("a whole answer: %v", whole.header)
			}
		})
	}
}

// Whole answers are held in memory; together they may not be more than a bound. That is nobody's fault but the gateway's
// own, and passes.
func TestAnswerBudget(t *testing.T) {
	t.Parallel()
	const promised, sent = 64 << 20, 48 << 20
	there := make(chan struct{})
	up := serve(t, once(script{say(jsonHead + "Content-Length: " + itoa(promised) + "\r\n\r\n"), say(strings.Repeat(" ", sent)),
		func(*link) bool { close(there); return true }, stall}, say(reply("200 OK", whole(line(6))))))
	g := start(t, setup{primary: up.url(), more: "request: {max_answer_total: 64MiB}\n"})
	ctx, cancel := context.WithCancel(t.Context())
	var held sync.WaitGroup
	held.Go(func() { g.leave(ctx, question("")) })
	<-there // all but what the sockets hold has been read
	a := g.chat(t, question(""))
	if got := a.read(); a.status != 503 || got.fault.Type != "overloaded" || !g.record(t, a).free() {
		t.Errorf("%d %.500s", a.status, a.body)
	}
	cancel()
	held.Wait()
	until(t, "it is given back, and nobody was blamed", func() bool { return g.chat(t, question("")).status == 200 })
}
