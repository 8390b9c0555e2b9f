package routing

import (
	"testing"
	"time"
)

// judged tells of as many answers with tool calls, of which the first so many are broken.
func (b *bazaar) judged(i, n, bad int) {
	for j := range n {
		broken := 0
		if j < bad {
			broken = 1
		}
		b.Judge(i, 1, broken, b.now)
	}
}

func TestToolFlag_Tests(t *testing.T) {
	for _, c := range []struct {
		name      string
		n, broken int // tests after the flag was set
		flagged   bool
	}{
		{"too few to tell", 8, 0, true}, {"all went well", 10, 0, false}, {"one in ten may be by chance", 10, 1, false},
		{"two in ten are not", 10, 2, true}, {"two in sixty are", 60, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := calm(t, 3)
			e := b.markets[0].ends[0]
			b.judged(0, 200, 80)
			if b.pass(time.Second); !e.Flag.Tools {
				t.Fatal("not flagged")
			}
			b.judged(0, c.n, c.broken)
			if b.pass(100 * time.Second); !e.Flag.Tools {
				t.Error("cleared within two minutes")
			}
			if b.pass(time.Minute); e.Flag.Tools != c.flagged {
				t.Errorf("then: %+v", e.Flag)
			}
			if !c.flagged && e.Tools.Of > float64(c.n) {
				t.Errorf("%+v: what was before is not forgotten", e.Tools)
			}
			if b.pass(time.Second); e.Flag.Tools != c.flagged {
				t.Errorf("a second later: %+v", e.Flag)
			}
		})
	}
	t.Run("without tests it fades", func(t *testing.T) {
		b := calm(t, 3)
		b.judged(0, 20, 8)
		if b.pass(time.Second); !b.markets[0].ends[0].Flag.Tools {
			t.Fatal("not flagged")
		}
		if b.pass(30 * time.Minute); !b.markets[0].ends[0].Flag.Tools {
			t.Error("cleared after half an hour")
		}
		if b.pass(2 * time.Hour); b.markets[0].ends[0].Flag.Tools {
			t.Error("not cleared after hours")
		}
	})
	t.Run("one or two broken answers prove nothing", func(t *testing.T) {
		b := calm(t, 3)
		b.judged(0, 4, 2)
		if b.pass(time.Second); b.markets[0].ends[0].Flag.Tools {
			t.Error("flagged")
		}
		b.judged(0, 1, 1)
		if b.pass(time.Second); !b.markets[0].ends[0].Flag.Tools {
			t.Error("not flagged at three of five")
		}
	})
}

// Requests without tools go to an endpoint that is flagged for tool calls, and are no test of them.
func TestToolFlag_TestedWithTools(t *testing.T) {
	b := calm(t, 3)
	b.judged(1, 20, 10)
	a := b.ask()
	a.Tools = true
	for i := range 3 {
		b.serve(a, i, Share, time.Second, 45)
	}
	b.now = b.now.Add(90 * time.Second)
	b.Refresh(b.now)
	for i := range 3 {
		b.serve(b.ask(), i, Share, time.Second, 45)
	}
	b.edit(func(v *view) { v.explore = 0.1 })
	tools := func(a *Ask) { a.Tools = true }
	if got := b.shares(1000, tools); got[1] < 60 || got[1] > 140 {
		t.Errorf("%v, a hundred are due", got)
	}
	b.serve(a, 1, Explore, time.Second, 45)
	b.edit(func(v *view) { v.explore = 0.1 })
	if got := b.shares(1000, tools); got[1] != 0 {
		t.Errorf("%v just after a test", got)
	}
}
