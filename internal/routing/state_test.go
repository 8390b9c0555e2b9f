package routing

import (
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// lived is a bazaar in which all sorts of things have happened.
func lived(t testing.TB) *bazaar {
	b := bazaarOf(t, same(4)...)
	b.warm()
	for range 15 {
		b.fail(b.ask(), 1, Failed, time.Second)
	}
	b.fail(b.ask(), 2, Limited, time.Second)
	b.fail(b.ask(), 2, Limited, time.Second)
	for range 30 {
		b.Judge(3, 1, 1, b.now)
	}
	b.Flag(0, true)
	a := b.ask()
	a.Session, a.Explicit = math.MaxUint64-1, true
	b.serve(a, 3, Share, time.Second, 100)
	b.pass(2 * time.Second)
	return b
}

func TestState(t *testing.T) {
	old := lived(t)
	text, err := json.Marshal(old.State(old.now))
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Endpoints) != 4 || len(s.Models) != 1 || len(s.Sessions) != 1 || s.Sessions[0].Key != math.MaxUint64-1 {
		t.Fatalf("%s", text)
	}
	// The next program starts a minute later, on a clock of its own, with one endpoint less and a new one.
	later := old.now.Add(time.Minute)
	cat := catalog(t, same(5)...)
	cat.Endpoints[0].Tag = "renamed"
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	now := later.Add(-20 * time.Second)
	r := NewRouter(cat, Options{}, now)
	r.Restore(s, later)
	old.now = later
	old.Router.refresh(old.markets[0], later)
	was, is := old.markets[0].view.Load(), r.markets[0].view.Load()
	near := cmpopts.EquateApprox(1e-9, 1e-12)
	for i := 1; i < 4; i++ {
		a, b := was.rows[i], is.rows[i]
		if b.fresh || b.flaggedTools != (i == 3) || b.flaggedAll {
			t.Errorf("endpoint %d: %+v", i, b)
		}
		for name, p := range map[string][2]float64{"errors": {a.errors, b.errors}, "limits": {a.limits, b.limits}, "cap": {a.cap, b.cap}, "bad": {a.bad, b.bad}, "hit": {a.hit, b.hit}} {
			if d := cmp.Diff(p[0], p[1], near); d != "" {
				t.Errorf("endpoint %d: %s %s", i, name, d)
			}
		}
	}
	if !is.rows[0].fresh || !is.rows[4].fresh || is.rows[0].flaggedAll {
		t.Error("new endpoints know something")
	}
	if was.in != is.in || was.out != is.out {
		t.Errorf("means %v and %v, were %v and %v", is.in, is.out, was.in, was.out)
	}
	if old.open.Load() != 1 || r.open.Load() != 1 || len(r.Probes(nil, later)) != 1 {
		t.Errorf("%d open, probes %v", r.open.Load(), r.Probes(nil, later))
	}
	a := Ask{Session: math.MaxUint64 - 1, Explicit: true, In: 1000}
	old.Flag(3, false)
	sc := scene{v: is, at: r.nanos(later)}
	if r.ask(&a, r.markets[0], &sc); sc.q.warm != r.markets[0].ends[3] || sc.q.trust != 1 {
		t.Errorf("%+v", sc.q)
	}
}

func TestState_Nonsense(t *testing.T) {
	old := lived(t)
	for name, spoil := range map[string]func(*State){
		"not a number":   func(s *State) { s.Endpoints[1].Learned.Fast.Errors = math.NaN(); s.Models[0].Budget = math.NaN() },
		"endless":        func(s *State) { s.Endpoints[1].Learned.Limit.Max = math.Inf(1); s.Models[0].Means.In = math.Inf(-1) },
		"far too little": func(s *State) { s.Endpoints[1].Learned.Slow.Tokens = -1e16; s.Models[0].Means.Out = -1e16 },
		"far too much":   func(s *State) { s.Endpoints[1].Learned.Slow.Tokens = 1e300; s.Models[0].Means.Out = 1e16 },
	} {
		t.Run(name, func(t *testing.T) {
			s := old.State(old.now)
			spoil(&s)
			r := NewRouter(old.cat, Options{}, old.now)
			r.Restore(s, old.now)
			v := r.markets[0].view.Load()
			if !v.rows[1].fresh || v.rows[2].fresh || v.in != startIn {
				t.Errorf("%+v", v)
			}
		})
	}
	t.Run("of tomorrow", func(t *testing.T) {
		s := old.State(old.now)
		s.At = s.At.Add(24 * time.Hour)
		r := NewRouter(old.cat, Options{}, old.now)
		if r.Restore(s, old.now); r.markets[0].view.Load().rows[1].fresh {
			t.Error("left out")
		}
		if e := r.markets[0].ends[1]; e.sent.Load() > r.nanos(old.now) || e.Slow.At > r.secs(old.now) {
			t.Errorf("last tried at %v of %v", e.sent.Load(), r.nanos(old.now))
		}
	})
}

// What is left to explore with, and the value of time in force, outlive the program; so does when that moved last.
func TestState_Model(t *testing.T) {
	old := lived(t)
	was := old.markets[0].model
	was.budget, was.premium.Kappa, was.premium.Most = -2.5, 0.5, 0.7
	was.premium.Stepped = old.secs(old.now) - 3
	later := old.now.Add(time.Minute)
	r := NewRouter(old.cat, Options{Kappa: 0.7}, later.Add(-10*time.Second))
	s := old.State(old.now)
	is := r.markets[0].model
	if r.Restore(s, later); is.budget != -2.5 || !(is.premium.Kappa > 0 && is.premium.Kappa < 0.7) {
		t.Errorf("budget %v, value of time %v", is.budget, is.premium.Kappa)
	}
	moved := s.Models[0]
	by := r.secs(later) - later.Sub(old.now).Seconds()
	if moved.shift(by); !near(moved.Premium.Stepped, by-3, 1e-9) || !near(moved.Premium.Paid.At, s.Models[0].Premium.Paid.At+by, 1e-9) {
		t.Errorf("%+v, shifted by %v", moved.Premium, by)
	}
}

// Every field that holds a time is moved when a state moves to another clock.
func TestTimesAreComplete(t *testing.T) {
	words := strings.Fields("at last faded begun until late shut since tried better")
	var count func(reflect.Type) int
	count = func(typ reflect.Type) int {
		n := 0
		for f := range typ.NumField() {
			field := typ.Field(f)
			if field.Type.Kind() == reflect.Struct {
				n += count(field.Type)
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			for _, w := range words {
				if name == w && typ != reflect.TypeFor[knee]() || name == "late" && w == name {
					n++
				}
			}
		}
		return n
	}
	var e estimate
	if got, want := len(e.times()), count(reflect.TypeFor[estimate]()); got != want {
		t.Errorf("%d fields are moved, %d hold times", got, want)
	}
	e.Breaker.Until, e.Tried = 5, 7
	if e.shift(-2); e.Breaker.Until != 3 || e.Tried != 5 || e.Flag.Since != 0 {
		t.Errorf("%+v", e)
	}
}

func TestNext(t *testing.T) {
	b := lived(t)
	a := b.ask()
	try := b.Begin(&a, 3, Share, b.now)
	cat := catalog(t, same(3)...)
	r := b.Next(cat, []int{3, -1, 2}, Options{Kappa: 2}, b.now)
	if r.markets[0].ends[0] != b.markets[0].ends[3] || r.markets[0].ends[2] != b.markets[0].ends[2] || r.markets[0].model != b.markets[0].model {
		t.Error("what was learned is gone")
	}
	v := r.markets[0].view.Load()
	if v.rows[0].fresh || !v.rows[1].fresh || v.kappa != 2 || !v.rows[0].flaggedTools {
		t.Errorf("%+v", v)
	}
	if try.Done(Result{Outcome: Answered, Out: 5}, b.now.Add(time.Second)); r.markets[0].ends[0].flight.Load() != 0 {
		t.Error("a request that began before is still under way")
	}
	ask := Ask{Session: math.MaxUint64 - 1, Explicit: true}
	sc := scene{v: v, at: r.nanos(b.now)}
	if r.ask(&ask, r.markets[0], &sc); sc.q.warm != r.markets[0].ends[0] {
		t.Error("the session is gone")
	}
}

func TestSessions(t *testing.T) {
	var s sessions
	e := new(end)
	for key := uint64(1); key <= 200_000; key++ {
		s.answered(key, 1, e, 1, 0, false)
		s.answered(9, 1, e, 1, 3, key == 100)
	}
	n := 0
	s.each(func(uint64, session) { n++ })
	if n > 65_536 || n < 30_000 {
		t.Errorf("%d sessions are kept", n)
	}
	if _, ok := s.find(200_000, 1); !ok {
		t.Error("the newest is gone")
	}
	if k, ok := s.find(9, 1); !ok || k.n != 200_000 || k.out != 3*k.n || !k.armed {
		t.Errorf("one that is in use is gone: %+v", k)
	}
	if _, ok := s.find(200_000, 602); ok {
		t.Error("known after ten minutes")
	}
	s.answered(100, 1, e, 1, 3, true)
	s.answered(100, 700, e, 1, 3, false)
	if k, _ := s.find(100, 700); k.armed || k.n != 1 {
		t.Errorf("what was forgotten is known: %+v", k)
	}
	s.answered(100, 700, e, 1, 3, true)
	s.answered(100, 700, new(end), 1, 3, false)
	if k, _ := s.find(100, 700); k.armed {
		t.Error("it sticks to an endpoint where no cache was hit")
	}
	s.answered(0, 1, e, 1, 1, true)
	if _, ok := s.find(0, 1); ok {
		t.Error("no session is one")
	}
}

func TestSessionKey(t *testing.T) {
	keys := map[uint64]string{}
	for name, k := range map[string]uint64{
		"explicit": SessionKey("key-1", "m", "s", nil, nil), "other key": SessionKey("key-2", "m", "s", nil, nil), "other model": SessionKey("key-1", "n", "s", nil, nil),
		"messages": SessionKey("key-1", "m", "", []byte("s"), []byte("u")), "other user": SessionKey("key-1", "m", "", []byte("s"), []byte("v")),
		"only user": SessionKey("key-1", "m", "", nil, []byte("su")), "only system": SessionKey("key-1", "m", "", []byte("su"), nil),
		"moved": SessionKey("key-", "1m", "s", nil, nil), "message as name": SessionKey("key-1", "m", "su", nil, nil),
		"long": SessionKey("key-1", "m", "", []byte(strings.Repeat("x", 32)), nil), "longer": SessionKey("key-1", "m", "", []byte(strings.Repeat("x", 33)), nil),
	} {
		if k == 0 {
			t.Errorf("%s: 0", name)
		}
		if other, ok := keys[k]; ok {
			t.Errorf("%s is as %s", name, other)
		}
		keys[k] = name
	}
	if SessionKey("key-1", "m", "", nil, nil) != 0 {
		t.Error("nothing to tell it by, and yet a session")
	}
	if SessionKey("key-1", "m", "s", []byte("a"), nil) != SessionKey("key-1", "m", "s", []byte("b"), []byte("c")) {
		t.Error("what the caller says does not rule")
	}
	if got := Seed("gen-01JH"); got != 0 && got != Seed("gen-01JH") {
		t.Errorf("%d", got)
	}
}

// TestConcurrent is for the race detector; besides, nothing may stay under way.
func TestConcurrent(t *testing.T) {
	b := bazaarOf(t, same(6)...)
	var wg sync.WaitGroup
	for k := range 6 {
		wg.Go(func() {
			a := Ask{In: 500, Stream: k%2 == 0, Tools: true, Session: uint64(k%3) + 1}
			tier, why := b.tier(0), make([]Terms, 6)
			for i := range 400 {
				now := began.Add(time.Duration(i) * 50 * time.Millisecond)
				a.Draw++
				d := b.Order(&a, tier, why, now)
				try := b.Begin(&a, d.Endpoint, d.Reason, now)
				try.First(now)
				b.Judge(d.Endpoint, 1, i%2, now)
				try.Done(Result{Outcome: []Outcome{Answered, Failed, Limited, Unjudged}[(i+k)%4], In: 400, Out: 50}, now.Add(time.Second))
				b.Health(nil, now)
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			b.Refresh(began.Add(time.Duration(i) * 100 * time.Millisecond))
			b.State(began.Add(time.Duration(i) * 100 * time.Millisecond))
		}
	})
	wg.Wait()
	for i, e := range b.markets[0].ends {
		if e.flight.Load() != 0 || e.waiting != (waiting{}) {
			t.Errorf("endpoint %d: %d under way, %+v", i, e.flight.Load(), e.waiting)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	b := calm(t, 40)
	tier, a := b.tier(0), b.ask()
	a.Session = 5
	for name, do := range map[string]func(){
		"Pick":  func() { a.Draw++; b.Pick(&a, tier, b.now) },
		"Order": func() { a.Draw++; b.Order(&a, tier, nil, b.now) },
		"a try": func() {
			t := b.Begin(&a, 7, Share, b.now)
			t.First(b.now)
			t.Done(Result{Outcome: Answered, In: 1, Out: 1}, b.now)
		},
		"Health": func() { b.Health(nil, b.now) },
	} {
		if got := testing.AllocsPerRun(100, do); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
