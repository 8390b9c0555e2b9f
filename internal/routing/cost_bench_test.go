package routing

import (
	"testing"
)

func BenchmarkPick(b *testing.B) {
	z := bazaarOf(b, same(20)...)
	z.warm()
	tier, a := z.tier(0), z.ask()
	run := func(name string, a Ask) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Draw++
				if d := z.Pick(&a, tier, z.now); d.Place < 0 {
					b.Fatal(d)
				}
			}
		})
	}
	run("20 endpoints", a)
	a.Session, a.Explicit = 6, true
	z.edit(func(v *view) {
		for i := range v.rows {
			v.rows[i].keeps = 0.01 * float64(i)
		}
	})
	run("20 endpoints, a conversation opens", a)
	a.Session, a.Explicit = 5, false
	z.serve(a, 3, Share, 1e9, 50)
	a.Explicit = true
	run("20 endpoints, in a session", a)
}

func BenchmarkOrder(b *testing.B) {
	z := bazaarOf(b, same(20)...)
	z.warm()
	tier, a := z.tier(0), z.ask()
	b.ReportAllocs()
	for b.Loop() {
		a.Draw++
		if d := z.Order(&a, tier, nil, z.now); d.Place < 0 {
			b.Fatal(d)
		}
	}
}

func BenchmarkTry(b *testing.B) {
	z := bazaarOf(b, same(20)...)
	z.warm()
	a := z.ask()
	b.ReportAllocs()
	for b.Loop() {
		t := z.Begin(&a, 7, Share, z.now)
		t.First(z.now)
		t.Done(Result{Outcome: Answered, In: 1000, Out: 500}, z.now)
	}
}

func BenchmarkRefresh(b *testing.B) {
	z := bazaarOf(b, same(20)...)
	z.warm()
	b.ReportAllocs()
	for b.Loop() {
		z.refresh(z.markets[0], z.now)
	}
}
