package ledger

import (
	"fmt"
	"sync/atomic"
	"testing"

	"myip.co.kr/hearth/internal/journal"
)

func BenchmarkRecord(b *testing.B) {
	for _, d := range []journal.Durability{journal.Process, journal.Power} {
		b.Run(string(d), func(b *testing.B) {
			books := open(b, b.TempDir(), journal.Options{Durability: d, MaxBytes: 16 << 30})
			g := sample("")
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				g.ID = fmt.Sprint("gen-", n)
				if err := books.Record(g); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(d)+" parallel", func(b *testing.B) {
			books := open(b, b.TempDir(), journal.Options{Durability: d, MaxBytes: 16 << 30})
			b.ReportAllocs()
			var n atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				g := sample("")
				for pb.Next() {
					g.ID = fmt.Sprint("gen-", n.Add(1))
					if err := books.Record(g); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
