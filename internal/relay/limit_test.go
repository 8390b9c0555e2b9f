package relay

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/ledger"
)

const won = hearth.Nano(1_000_000_000)

// A request of these tests may cost 57 KRW for its prompt and 2 for each token of its cap; its answer costs less.

// When what may be spent at external providers is spent, they are passed over and own slots go on.
func TestExternalLimit(t *testing.T) {
	own := part{local: true, serve: answers}
	t.Run("they are left out of the chain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, good, own)
			s.key.ExternalLimit = 50 * won
			a := s.ask(t.Context(), chat(`, "max_tokens": 20`))
			g := s.record(a.id)
			if a.err != nil || g.Slug != hearth.LocalSlug || len(g.Drops) != 1 || g.Drops[0].Skip != hearth.SkipOverBudget {
				t.Errorf("%v, served by %q, drops %+v", a.err, g.Slug, g.Drops)
			}
		})
	})
	t.Run("or passed over when another request was quicker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{ExternalLimit: ledger.Budget{Amount: 200 * won, Reset: hearth.Monthly}},
				part{serve: after(5*time.Second, refuses(500, "{}"))}, good, own)
			time.AfterFunc(time.Second, func() {
				other := ledger.Wallet{Key: &hearth.Key{ID: "another"}, Currency: "KRW", At: time.Now(), External: s.relay.opt.ExternalLimit}
				if _, ok := s.ledger.Hold(&other, 102*won, true); !ok { // 97 are held back
					t.Error("nothing was left for others")
				}
			})
			a := s.ask(t.Context(), chat(`, "max_tokens": 20`))
			if got := words(s.record(a.id).Attempts); a.err != nil || got != "500 200" { // what was held for the first covers the second
				t.Errorf("%v, %q", a.err, got)
			}
			a = s.ask(t.Context(), chat(`, "max_tokens": 20`))
			if g := s.record(a.id); a.err != nil || g.Slug != hearth.LocalSlug {
				t.Errorf("%v, served by %q", a.err, g.Slug)
			}
			synctest.Wait()
			s.calm()
		})
	})
	t.Run("nothing is held back for them while a slot answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var left atomic.Int64
			s := stage(t, Options{}, part{serve: refuses(500, "{}")}, own)
			s.key.ExternalLimit = 200 * won
			s.peers[1].serve = func(w http.ResponseWriter, r *http.Request) {
				left.Store(int64(*s.ledger.Left(s.wallet("KRW")).External))
				answers(w, r)
			}
			if a := s.ask(t.Context(), chat(`, "max_tokens": 20`)); a.err != nil {
				t.Fatal(a.err)
			}
			if hearth.Nano(left.Load()) != 200*won {
				t.Errorf("%v of 200 are left for others", hearth.Nano(left.Load()))
			}
		})
	})
	t.Run("an answer without a cap of the caller's gets one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{ExternalLimit: ledger.Budget{Amount: 2000 * won}}, part{serve: refuses(500, "{}")}, own)
			if a := s.ask(t.Context(), chat("")); a.err != nil {
				t.Fatal(a.err)
			}
			if at(object(t, s.peers[0].lastBody()), "max_tokens") == nil {
				t.Errorf("the provider was sent no cap: %s", s.peers[0].lastBody())
			}
			if at(object(t, s.peers[1].lastBody()), "max_tokens") != nil {
				t.Errorf("the slot was sent a cap: %s", s.peers[1].lastBody())
			}
		})
	})
	t.Run("with nobody else it is 402", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{ExternalLimit: ledger.Budget{Amount: won}}, good)
			if a := s.ask(t.Context(), chat("")); a.err == nil || a.err.Type != hearth.ErrInsufficientCredits {
				t.Errorf("%v", a.err)
			}
		})
	})
	t.Run("a thousand of all keys at once do not overspend", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stageFor(t, 64<<20, Options{ExternalLimit: ledger.Budget{Amount: 10_000 * won}}, part{serve: after(time.Second, answers)})
			ended, served := make(chan asked), 0
			for range 1000 {
				go func() { ended <- s.ask(t.Context(), chat(`, "max_tokens": 500`)) }()
			}
			for range 1000 {
				if a := <-ended; a.err == nil {
					served++
				}
			}
			if served != 9 { // of 1,057 KRW at most each
				t.Errorf("%d were served at once", served)
			}
		})
	})
}

// Where a limit bounds the request, no larger output cap goes out than what is held back covers, under whatever name.
func TestLimit_EveryCap(t *testing.T) {
	for _, c := range []struct{ name, caps, want string }{
		{"two, of which the smaller is held back", `, "max_completion_tokens": 5, "max_tokens": 100000`, `"max_completion_tokens": 5`},
		{"another name beside", `, "max_tokens": 5, "n_predict": 100000`, `"max_tokens": 5,"n_predict":5`},
		{"without bounds", `, "max_tokens": 5, "n_predict": -1`, `"max_tokens": 5,"n_predict":5`},
		{"among options", `, "max_tokens": 5, "options": {"num_predict": 100000}`, `"max_tokens": 5,"options": {"num_predict":5}`},
		{"none", `, "max_tokens": 0`, `"max_tokens":500`},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := make(chan string, 1)
			w := newWorld(t, setup{upstream: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				sent <- string(b)
				answers(rw, r)
			})})
			w.key.Limit = 10_000 * won
			if a := w.post(t, chat(c.caps)); a.status != 200 {
				t.Fatal(a.status, a.body)
			}
			if got := <-sent; !strings.Contains(got, c.want) || strings.Contains(got, "100000") {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// A limit begins anew at midnight of the configured zone; a request belongs to the day on which it arrived.
func TestLimitReset(t *testing.T) {
	east := time.FixedZone("east", 23*3600+40*60)
	synctest.Test(t, func(t *testing.T) { // begins 2000-01-01 at 00:00 UTC, twenty minutes before midnight there
		s := stage(t, Options{Zone: east}, part{serve: after(time.Minute, answers)})
		s.key.Limit, s.key.LimitReset = 99*won, hearth.Daily
		ask := func() string {
			if a := s.ask(t.Context(), chat(`, "max_tokens": 20`)); a.err != nil {
				return string(a.err.Type)
			}
			return "served"
		}
		for i, step := range []struct {
			wait time.Duration
			want string
		}{
			{0, "served"},
			{0, "insufficient_credits"},                // a minute later
			{18 * time.Minute, "insufficient_credits"}, // 23:59
			{time.Minute - time.Second, "insufficient_credits"},
			{time.Second, "served"},
			{0, "insufficient_credits"},
		} {
			<-time.After(step.wait)
			began := time.Now().In(east)
			if got := ask(); got != step.want {
				t.Errorf("step %d at %s: %s, want %s", i, began.Format(time.DateTime), got, step.want)
			}
		}
	})
}

// A request that arrived before midnight is paid from that day's money, also where its second candidate has its turn after it.
func TestLimitReset_OverMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins five minutes before midnight
		s := stage(t, Options{Zone: time.FixedZone("east", 23*3600+55*60)}, part{serve: answers}, part{serve: answers, edit: func(e *hearth.Endpoint) {
			e.List = scenePrice.Times(decimal.New(11, -1))
		}})
		s.key.LimitReset = hearth.Daily
		s.key.Limit = 1000 * won
		spent := func() hearth.Nano { left, _ := s.left("KRW"); return s.key.Limit - left }
		for spent() < 20*won {
			if a := s.ask(t.Context(), chat(`, "max_tokens": 20`)); a.err != nil {
				t.Fatal(a.err)
			}
		}
		s.key.Limit = spent() + 110*won // the first may cost 97, the second a tenth more
		s.peers[0].plays(after(20*time.Second, refuses(500, "{}")))
		<-time.After(5*time.Minute - 10*time.Second - time.Since(s.start))
		time.AfterFunc(time.Second, func() {
			if !s.holds(5 * won) {
				t.Error("nothing is left for others")
			}
		})
		a := s.ask(t.Context(), chat(`, "max_tokens": 20`))
		if got := words(s.record(a.id).Attempts); got != "500 over_budget" || a.err == nil {
			t.Errorf("%q, %v", got, a.err)
		}
		a = s.ask(t.Context(), chat(`, "max_tokens": 20`))
		if got := words(s.record(a.id).Attempts); got != "500 200" || a.err != nil {
			t.Errorf("a day later: %q, %v", got, a.err)
		}
	})
}
