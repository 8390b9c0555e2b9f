package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/upstream"
)

// follow makes a newer configuration of these parts hold, in which no endpoint and no slot is an earlier one. They are
// reached where the parts in their places were.
func (s *scene) follow(currency string, o Options, parts ...part) {
	n := &scene{t: s.t, start: s.start}
	n.catalog(parts, make(engines))
	if n.cat.Currency = currency; currency == "USD" {
		n.cat.Rates = map[string]decimal.Decimal{"KRW": decimal.New(1, -3)}
	}
	none := make([]int, len(parts))
	for i := range none {
		none[i] = -1
	}
	up, err := s.relay.upstream.Next(n.cat, upstream.Options{Agent: "hearth/test", AnswerTotal: 1 << 20, Dial: s.dial, LocalDial: s.dial}, none)
	s.must(err)
	s.must(s.fleet.Reload(n.cat))
	was := s.relay.opt
	was.MaxAttempts = o.MaxAttempts
	next := s.relay.Next(was, Parts{Catalog: n.cat, Fleet: s.fleet, Health: s.health.Next(n.cat, none), Upstream: up, Ledger: s.ledger,
		Windows: s.windows.Next(none), Log: discard()})
	s.relay.Follow(next)
	s.relay.upstream.Retire(up)
	s.t.Cleanup(up.Close)
	if next.bodies != s.relay.bodies || next.misses != s.relay.misses || next.overruns != s.relay.overruns || next.minutes != s.relay.minutes {
		s.t.Error("what the process holds of bodies, or what it counts, is counted twice")
	}
}

// A request that waited for a slot which a reload took away walks the chain that it has now.
func TestOvertaken(t *testing.T) {
	const limit = 1000 * 1_000_000_000
	waits := part{local: true, serve: answers, slot: func(s *hearth.Slot) { s.DrainMax = time.Minute }}
	named := func(name string, p part) part {
		p.provider = func(q *hearth.Provider) { q.Slug = name }
		p.edit = func(e *hearth.Endpoint) { e.Tag = name }
		return p
	}
	for _, c := range []struct {
		name     string
		before   []part
		currency string
		after    []part
		most     int // max_attempts
		attempts string
		kind     hearth.ErrorType
	}{
		{"it is served by what is there now", []part{waits}, "KRW", []part{good}, 0, "slot_failed 200", ""},
		{"in the money of now", []part{waits}, "USD", []part{good}, 0, "slot_failed 200", ""},
		{"what failed is not tried again", []part{named("bad", boom), waits}, "KRW", []part{named("bad", good), named("new", good)}, 0, "500 slot_failed 200", ""},
		{"nothing is there but what failed", []part{named("bad", boom), waits}, "KRW", []part{named("bad", good)}, 0, "500 slot_failed", hearth.ErrModelLoading},
		{"although the last that was asked is still there", []part{waits, never}, "KRW", []part{good, never}, 0, "slot_failed slot_loading 200", ""},
		{"enough has been tried", []part{waits, named("bad", boom)}, "KRW", []part{named("new", good)}, 1, "slot_failed 500", hearth.ErrProvider},
		{"what is there now fails as well", []part{waits}, "USD", []part{boom}, 0, "slot_failed 500", hearth.ErrProvider},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{MaxAttempts: c.most}, c.before...)
				s.key.Limit = limit
				time.AfterFunc(30*time.Second, occupiedAt(s, 0))
				time.AfterFunc(5*time.Second, func() {
					for i, p := range c.after {
						s.peers[i].plays(p.serve)
					}
					s.follow(c.currency, Options{MaxAttempts: c.most}, c.after...)
				})
				a := s.ask(t.Context(), chat(`, "max_tokens": 300`)) // twice the worst case is more than the key has
				g := s.record(a.id)
				if got := words(g.Attempts); got != c.attempts || hearth.ErrorType(g.Error) != c.kind {
					t.Errorf("attempts %q %+v, %v", got, g.Attempts, a.err)
				}
				if took := a.took.Round(time.Second); took != 5*time.Second && took != 90*time.Second {
					t.Errorf("it took %v", took)
				}
				<-time.After(time.Minute)
				if g.Bill.Currency != c.currency || c.kind == "" && g.Bill.Cost != paid {
					t.Errorf("bill %+v", g.Bill)
				}
				for _, currency := range []string{"KRW", "USD"} {
					spent := hearth.Nano(0)
					if c.kind == "" && currency == c.currency {
						spent = paid
					}
					if left, _ := s.left(currency); left != limit-spent {
						t.Errorf("%v %s are left, %v are spent", left, currency, spent)
					}
				}
				s.calm()
			})
		})
	}
}

// A request that a newer configuration takes over is shown the money of that one, and its max_price is worth what it was.
func TestOvertaken_Money(t *testing.T) {
	waits := part{local: true, serve: answers, slot: func(s *hearth.Slot) { s.DrainMax = time.Minute }}
	for _, c := range []struct{ currency, key, most, attempts, cost, shown string }{ // a prompt costs 1 per token, 1 USD is 1,000 KRW
		{"KRW", "", "1000000", "slot_failed 200", `"cost":7,`, `"currency":"KRW"`},
		{"KRW", "", "999999", "slot_failed", "", ""},
		{"USD", "", "1000000000", "slot_failed 200", `"cost":7,`, `"currency":"USD"`},
		{"USD", "", "999999999", "slot_failed", "", ""},
		{"KRW", "USD", "1000", "slot_failed 200", `"cost":0.007,`, `"currency":"USD"`},
		{"USD", "USD", "1000000", "slot_failed 200", `"cost":7,`, `"currency":"USD"`},
		{"USD", "USD", "999999", "slot_failed", "", ""},
	} {
		t.Run(c.currency+" by then, up to "+c.most+" "+c.key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dear := waits
				dear.edit = func(e *hearth.Endpoint) { e.List.Prompt = decimal.Zero } // it may serve whatever is asked for
				s := stage(t, Options{}, dear)
				s.key.Currency = c.key
				time.AfterFunc(30*time.Second, occupiedAt(s, 0))
				time.AfterFunc(5*time.Second, func() {
					s.peers[0].plays(good.serve)
					s.follow(c.currency, Options{}, good)
				})
				a := s.ask(t.Context(), chat(`, "provider": {"max_price": {"prompt": `+c.most+`}}`))
				if got := words(s.record(a.id).Attempts); got != c.attempts || !strings.Contains(a.body.String(), c.cost) || !strings.Contains(a.body.String(), c.shown) {
					t.Errorf("%q, %v: %s", got, a.err, a.body.String())
				}
			})
		})
	}
}

// What was skipped before, and not tried, may be tried in the chain of now.
func TestOvertaken_Skipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := part{local: true, serve: answers, slot: func(s *hearth.Slot) { s.DrainMax = time.Minute }}
		s := stage(t, Options{}, up, up, boom)
		time.AfterFunc(30*time.Second, occupiedAt(s, 0))
		time.AfterFunc(40*time.Second, occupiedAt(s, 1))
		time.AfterFunc(5*time.Second, func() {
			s.peers[0].plays(boom.serve)
			s.follow("KRW", Options{}, boom, up)
		})
		a := s.ask(t.Context(), chat(""))
		if got := words(s.record(a.id).Attempts); got != "slot_failed slot_busy 500 500 200" || a.took.Round(time.Second) != 40*time.Second {
			t.Errorf("%q after %v, %v", got, a.took, a.err)
		}
	})
}
