package relay

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/estimate"
	"myip.co.kr/hearth/internal/routing"
)

// BenchmarkTier is the chain of a request for a model at two endpoints of one priority, with what the router is told of its
// try: by price, and by cost.
func BenchmarkTier(b *testing.B) {
	for _, by := range []string{"price", "cost"} {
		b.Run("by="+by, func(b *testing.B) {
			w := &world{key: &hearth.Key{ID: "key-1"}}
			w.open(b, setup{}, tierOf(b, 2))
			w.byCost(time.Now())
			w.relay.opt.ByCost = by == "cost"
			req, rw, body := httptest.NewRequest(http.MethodPost, "/", http.NoBody), httptest.NewRecorder(), []byte(chat(`, "max_tokens": 100`))
			c, err := dialect.DecodeChat(body, estimate.JSON)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				r := w.relay
				x := r.begin(req, r.Name(rw), w.key)
				x.chat = c
				ch, err := r.build(req, x)
				if err != nil {
					b.Fatal(err)
				}
				try := r.begins(x, ch.Candidates[0].Endpoint, time.Now())
				try.Done(routing.Result{In: 10, Out: 10}, time.Now())
				x.routed.forget()
			}
		})
	}
}
