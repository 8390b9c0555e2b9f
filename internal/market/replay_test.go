package market

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// drawnAt is a record of a request that was drawn between a and b: the price of each as expected, and what came.
func drawnAt(n int, chosen string, cost float64) *hearth.Generation {
	a := hearth.RoutedTerms{Endpoint: "a:m", Share: 0.5, Price: 1, List: 1, Wait: 0.4, Decode: 0.6, TTFT: 1, Rest: 6, Tries: 1, State: "closed"}
	b := hearth.RoutedTerms{Endpoint: "b:m", Share: 0.5, Price: 2, List: 2, Wait: 0.2, Decode: 0.3, TTFT: 0.5, Rest: 3, Tries: 1, State: "closed"}
	t := hearth.Routed{Model: "m", Endpoint: chosen + ":m", Reason: "share", Share: 0.5, Kappa: 1, Candidates: []hearth.RoutedTerms{a, b}}
	seconds := map[string]time.Duration{"a": 7 * time.Second, "b": 4 * time.Second}[chosen]
	return &hearth.Generation{
		ID: "gen", CreatedAt: time.Unix(int64(n)*120, 0).UTC(), Requested: []string{"m"}, Model: "m", Endpoint: chosen + ":m", Streamed: true, HTTP: 200,
		FirstToken: time.Second, Duration: seconds, Usage: hearth.Usage{CompletionTokens: 100, Reported: true},
		Bill: hearth.Bill{Cost: hearth.Nano(cost * 1e9), Currency: "EUR"}, Routing: []hearth.Routed{t},
		Attempts: []hearth.Attempt{{Endpoint: chosen + ":m", Status: 200, Verdict: hearth.Served, Latency: time.Second}},
	}
}

func equal(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// The estimate, computed by hand.
func TestReplay_ByHand(t *testing.T) {
	r, err := NewReplay([]string{"price", "inverse-square", "routing-cost@2", "routing-cost@0"})
	if err != nil {
		t.Fatal(err)
	}
	for n, g := range []*hearth.Generation{drawnAt(0, "a", 1.2), drawnAt(1, "a", 1.1), drawnAt(2, "a", 1.0), drawnAt(3, "b", 2.4)} {
		if err := r.Add(g); err != nil {
			t.Fatal(n, err)
		}
	}
	out, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	// What came over what was expected: of all 5.7 of 5. The mean expectation is 5/4; five of it weigh in each endpoint.
	mean, all := 5*5.0/4, 5.7/5
	trueA, trueB := (3.3+mean*all)/(3+mean), (2.4+mean*all)/(2+mean)
	price := out.All.Policies["price"]
	if want := 4*trueA + 2*(3.3-3*trueA); !equal(price.Cost.Value, want) { // weights of 1/0.5 at a, none at b
		t.Errorf("price: cost %v, want %v", price.Cost.Value, want)
	}
	if want := 4 * 3.3 / 3; !equal(*price.Cost.IPS, want) {
		t.Errorf("price: by weights alone %v, want %v", *price.Cost.IPS, want)
	}
	square := out.All.Policies["inverse-square"] // 4/5 to a, 1/5 to b
	if want := 4*(0.8*trueA+0.2*2*trueB) + 1.6*(3.3-3*trueA) + 0.4*(2.4-2*trueB); !equal(square.Cost.Value, want) {
		t.Errorf("inverse-square: cost %v, want %v", square.Cost.Value, want)
	}
	// At a kappa of 2 a costs 1+2·1 = 3 in all and b 2+2·0.5 = 3: they share, as at 1 they would not.
	if even := out.All.Policies["routing-cost@2"]; !equal(even.Endpoints[0].Share, 0.5) || !equal(even.Cost.Value, 4*(0.5*trueA+0.5*2*trueB)+(3.3-3*trueA)+(2.4-2*trueB)) {
		t.Errorf("routing-cost@2: %+v", even)
	}
	if none := out.All.Policies["routing-cost@0"]; !equal(none.Cost.Value, price.Cost.Value) || !equal(none.Endpoints[0].Share, 1) {
		t.Errorf("routing-cost@0: %+v", none) // price alone counts, for nothing fails
	}
	h := out.All.Happened
	if want := (Outcome{Cost: 5.7, TTFT: 1, TTFTP50: h.TTFTP50, TTFTP95: h.TTFTP95, E2E: 400.0 / 25, User: (5.7 + 3*(0.4+0.6) + 0.4 + 0.3) / 4}); !cmp.Equal(want, h, cmp.Comparer(equal)) {
		t.Error(cmp.Diff(want, h))
	}
	if h.TTFTP50 < 0.95 || h.TTFTP50 > 1.05 {
		t.Errorf("half have the first token after %v s, not 1", h.TTFTP50)
	}
	if price.Sample != 3 || price.Overlap != 1 || out.Currency != "EUR" || price.Cost.Low != nil {
		t.Errorf("%+v", price)
	}
}

func TestReplay_WhatIsCarriedOver(t *testing.T) {
	for _, c := range []struct {
		why string
		do  func(*hearth.Generation)
	}{
		{"", func(*hearth.Generation) {}},
		{"", func(g *hearth.Generation) { // an own slot was tried before
			g.Local, g.Attempts = 1, append([]hearth.Attempt{{Endpoint: "own", Skip: hearth.SkipBusy, Latency: time.Second}}, g.Attempts...)
		}},
		{"", func(g *hearth.Generation) { // what was chosen failed, and the other answered
			g.Attempts = append(g.Attempts, g.Attempts[0])
			g.Attempts[0].Verdict, g.Attempts[1].Endpoint, g.Endpoint = hearth.TryNext, "b:m", "b:m"
		}},
		{carriedUnrouted, func(g *hearth.Generation) { g.Routing = nil }},
		{carriedOnly, func(g *hearth.Generation) { g.Routing[0].Reason = "only" }},
		{carriedOnly, func(g *hearth.Generation) { g.Routing[0].Candidates = g.Routing[0].Candidates[:1] }},
		{carriedMoved, func(g *hearth.Generation) { g.Attempts[0].Endpoint, g.Endpoint = "b:m", "b:m" }},
		{carriedFailed, func(g *hearth.Generation) { g.HTTP, g.Error, g.Endpoint = 502, "provider_error", "" }},
		{carriedFailed, func(g *hearth.Generation) { g.Cancelled = true }},
		{carriedLocal, func(g *hearth.Generation) { g.Local, g.Attempts[0].Endpoint, g.Endpoint = 1, "own", "own" }},
		{carriedLocal, func(g *hearth.Generation) { g.Routing, g.Local, g.Attempts[0].Endpoint = nil, 1, "own" }},
	} {
		r, err := NewReplay([]string{"price"})
		if err != nil {
			t.Fatal(err)
		}
		g := drawnAt(0, "a", 1)
		c.do(g)
		if err := r.Add(g); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{}
		if c.why != "" {
			want[c.why] = 1
		}
		if d := cmp.Diff(want, r.carried); d != "" {
			t.Errorf("%q: %s", c.why, d)
		}
		_, err = r.Result()
		if none := (ErrNothingToReplay{}); errors.As(err, &none) != (c.why != "") {
			t.Errorf("%q: %v", c.why, err)
		}
	}
}

// What was tried before the choice, and what failed after it.
func TestFate(t *testing.T) {
	g := drawnAt(0, "a", 1)
	g.Attempts = []hearth.Attempt{
		{Endpoint: "own", Verdict: hearth.TryNext, Status: 500, Latency: 2 * time.Second},
		{Endpoint: "a:m", Verdict: hearth.TryNext, Status: 429, Latency: time.Second},
		{Endpoint: "b:m", Verdict: hearth.Served, Status: 200, Latency: time.Second},
	}
	g.FirstToken, g.Duration, g.Generating = 4*time.Second, 60*time.Second, 5*time.Second // the caller read slowly
	f := fateOf(g)
	if f.tier == nil || f.chosen != 0 || f.before[first] != 2 || f.before[whole] != 2 || f.before[spoilt] != 1 {
		t.Fatalf("%+v", f)
	}
	if f.got[first] != 4 || f.got[whole] != 8 || f.got[spoilt] != 2 {
		t.Errorf("got %v", f.got)
	}
	if want := 1 + 0.4*2 + 0.1*4; !equal(f.got[burden], want) {
		t.Errorf("burden %v, want %v", f.got[burden], want)
	}
	if g.Streamed = false; !equal(fateOf(g).got[burden], 1+(0.4+0.6)*6/7) {
		t.Errorf("burden of an answer in one piece: %v", fateOf(g).got[burden])
	}
}

func TestReadRecords(t *testing.T) {
	one := `{"id":"gen-1","created_at":"2026-11-30T10:00:00Z","bill":{"currency":"USD","cost":0}}`
	read := func(text string) (n int, err error) {
		err = ReadRecords(strings.NewReader(text), func(g *hearth.Generation) error { n++; return checkRecord(g) }, func(int) {})
		return n, err
	}
	t.Run("lines, with and without an end, empty ones, a byte order mark", func(t *testing.T) {
		if n, err := read("\ufeff" + one + "\n\n" + one + "\r\n" + one); n != 3 || err != nil {
			t.Error(n, err)
		}
	})
	t.Run("compressed", func(t *testing.T) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(one + "\n" + one + "\n"))
		_ = w.Close()
		if n, err := read(b.String()); n != 2 || err != nil {
			t.Error(n, err)
		}
		if _, err := read(b.String()[:b.Len()-12]); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Error(err)
		}
		if _, err := read("\x1f\x8bno"); err == nil || !strings.Contains(err.Error(), "no gzip") {
			t.Error(err)
		}
	})
	t.Run("a long line is read, one that is too long is not", func(t *testing.T) {
		long := strings.Replace(one, `"gen-1"`, `"`+strings.Repeat("x", 200_000)+`"`, 1)
		if n, err := read(long + "\n" + one); n != 2 || err != nil {
			t.Error(n, err)
		}
		if n, err := read(one + "\n" + strings.Repeat("x", maxRecord+100_000)); n != 1 || err == nil || !strings.HasPrefix(err.Error(), "line 2: it is longer than 4 MiB") {
			t.Error(n, err)
		}
	})
	for text, want := range map[string]string{
		"time,id\n":                          "line 1 is no JSON object; hearth records export writes what is read here, without --format csv",
		one + "\n{\"id\":\n":                 "line 2 is no record: ",
		one + "\n{}\n":                       "line 2: it is no record of a request: it has no created_at; export the records anew, or leave the line out",
		strings.Replace(one, "0}", "-1}", 1): "line 1: its cost is negative; ",
		strings.Replace(one, `}}`, `},"duration":-5}`, 1):                                                                                                      "line 1: duration of -5e-09 seconds cannot be true; ",
		strings.Replace(one, `}}`, `},"routing":[{"endpoint":"a","share":2}]}`, 1):                                                                             "line 1: routing[0].share: 2 is not from 0 to 1; ",
		strings.Replace(one, `}}`, `},"routing":[{"endpoint":"a","candidates":[{"endpoint":"a","ttft_seconds":-1}]}]}`, 1):                                     "line 1: routing[0].candidates[0].ttft_seconds: -1 is not from 0 to 1e+12; ",
		strings.Replace(one, `}}`, `},"routing":[{"endpoint":"a","candidates":[{"endpoint":"a","later_turns":0.5}]}]}`, 1):                                     "line 1: routing[0].candidates[0].later_turns: 0.5 is not from -1e+12 to 0; ",
		strings.Replace(one, `}}`, `},"routing":[{"endpoint":"a","candidates":[{"endpoint":"a","later_turns":-2e12}]}]}`, 1):                                   "line 1: routing[0].candidates[0].later_turns: -2e+12 is not from -1e+12 to 0; ",
		strings.Replace(one, `}}`, `},"routing":[{"endpoint":"a","candidates":[{"endpoint":"b"}]}]}`, 1):                                                       "line 1: routing[0].candidates: the endpoint in the first place is not among them; ",
		strings.Replace(one, `}}`, `},"routing":[{"endpoint":"a","candidates":[`+strings.Repeat(`{"endpoint":"a"},`, maxCandidates)+`{"endpoint":"a"}]}]}`, 1): "line 1: routing[0].candidates: 65 of them; at most 64 can be true; ",
		strings.Replace(one, `}}`, `},"attempts":[{"model":"m","provider":"p","slug":"p","endpoint":"a","latency":-1,"verdict":0}]}`, 1):                       "line 1: attempts[0].latency of -1e-09 seconds cannot be true; ",
		strings.Replace(one, `}}`, `},"usage":{"prompt_tokens":1,"completion_tokens":-1,"reported":true}}`, 1):                                                 "line 1: its counts of tokens cannot be true; ",
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.200s\n%v, want %s", text, err, want)
		}
	}
}

func TestReplay_Limits(t *testing.T) {
	for _, policies := range [][]string{nil, {"price", "price"}, {"least-latency"}, {"routing-cost@-1"}, {"routing-cost@x"}, {"price@1"}, make([]string, 9)} {
		if _, err := NewReplay(policies); err == nil {
			t.Errorf("%q are accepted", policies)
		}
	}
	r, err := NewReplay([]string{"price"})
	if err != nil {
		t.Fatal(err)
	}
	g := drawnAt(0, "a", 1)
	for n := range maxReplaySpots / 2 {
		name := strings.Repeat("x", n+1)
		g.Routing[0].Endpoint, g.Attempts[0].Endpoint = name+"a", name+"a"
		g.Routing[0].Candidates[0].Endpoint, g.Routing[0].Candidates[1].Endpoint = name+"a", name+"b"
		if err := r.Add(g); err != nil {
			t.Fatal(n, err)
		}
	}
	g.Routing[0].Candidates[1].Endpoint = "one more"
	if err := r.Add(g); err == nil || !strings.Contains(err.Error(), "more than 1000 endpoints in the records; choose a model (--model)") {
		t.Error(err)
	}
	g.Bill.Currency = "KRW"
	if err := r.Add(g); err == nil || err.Error() != "its amounts are in \"KRW\", those before in EUR; replay a time with one currency (--from, --to)" {
		t.Error(err)
	}
}

func TestHistogram(t *testing.T) {
	var h, x, y, product histogram
	for i := range 1000 {
		h.add(float64(1000-i), 1)
	}
	for p, want := range map[float64]float64{0.5: 500, 0.95: 950, 0.01: 10, 1: 1000} {
		if got := h.at(p); math.Abs(got/want-1) > 0.05 {
			t.Errorf("a part of %v is below %v, want %v", p, got, want)
		}
	}
	if h.add(0, 1); h.at(0.0001) > 1e-5 || h.total() != 1001 {
		t.Error("0 is not the lowest")
	}
	h.add(math.Inf(1), 1)
	h.add(math.NaN(), 1)
	for i := range 400 {
		x.add(math.Exp(float64(i%20)/20), 1)
		y.add(math.Exp(float64(i/20)/20), 1)
	}
	if product.times(&x, &y); math.Abs(product.total()-400) > 1e-6 || math.Abs(product.at(0.5)/math.E/math.Exp(-0.05)-1) > 0.05 {
		t.Errorf("%v of %v", product.at(0.5), product.total())
	}
	var none histogram
	if none.at(0.5) != 0 {
		t.Error("of nothing there is no percentile")
	}
}

// FuzzReplay: whatever is in a file, reading it ends, and figures are numbers.
func FuzzReplay(f *testing.F) {
	var b bytes.Buffer
	for n, chosen := range []string{"a", "b", "a"} {
		g := drawnAt(n, chosen, 1)
		g.Routing[0].Session = 5
		g.Routing[0].Candidates[0].Warm, g.Routing[0].Candidates[1].OtherPrice = true, 1.5
		_, _ = lines(f, []*hearth.Generation{g}).(*bytes.Buffer).WriteTo(&b)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"id":"gen-1","created_at":"2026-11-30T10:00:00Z","bill":{"currency":"USD","cost":1e-9},"http":200,"routing":[{"kappa":0}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReplay([]string{"price", "inverse-square", "routing-cost", "routing-cost@0.01", "routing-cost@100"})
		if err != nil {
			t.Fatal(err)
		}
		_ = ReadRecords(bytes.NewReader(text), r.Add, func(int) {})
		out, err := r.Result()
		if err != nil {
			return
		}
		for _, p := range append(out.Models, out.All) {
			for name, e := range p.Policies {
				for _, x := range []float64{
					e.Cost.Value, e.TTFT.Value, e.TTFTP50, e.TTFTP95, e.E2E.Value, e.Failed.Value, e.User.Value, e.Overlap, e.Sample, e.Clipped,
					p.Happened.Cost, p.Happened.TTFT, p.Happened.E2E, p.Happened.Failed, p.Happened.User,
				} {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("%s: %+v", name, e)
					}
				}
				if e.Overlap < -1e-6 || e.Overlap > 1+1e-6 {
					t.Fatalf("%s: overlap %v", name, e.Overlap)
				}
			}
		}
	})
}
