package faults

import (
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// outcome is what the caller of a request gets whose primary misbehaves.
type outcome uint8

const (
	byBackup  outcome = iota // one clean answer, from the backup
	byPrimary                // one clean and full answer, from the primary
	byEither                 // one clean and full answer, from one of them
	broken                   // the answer had begun: an error event, or 502; never another provider's words
	clear                    // a full answer, or one of the errors above: never a hang, never an empty success
)

// blame is what the fault does to the primary's standing.
type blame uint8

const (
	nobody  blame = iota // it is tried again, however often this happens
	counted              // the third in a row puts it into cooldown
	alarmed              // likewise, and the operator is told
	limited              // it is out at once, for a minute
	resting              // it is out at once, for so short a time that only its return is certain to be seen
	account              // it is out at once, with every other endpoint of its account
)

// row is one fault at the primary.
type row struct {
	name   string
	stream script // what the primary does to a request for a stream; nil = the row is not about streams
	whole  script // likewise to one for a whole answer
	both   script // to either
	url    string // of the primary, if it is not one that listens

	want     outcome
	body     outcome // of a whole answer, where it is different from want
	differ   bool    // body counts
	blame    blame
	status   string // of the primary's attempt in the record: a number, or null; "" = either
	text     string // what the caller gets in the stead of the twenty words, of byPrimary
	mib      int    // likewise that many MiB of one line, not kept with the row
	silent   bool   // byPrimary: no words at all
	unbilled bool   // the answer costs nothing: the upstream counted nothing
	words    int    // of a broken stream: how many of the twenty words came before the error
	says     string // part of the attempt's message in the record
	raw      string // part of error.metadata.raw or message of a broken stream
	limits   string // of the primary, as YAML
	heavy    bool   // many megabytes: once is enough
	more     string // further keys of the request
	wrap     wrapper
}

// mode is a row played for one kind of request.
type mode struct {
	*row
	streamed bool
	play     script
	want     outcome
	slot     bool // the primary is the engine of a slot
}

func (r *row) modes() []mode {
	var out []mode
	stream, other := r.stream, r.whole
	if r.both != nil || r.url != "" {
		stream, other = r.both, r.both
	}
	if stream != nil || r.url != "" {
		out = append(out, mode{row: r, streamed: true, play: stream, want: r.want})
	}
	if other != nil || r.url != "" {
		want := r.want
		if r.differ {
			want = r.body
		}
		out = append(out, mode{row: r, play: other, want: want})
	}
	return out
}

func (m *mode) kind() string {
	if m.streamed {
		return "stream"
	}
	return "whole"
}

func (m *mode) question() string {
	if m.streamed {
		return question(streaming + m.more)
	}
	return question(m.more)
}

// run plays every row in both ways, each against a gateway of its own.
func run(t *testing.T, rows []row) {
	for i := range rows {
		r := &rows[i]
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, m := range r.modes() {
				t.Run(m.kind(), func(t *testing.T) {
					t.Parallel()
					m.run(t)
				})
			}
		})
	}
}

// runAtSlot plays rows at the engine of a slot.
func runAtSlot(t *testing.T, rows []row) {
	for i := range rows {
		if rows[i].heavy {
			continue
		}
		for _, m := range rows[i].modes() {
			m.slot = true
			t.Run(m.name+"/"+m.kind(), func(t *testing.T) {
				t.Parallel()
				m.run(t)
			})
		}
	}
}

// scene is a gateway with its two upstreams.
type scene struct {
	*gateway
	primary, backup *rogue
}

func (m *mode) run(t *testing.T) {
	s := &scene{backup: serve(t, well(backupText))}
	at := m.url
	if at == "" {
		s.primary = serveOn(t, m.wrap.handshake(t), m.play...)
		at = m.wrap.scheme() + s.primary.addr()
	}
	world := setup{primary: at, backup: s.backup.url(), limits: m.limits}
	if m.slot {
		world.primary, world.slots, world.local = "", slotAt(at, ""), "Primary"
	}
	s.gateway = start(t, world)
	a := s.chat(t, m.question())
	m.judge(t, s, a)
	m.standing(t, s)
}

// judge looks at what the caller got and at what the record says of it.
func (m *mode) judge(t *testing.T, s *scene, a *answer) {
	t.Helper()
	got, rec := a.read(), s.record(t, a)
	if rec.Streamed != m.streamed || rec.ID != a.generation() || rec.Cancelled {
		t.Errorf("the record is of another request: %+v", rec)
	}
	want := m.want
	if want == byEither || want == clear {
		want = m.which(a, got, want)
	}
	switch want {
	case byBackup:
		m.answered(t, a, got, rec, "Backup", backupText)
		m.first(t, rec, 2)
	case byPrimary:
		m.answered(t, a, got, rec, "Primary", m.expected())
		if s.backup.chats.Load() != 0 {
			t.Errorf("the backup was asked for an answer that the primary gave")
		}
	case broken:
		m.broke(t, a, got, rec)
		if s.backup.chats.Load() != 0 {
			t.Errorf("the answer had begun, and the backup was asked all the same")
		}
	}
}

// expected is the text of the primary's answer.
func (m *mode) expected() string {
	switch {
	case m.mib > 0:
		return line(m.mib)
	case m.text == "" && !m.silent:
		return twenty
	}
	return m.text
}

// which finds out what an outcome that is left open was.
func (m *mode) which(a *answer, got *reading, want outcome) outcome {
	switch {
	case a.status == 200 && got.fault == nil && got.provider == "Primary":
		return byPrimary
	case want == clear && (a.status != 200 || got.fault != nil):
		return broken
	}
	return byBackup
}

func (m *mode) answered(t *testing.T, a *answer, got *reading, rec *record, provider, text string) {
	t.Helper()
	if a.status != 200 || got.fault != nil {
		t.Fatalf("want a clean answer of %s, got %d %.1500s", provider, a.status, a.body)
	}
	if got.provider != provider || got.text != text || got.model != model {
		t.Errorf("want %q from %s, got %.300q from %s (%s)", text, provider, got.text, got.provider, got.model)
	}
	if m.text == "" && m.mib == 0 && !m.silent && (got.finish != "stop" || *got.usage.Completion != 20) {
		t.Errorf("finish_reason %q, usage %d", got.finish, *got.usage.Completion)
	}
	if rec.Status != 200 || rec.Error != nil || rec.Provider == nil || *rec.Provider != provider || rec.free() != m.unbilled {
		t.Errorf("the record of a good answer: %+v", rec)
	}
	if p := rec.providers(); len(p) == 0 || p[len(p)-1] != provider {
		t.Errorf("provider_responses end with %v", p)
	}
}

// first looks at the attempt of the primary in the record.
func (m *mode) first(t *testing.T, rec *record, attempts int) {
	t.Helper()
	words, providers := rec.words(), rec.providers()
	if len(words) != attempts || providers[0] != "Primary" {
		t.Fatalf("provider_responses %v of %v", words, providers)
	}
	if m.status != "" && words[0] != m.status {
		t.Errorf("the primary's attempt has status %s, want %s", words[0], m.status)
	}
	message := ""
	if rec.Responses[0].Message != nil {
		message = *rec.Responses[0].Message
	}
	if message == "" || !strings.Contains(message, m.says) {
		t.Errorf("the primary's attempt says %q, want %q", message, m.says)
	}
}

// broke looks at an answer that had begun when it failed.
func (m *mode) broke(t *testing.T, a *answer, got *reading, rec *record) {
	t.Helper()
	if got.fault == nil {
		t.Fatalf("a clean success: %d %.1500s", a.status, a.body)
	}
	if got.fault.Type != "provider_error" && got.fault.Type != "timeout" {
		t.Errorf("error.type %q", got.fault.Type)
	}
	if got.fault.Metadata.Provider != "Primary" {
		t.Errorf("the error names %q", got.fault.Metadata.Provider)
	}
	if m.raw != "" && !strings.Contains(got.fault.Metadata.Raw+got.fault.Message, m.raw) {
		t.Errorf("the error does not say %q: %+v", m.raw, got.fault)
	}
	status := 200
	if !m.streamed {
		status = 502
	}
	if a.status != status || rec.Status != status || rec.Error == nil || text(rec.Finish) != "error" || !rec.free() {
		t.Errorf("status %d, record %d %s finish %s cost %s", a.status, rec.Status, text(rec.Error), text(rec.Finish), rec.Cost)
	}
	if n := len(rec.Responses); n != 1 {
		t.Errorf("%d candidates were tried", n)
	}
	if m.streamed && m.words > 0 {
		want := strings.Join(strings.SplitAfter(twenty, " ")[:m.words], "")
		if got.text != want {
			t.Errorf("before the error came %.300q, want %q", got.text, want)
		}
	}
}

// standing looks at what the fault did to the primary, by asking on.
func (m *mode) standing(t *testing.T, s *scene) {
	t.Helper()
	if m.heavy && !*full {
		return
	}
	again := func(n int) {
		for range n {
			a := s.chat(t, m.question())
			_ = a.read()
			if p := s.record(t, a).Responses; len(p) == 0 || p[0].Provider != "Primary" || p[0].Skip != nil {
				t.Fatalf("the primary is not tried any more: %+v", p)
			}
		}
	}
	switch m.blame {
	case nobody:
		if m.want != byEither && m.want != clear { // where the outcome is open, so is the blame
			again(3)
		}
	case alarmed:
		if !strings.Contains(s.log.String(), "level=WARN") {
			t.Errorf("the operator was not told")
		}
		again(2)
		m.out(t, s, "cooldown")
	case counted:
		again(2)
		m.out(t, s, "cooldown")
	case limited:
		m.out(t, s, "rate_limited")
	case resting:
		s.primary.set(well(twenty))
		until(t, "the primary answers again", func() bool { return s.chat(t, m.question()).read().provider == "Primary" })
	case account:
		m.out(t, s, "cooldown")
		list := s.call(t, s.user, "GET", "/api/v1/models/"+sister+"/endpoints", "")
		if !strings.Contains(string(list.body), `"status":-5`) {
			t.Errorf("the account's other endpoint is not out: %s", list.body)
		}
	}
}

// out sees that the primary is skipped, with the word for it.
func (m *mode) out(t *testing.T, s *scene, word string) {
	t.Helper()
	a := s.chat(t, m.question())
	got, rec := a.read(), s.record(t, a)
	if got.provider != "Backup" || got.text != backupText {
		t.Errorf("want the backup, got %.300q from %q", got.text, got.provider)
	}
	if w := rec.words(); len(w) != 2 || w[0] != word || w[1] != "200" {
		t.Errorf("provider_responses %v, want %s and 200", w, word)
	}
}
