package account

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// told is what Admit says, in words.
func told(err error) string {
	e := refusal(err)
	if e == nil {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%s after %v", e.Type, e.RetryAfter)
}

func TestMinutes_Requests(t *testing.T) {
	l, k := new(Minutes), &hearth.Key{ID: "key-1", RequestsPerMinute: 2}
	for i, step := range []struct {
		at    time.Duration
		want  string
		left  int64
		reset time.Duration
	}{
		{0, "<nil>", 1, 30 * time.Second},
		{10 * time.Second, "<nil>", 0, 50 * time.Second},
		{10 * time.Second, "rate_limited after 20s", 0, 50 * time.Second},
		{30*time.Second - time.Microsecond, "rate_limited after 1µs", 0, 30*time.Second + time.Microsecond},
		{30 * time.Second, "<nil>", 0, time.Minute},
		{20 * time.Second, "rate_limited after 30s", 0, time.Minute}, // of one that looked at its clock earlier
		{time.Minute, "<nil>", 0, time.Minute},
		{time.Hour, "<nil>", 1, 30 * time.Second},
	} {
		u, left, err := l.Admit(k, 0, noon.Add(step.at))
		if want := (Allowances{Requests: Allowance{2, step.left, step.reset}}); told(err) != step.want || left != want {
			t.Errorf("step %d: %s, %+v, want %s, %+v", i, told(err), left, step.want, want)
		}
		u.Settle(1<<40, noon.Add(step.at)) // no limit for tokens
	}
}

func TestMinutes_Tokens(t *testing.T) {
	l, k := new(Minutes), &hearth.Key{ID: "key-1", TokensPerMinute: 600}
	admit := func(at time.Duration, tokens int64, want string, left int64) *Use {
		t.Helper()
		u, got, err := l.Admit(k, tokens, noon.Add(at))
		if told(err) != want || got.Tokens.Left != left || got.Tokens.Limit != 600 || got.Requests != (Allowance{}) {
			t.Errorf("%d tokens after %v: %s, %+v, want %s and %d left", tokens, at, told(err), got, want, left)
		}
		return &u
	}
	first := admit(0, 500, "<nil>", 100)
	admit(0, 101, "rate_limited after 100ms", 100)
	second := admit(0, 100, "<nil>", 0)
	first.Settle(200, noon)
	first.Settle(0, noon)                                 // twice is once
	third := admit(0, 300, "<nil>", 0)                    // 200, 100 and 300
	second.Settle(0, noon)                                // it used nothing
	admit(0, 100, "<nil>", 0).Settle(700, noon)           // 600 more than it had
	admit(0, 1, "rate_limited after 1m0.1s", 0)           // they are worked off first
	admit(time.Minute, 1, "rate_limited after 100ms", 0)  //
	third.Settle(0, noon.Add(time.Minute))                // 300 come back
	admit(time.Minute, 300, "<nil>", 0).Settle(300, noon) //
	e := refusal(func() error { _, _, err := l.Admit(k, 601, noon.Add(time.Hour)); return err }())
	if e == nil || e.Type != hearth.ErrPayloadTooLarge || e.RetryAfter != 0 || !strings.Contains(e.Message, "601") || !strings.Contains(e.Message, "600") {
		t.Errorf("one that can never be let in: %+v", e)
	}
	admit(time.Hour, 600, "<nil>", 0)
	admit(time.Hour, -5, "<nil>", 0).Settle(math.MaxInt64, noon.Add(time.Hour)) // what no answer has
	admit(time.Hour, 0, "rate_limited after 59m0s", 0)                          // nobody waits longer
	if n := l.Pending(); n != 1 {
		t.Errorf("%d are pending", n)
	}
}

func TestMinutes_Changes(t *testing.T) {
	l := new(Minutes)
	try := func(requests, tokens int64, want string, leftRequests, leftTokens int64) *Use {
		t.Helper()
		u, left, err := l.Admit(&hearth.Key{ID: "key-1", RequestsPerMinute: requests, TokensPerMinute: tokens}, 10, noon)
		if told(err) != want || left.Requests.Left != leftRequests || left.Tokens.Left != leftTokens {
			t.Errorf("%d and %d: %s, %+v, want %s", requests, tokens, told(err), left, want)
		}
		return &u
	}
	before := try(5, 0, "<nil>", 4, 0)
	try(5, 100, "<nil>", 3, 90).Settle(10, noon)
	before.Settle(0, noon) // its tokens were never counted, so none come back
	try(5, 100, "<nil>", 2, 80)
	try(2, 100, "rate_limited after 30s", 0, 80) // used is used, but no more than all
	try(0, 15, "rate_limited after 40s", 0, 0)   // of twenty that are used, fifteen
	try(10, 0, "<nil>", 9, 0)                    // a limit that was taken away was forgotten
	if _, left, err := l.Admit(&hearth.Key{ID: "key-2", RequestsPerMinute: 5}, 0, noon); err != nil || left.Requests.Left != 4 {
		t.Errorf("another key: %v, %+v", err, left)
	}
}

// Keys that have not been used for a minute are forgotten, unless something of them is still in flight.
func TestMinutes_Forget(t *testing.T) {
	l := new(Minutes)
	k := func(i int) *hearth.Key {
		return &hearth.Key{ID: fmt.Sprint(i), RequestsPerMinute: 5, TokensPerMinute: 100}
	}
	kept, _, _ := l.Admit(k(-1), 100, noon)
	for i := range 10_000 {
		u, _, err := l.Admit(k(i), 50, noon.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		u.Settle(50, noon.Add(time.Duration(i)*time.Second))
	}
	if n := len(l.by); n > 200 {
		t.Errorf("%d keys are known", n)
	}
	now := noon.Add(10_000 * time.Second)
	kept.Settle(200, now)
	if _, _, err := l.Admit(k(-1), 1, now); told(err) != "rate_limited after 600ms" {
		t.Errorf("what is used past the limit was forgotten: %s", told(err))
	}
}

// A thousand requests at once use no more than the limit, however long their answers turn out within what was held.
func TestMinutes_Parallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := new(Minutes), &hearth.Key{ID: "key-1", RequestsPerMinute: 100, TokensPerMinute: 7_000}
		var wg sync.WaitGroup
		var mu sync.Mutex
		admitted, used := 0, int64(0)
		for i := range 1000 {
			wg.Go(func() {
				<-time.After(time.Duration(i%10) * time.Second)
				u, _, err := l.Admit(k, 100, time.Now())
				if err != nil {
					return
				}
				<-time.After(time.Second)
				u.Settle(int64(i%101), time.Now())
				mu.Lock()
				defer mu.Unlock()
				admitted, used = admitted+1, used+int64(i%101)
			})
		}
		wg.Wait()
		if admitted < 70 || admitted > 115 || used > 7_000+7_000*9/60 || l.Pending() != 0 {
			t.Errorf("%d were let in, %d tokens used, %d pending", admitted, used, l.Pending())
		}
	})
}

// minuteModel is the same in exact fractions.
type minuteModel struct {
	limits [2]int64 // requests, tokens
	level  [2]*big.Rat
	now    time.Duration
	uses   []*Use
	held   []int64
}

func (m *minuteModel) fill(i int, n int64) {
	if m.limits[i] > 0 {
		m.level[i].Add(m.level[i], big.NewRat(n, 1))
		m.bound(i)
	}
}

func (m *minuteModel) bound(i int) {
	if m.level[i].Sign() < 0 {
		m.level[i].SetInt64(0)
	}
	if most := big.NewRat(longest*m.limits[i], 1); m.level[i].Cmp(most) > 0 {
		m.level[i].Set(most)
	}
}

func (m *minuteModel) pass(d time.Duration) {
	m.now += d
	for i := range m.level {
		m.level[i].Sub(m.level[i], new(big.Rat).Mul(big.NewRat(m.limits[i], 60_000_000), big.NewRat(int64(d/time.Microsecond), 1)))
		m.bound(i)
	}
}

// wait is how long n of limit i have to wait, rounded up to a microsecond.
func (m *minuteModel) wait(i int, n int64) time.Duration {
	over := new(big.Rat).Add(m.level[i], big.NewRat(n-m.limits[i], 1))
	if m.limits[i] == 0 || over.Sign() <= 0 {
		return 0
	}
	over.Mul(over, big.NewRat(60_000_000, m.limits[i]))
	up := new(big.Int).Add(over.Num(), new(big.Int).Sub(over.Denom(), big.NewInt(1)))
	return time.Duration(up.Div(up, over.Denom()).Int64()) * time.Microsecond
}

func (m *minuteModel) left(i int) int64 {
	rest := new(big.Rat).Sub(big.NewRat(m.limits[i], 1), m.level[i])
	if rest.Sign() < 0 {
		return 0
	}
	return new(big.Int).Quo(rest.Num(), rest.Denom()).Int64()
}

// Whatever is asked, settled and changed when: Minutes say what exact fractions say, and what is held comes back once.
func TestMinutes_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &minuteModel{level: [2]*big.Rat{new(big.Rat), new(big.Rat)}}
		limit := rapid.SampledFrom([]int64{0, 1, 2, 7, 60, 1000, maxRequests})
		m.limits = [2]int64{limit.Draw(t, "requests"), rapid.SampledFrom([]int64{0, 1, 13, 1000, maxTokens}).Draw(t, "tokens")}
		k, l := &hearth.Key{ID: "key-1", RequestsPerMinute: m.limits[0], TokensPerMinute: m.limits[1]}, new(Minutes)
		if m.limits == [2]int64{} {
			if u, left, err := l.Admit(k, 1<<40, noon); !u.Settled() || left != (Allowances{}) || err != nil || l.by != nil {
				t.Fatal("a key without limits is counted")
			}
			return
		}
		most := max(m.limits[1], 10) * 11 / 10
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				m.pass(time.Duration(rapid.Int64Range(0, 200_000_000).Draw(t, "µs")) * time.Microsecond)
			},
			"admit": func(t *rapid.T) { m.admit(t, l, k, rapid.Int64Range(0, most).Draw(t, "n")) },
			"settle": func(t *rapid.T) {
				if len(m.uses) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(m.uses)-1).Draw(t, "which")
				used := rapid.Int64Range(0, 3*most).Draw(t, "used")
				if !m.uses[i].Settled() {
					m.fill(1, used-m.held[i])
				}
				m.uses[i].Settle(used, noon.Add(m.now))
			},
			"": func(t *rapid.T) {
				open := 0
				for _, u := range m.uses {
					if !u.Settled() {
						open++
					}
				}
				if l.Pending() != open {
					t.Fatalf("%d are pending, want %d", l.Pending(), open)
				}
			},
		})
	})
}

func (m *minuteModel) admit(t *rapid.T, l *Minutes, k *hearth.Key, n int64) {
	want := "<nil>"
	switch wait := max(m.wait(0, 1), m.wait(1, n)); {
	case m.limits[1] > 0 && n > m.limits[1]:
		want = "payload_too_large after 0s"
	case wait > 0:
		want = fmt.Sprintf("rate_limited after %v", wait)
	default:
		m.fill(0, 1)
		m.fill(1, n)
	}
	u, left, err := l.Admit(k, n, noon.Add(m.now))
	if told(err) != want {
		t.Fatalf("%s, want %s", told(err), want)
	}
	for i, a := range []Allowance{left.Requests, left.Tokens} {
		reset := m.wait(i, m.limits[i])
		if a.Limit != m.limits[i] || m.limits[i] > 0 && (a.Left != m.left(i) || a.Reset != reset) {
			t.Fatalf("%+v, want %d of %d, %v", a, m.left(i), m.limits[i], reset)
		}
	}
	if err == nil {
		if m.limits[1] == 0 {
			n = 0
		}
		m.uses, m.held = append(m.uses, &u), append(m.held, n)
	}
}

// A request of a key with limits per minute, let in and settled, and one of a key without.
func BenchmarkMinutes(b *testing.B) {
	for name, k := range map[string]*hearth.Key{
		"no limit": {ID: "key-1"},
		"limits":   {ID: "key-1", RequestsPerMinute: maxRequests, TokensPerMinute: maxTokens},
	} {
		b.Run(name, func(b *testing.B) {
			l, now := new(Minutes), time.Now()
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				u, _, err := l.Admit(k, 100, now)
				if err != nil {
					b.Fatal(err)
				}
				u.Settle(50, now)
			}
		})
	}
}

func TestMinutes_NoLimitIsFree(t *testing.T) {
	l, k := new(Minutes), &hearth.Key{ID: "key-1"}
	if n := testing.AllocsPerRun(100, func() {
		u, _, _ := l.Admit(k, 100, noon)
		u.Settle(100, noon)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
