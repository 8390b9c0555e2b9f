package market

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Bounds of files. What lies outside is a mistake.
const (
	maxArrivals   = 2_000_000
	maxArrivalDay = 31 * 86400.0 // seconds from the first to the last
	maxArrivalIn  = 10_000_000   // tokens
	maxArrivalOut = 1_000_000    // tokens
)

const (
	listingForm = "name, input price, output price, cache price ($ per 1,000,000 tokens), TTFT p50 (seconds), tok/s p50, uptime (0 to 1, or per cent)"
	arrivalForm = "seconds, input tokens, output tokens, session, shared-prefix tokens"
)

// table reads the rows of a CSV file with so many columns. A first row without a number in column is a heading. row is
// told the line and the fields.
func table(from io.Reader, columns, column int, form string, row func(line int, fields []string) error) error {
	r := csv.NewReader(from)
	r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace, r.Comment = -1, true, true, '#'
	for first := true; ; first = false {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no CSV: %w", err)
		}
		line, _ := r.FieldPos(0)
		if first {
			fields[0] = strings.TrimPrefix(fields[0], "\ufeff")
		}
		if len(fields) != columns {
			return fmt.Errorf("line %d has %d columns; %d are wanted: %s", line, len(fields), columns, form)
		}
		if _, err := strconv.ParseFloat(strings.TrimSpace(fields[column]), 64); first && err != nil && strings.ContainsFunc(fields[column], unicode.IsLetter) {
			continue
		}
		if err := row(line, fields); err != nil {
			return err
		}
	}
}

// cell reads a number; what names the column.
func cell(line, column int, what, text, remedy string, least, most float64) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) {
		return 0, fmt.Errorf("line %d, column %d: %s %q is no number; write %s", line, column, what, cut(text), remedy)
	}
	if v < least || v > most {
		return 0, fmt.Errorf("line %d, column %d: %s %s is not from %g to %g; write %s", line, column, what, cut(text), least, most, remedy)
	}
	return v, nil
}

// cut shortens a text for a message.
func cut(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// ReadListings reads a market: CSV with the columns name, input price, output price, cache price (all $ per 1,000,000
// tokens), TTFT p50 (seconds), tok/s p50, uptime (0 to 1, or per cent if any is above 1), with or without a heading.
func ReadListings(from io.Reader) ([]Listing, error) {
	var list []Listing
	seen := map[string]int{}
	percent := false
	err := table(from, 7, 1, listingForm, func(line int, f []string) error {
		l := Listing{Name: strings.TrimSpace(f[0])}
		if l.Name == "" || len(l.Name) > 200 {
			return fmt.Errorf("line %d, column 1: the name is empty or too long; name the endpoint with at most 200 bytes", line)
		}
		if was, ok := seen[l.Name]; ok {
			return fmt.Errorf("line %d, column 1: %q is in line %d already; every endpoint has a name of its own", line, cut(l.Name), was)
		}
		if seen[l.Name] = line; len(list) == maxListings {
			return fmt.Errorf("line %d: a market has at most %d endpoints; leave some out", line, maxListings)
		}
		for i, c := range []struct {
			what, remedy string
			least, most  float64
			into         *float64
		}{
			{"input price", "$ per 1,000,000 tokens", 0, maxPrice, &l.In},
			{"output price", "$ per 1,000,000 tokens", 0, maxPrice, &l.Out},
			{"cache price", "$ per 1,000,000 tokens, the input price if there is no discount", 0, maxPrice, &l.Cache},
			{"TTFT p50", "seconds, not milliseconds", 0.001, maxTTFT, &l.TTFT},
			{"tok/s p50", "output tokens per second after the first", leastTPS, maxTPS, &l.TPS},
			{"uptime", "a part such as 0.995, or per cent in the whole file", 0.01, 100, &l.Uptime},
		} {
			v, err := cell(line, i+2, c.what, f[i+1], c.remedy, c.least, c.most)
			if err != nil {
				return err
			}
			*c.into = v
		}
		percent = percent || l.Uptime > 1
		list = append(list, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it has no endpoint; write one a line: " + listingForm)
	}
	for i := range list {
		if percent {
			list[i].Uptime = max(list[i].Uptime/100, 0.01)
		}
	}
	return list, nil
}

// ReadArrivals reads a workload: CSV with the columns seconds, input tokens, output tokens, session (any text; empty or 0
// = none), shared-prefix tokens, with or without a heading. The shared prefix of a session's first request, or of one
// without a session, is shared with all such requests that have as long a one; that of a later one with the request
// before it in its session. Seconds count from any moment; rows may be in any order.
func ReadArrivals(from io.Reader) ([]Arrival, error) {
	var list []Arrival
	var shared []int // by row
	sessions := map[string]int{}
	err := table(from, 5, 0, arrivalForm, func(line int, f []string) error {
		if len(list) == maxArrivals {
			return fmt.Errorf("line %d: a workload has at most %d requests; play a part of it", line, maxArrivals)
		}
		var v [5]float64
		for i, c := range []struct {
			column       int
			what, remedy string
			least, most  float64
		}{
			{0, "time", "seconds", -1e12, 1e12},
			{1, "input tokens", "the tokens of the whole prompt", 1, maxArrivalIn},
			{2, "output tokens", "the tokens of the answer", 0, maxArrivalOut},
			{4, "shared-prefix tokens", "how many of the input tokens earlier requests had too", 0, maxArrivalIn},
		} {
			n, err := cell(line, c.column+1, c.what, f[c.column], c.remedy, c.least, c.most)
			if err != nil {
				return err
			}
			v[i] = n
		}
		if v[3] > v[1] {
			return fmt.Errorf("line %d, column 5: %g shared-prefix tokens of %g input tokens; the prefix is a part of the prompt", line, v[3], v[1])
		}
		a := Arrival{At: v[0], In: int(v[1]), Out: max(int(v[2]), 1)}
		if id := strings.TrimSpace(f[3]); id != "" && id != "0" {
			if sessions[id] == 0 {
				sessions[strings.Clone(id)] = len(sessions) + 1
			}
			a.Session = sessions[id]
		}
		list, shared = append(list, a), append(shared, int(v[3]))
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
		return nil, errors.New("it has no request; write one a line: " + arrivalForm)
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
