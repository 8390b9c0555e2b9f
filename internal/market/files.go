package market

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of files. What lies outside is a mistake.
const (
	maxArrivals   = 2_000_000
	maxArrivalDay = 31 * 86400.0 // seconds from the first to the last
	maxArrivalIn  = 10_000_000   // tokens
	maxArrivalOut = 1_000_000    // tokens
)

// Columns of a market.
const (
	ofName = iota
	ofIn
	ofOut
	ofCache
	ofTTFT
	ofTPS
	ofUptime
)

// listingColumns are in the order of the constants.
func listingColumns() []column {
	const price = "$ per 1,000,000 tokens"
	return []column{
		{what: "name", names: []string{"endpoint", "provider", "id"}},
		{what: "input price", names: []string{"input", "in", "prompt", "promptprice", "pricein", "priceinput"}, unit: price, remedy: price, most: maxPrice},
		{what: "output price", names: []string{"output", "out", "completion", "completionprice", "priceout", "priceoutput"}, unit: price, remedy: price, most: maxPrice},
		{
			what: "cache price", names: []string{"cache", "cached", "cacheread", "cachereadprice", "cachedinput", "cachedinputprice", "cachedprice", "inputcacheread", "pricecache"},
			unit: price + "; empty: the input price", remedy: price + ", or nothing if there is no discount", optional: true, most: maxPrice,
		},
		{
			what: "TTFT p50", names: []string{"ttft", "ttfts", "ttftseconds", "ttftp50s", "ttftp50seconds", "latency", "firsttoken", "timetofirsttoken"},
			unit: "seconds", remedy: "seconds, not milliseconds", least: 0.001, most: maxTTFT,
		},
		{
			what: "tok/s p50", names: []string{"toks", "tps", "tpsp50", "tokenss", "tokenspersecond", "throughput", "throughputp50", "speed"},
			remedy: "output tokens per second after the first", least: leastTPS, most: maxTPS,
		},
		{what: "uptime", names: []string{"uptimepercent", "availability"}, unit: "0.995, 99.5 or 99.5%", remedy: "a part such as 0.995, or per cent such as 99.5 or 99.5%", least: 0.01, most: 1},
	}
}

// ReadListings reads a market: CSV with the columns name, input price, output price, cache price (all $ per 1,000,000
// tokens; no cache price is the input price), TTFT p50 (seconds), tok/s p50, uptime (a part, or per cent if it is above 1
// or has its sign). A heading may put them in another order, and others between them.
func ReadListings(from io.Reader) ([]Listing, error) {
	var list []Listing
	seen := map[string]int{}
	err := table(from, listingColumns(), func(row *filed) error {
		l := Listing{Name: strings.Clone(row.text(ofName))}
		if l.Name == "" || len(l.Name) > 200 {
			return row.wrong(ofName, "the name is empty or too long; name the endpoint with at most 200 bytes")
		}
		if was, ok := seen[l.Name]; ok {
			return row.wrong(ofName, "%q is in line %d already; every endpoint has a name of its own", cut(l.Name), was)
		}
		if seen[l.Name] = row.line; len(list) == maxListings {
			return fmt.Errorf("line %d: a market has at most %d endpoints; leave some out", row.line, maxListings)
		}
		var err error
		for i, into := range [...]*float64{ofIn: &l.In, ofOut: &l.Out, ofCache: &l.Cache, ofTTFT: &l.TTFT, ofTPS: &l.TPS} {
			if into != nil && err == nil {
				*into, err = row.number(i, l.In)
			}
		}
		if err == nil {
			l.Uptime, err = row.part(ofUptime)
		}
		list = append(list, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it has no endpoint; write one a line: " + form(listingColumns()))
	}
	return list, nil
}

// Columns of a workload.
const (
	ofTime = iota
	ofPrompt
	ofAnswer
	ofSession
	ofShared
)

// arrivalColumns are in the order of the constants.
func arrivalColumns() []column {
	return []column{
		{what: "seconds", names: []string{"time", "t", "at", "arrival", "arrivaltime", "arrivalseconds", "timestamp"}, remedy: "seconds, from any moment on", least: -1e12, most: 1e12},
		{what: "input tokens", names: []string{"input", "in", "prompt", "prompttokens", "contexttokens"}, remedy: "the tokens of the whole prompt", least: 1, most: maxArrivalIn},
		{what: "output tokens", names: []string{"output", "out", "completion", "completiontokens", "generatedtokens"}, remedy: "the tokens of the answer", most: maxArrivalOut},
		{what: "session", names: []string{"sessionid", "conversation"}, optional: true},
		{
			what: "shared-prefix tokens", names: []string{"shared", "sharedprefix", "sharedtokens", "prefix", "prefixtokens"},
			remedy: "how many of the input tokens earlier requests had too", optional: true, most: maxArrivalIn,
		},
	}
}

// ReadArrivals reads a workload: CSV with the columns seconds, input tokens, output tokens, session (any text; empty or 0
// = none), shared-prefix tokens (empty = 0); a heading may put them in another order, and others between them. The shared
// prefix of a session's first request, or of one without a session, is shared with all such requests that have as long a
// one; that of a later one with the request before it in its session. Seconds count from any moment; rows may be in any order.
func ReadArrivals(from io.Reader) ([]Arrival, error) {
	var list []Arrival
	var shared []int // by row
	sessions := map[string]int{}
	err := table(from, arrivalColumns(), func(row *filed) error {
		if len(list) == maxArrivals {
			return fmt.Errorf("line %d: a workload has at most %d requests; play a part of it", row.line, maxArrivals)
		}
		var v [ofShared + 1]float64
		for _, i := range [...]int{ofTime, ofPrompt, ofAnswer, ofShared} {
			n, err := row.number(i, 0)
			if err != nil {
				return err
			}
			v[i] = n
		}
		if v[ofShared] > v[ofPrompt] {
			return row.wrong(ofShared, "%g shared-prefix tokens of %g input tokens; the prefix is a part of the prompt", v[ofShared], v[ofPrompt])
		}
		a := Arrival{At: v[ofTime], In: int(v[ofPrompt]), Out: max(int(v[ofAnswer]), 1)}
		if id := row.text(ofSession); id != "" && id != "0" {
			if sessions[id] == 0 {
				sessions[strings.Clone(id)] = len(sessions) + 1
			}
			a.Session = sessions[id]
		}
		list, shared = append(list, a), append(shared, int(v[ofShared]))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ordered(list, shared)
}

// ordered puts arrivals into their order, from 0 seconds on, and gives them their prefixes.
func ordered(list []Arrival, shared []int) ([]Arrival, error) {
	if len(list) == 0 {
		return nil, errors.New("it has no request; write one a line: " + form(arrivalColumns()))
	}
	rows := make([]int, len(list))
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(list[a].At, list[b].At) })
	began := list[rows[0]].At
	if long := list[rows[len(rows)-1]].At - began; long > maxArrivalDay {
		return nil, fmt.Errorf("the last request comes %.0f seconds after the first; at most 31 days can be played, and times are in seconds", long)
	}
	out := make([]Arrival, len(list))
	last := map[int][]block{} // by session
	for i, row := range rows {
		a := list[row]
		a.At -= began
		before := last[a.Session]
		if a.Session == 0 || before == nil {
			before = []block{{uint64(shared[row]), shared[row]}}
		}
		a.prefix = prefix(before, shared[row], uint64(i)+ownBlocks, a.In)
		if a.Session != 0 {
			last[a.Session] = a.prefix
		}
		out[i] = a
	}
	return out, nil
}

// ownBlocks is beyond the numbers of blocks that requests have in common by their length.
const ownBlocks = 1 << 32

// prefix is the first tokens of earlier blocks, and then a block of its own.
func prefix(before []block, tokens int, own uint64, in int) []block {
	out := make([]block, 0, len(before)+1)
	used := 0
	for _, b := range before {
		if b.tokens = min(b.tokens, tokens-used); b.tokens <= 0 {
			break
		}
		used += b.tokens
		out = append(out, b)
	}
	if in > used {
		out = append(out, block{own, in - used})
	}
	return out
}
