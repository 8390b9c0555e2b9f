package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// cell is one kind of load.
type cell struct {
	name   string
	args   []string // of the load generator
	chunks int      // pieces of text per stream, 0 = not streamed
	only   []string // the systems it is for; empty = all
}

const (
	jsonOne   = "json c1"
	jsonMany  = "json c16"
	streams8  = "8 streams"
	streams64 = "64 streams"
	bigPrompt = "200 KB c4"
	opening   = "opening" // many streams opened one after the other and kept open
)

// longestStream is how long a stream of the cells lasts at most.
const longestStream = time.Second

// cells are what every round goes through. Eight streams send 100 pieces of text per second each, 64 send 50.
func cells() []cell {
	return []cell{
		{name: jsonOne, args: []string{"-c", "1"}, only: []string{direct, nginx, rproxy, fwd, own}},
		{name: jsonMany, args: []string{"-c", "16"}},
		{name: streams8, args: []string{"-c", "8", "-stream", "-chunks", "50", "-ivus", "10000"}, chunks: 50,
			only: []string{direct, nginx, rproxy, fwd, own}},
		{name: streams64, args: []string{"-c", "64", "-stream", "-chunks", "50", "-ivus", "20000"}, chunks: 50,
			only: []string{direct, nginx, rproxy, fwd, own}},
		{name: bigPrompt, args: []string{"-c", "4", "-pad", "200000"}, only: []string{direct, nginx, rproxy, fwd, own}},
	}
}

func (c cell) suits(system string) bool { return len(c.only) == 0 || slices.Contains(c.only, system) }

// sample is what one run of a cell measured: figure → value. Times are in µs, memory in MiB.
type sample map[string]float64

// measure runs one cell against one system. CPU is divided by the requests that reached the mock, so that the
// warm-up counts on both sides of the division.
func (l *lab) measure(ctx context.Context, g *gateway, c cell, warm, d time.Duration) (sample, error) {
	before, err := l.mockStats(ctx)
	if err != nil {
		return nil, err
	}
	var cpu time.Duration
	if g.proc != nil {
		if cpu, err = g.proc.cpu(); err != nil {
			return nil, err
		}
	}
	s, err := l.load(ctx, g, c, "-warm", warm.String(), "-d", d.String())
	if err != nil {
		return nil, err
	}
	time.Sleep(100 * time.Millisecond) // what is written behind an answer belongs to it
	if g.proc == nil {
		return s, nil
	}
	after, err := l.mockStats(ctx)
	if err != nil {
		return nil, err
	}
	used, err := g.proc.cpu()
	if err != nil {
		return nil, err
	}
	n := after["total"] - before["total"]
	if n == 0 {
		return nil, fmt.Errorf("no request of %s reached the mock", g.name)
	}
	s["cpu_us"] = float64((used - cpu).Microseconds()) / n
	if c.chunks > 0 {
		s["cpu_chunk_us"] = s["cpu_us"] / float64(c.chunks)
	}
	return s, nil
}

// load runs the load generator to its end.
func (l *lab) load(ctx context.Context, g *gateway, c cell, more ...string) (sample, error) {
	args := slices.Concat([]string{"-url", g.url + "/v1/chat/completions", "-model", g.model}, c.args, more)
	for _, h := range g.headers {
		args = append(args, "-H", h)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, l.program["load"], args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("load %s with %s: %w %s", g.name, c.name, err, stderr.String())
	}
	return readLoad(stdout.Bytes())
}

// readLoad keeps the numbers of the load generator's one line. A run without a single good answer is an error.
func readLoad(line []byte) (sample, error) {
	var raw map[string]any
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, fmt.Errorf("read the load generator's result: %w", err)
	}
	s := sample{}
	for k, v := range raw {
		if f, ok := v.(float64); ok {
			s[k] = f
		}
	}
	if s["n"] == 0 {
		return nil, fmt.Errorf("no request was answered (%v errors, the first: %v)", s["err"], raw["err_sample"])
	}
	return s, nil
}

func (l *lab) mockStats(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.mockURL+"/stats", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the mock for its counters: %w", err)
	}
	defer res.Body.Close()
	out := map[string]float64{}
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return nil, fmt.Errorf("read the mock's counters: %w", err)
	}
	return out, nil
}

// open opens n streams over ten seconds on a fresh gateway and keeps each open for twelve, so that nearly all
// are open at once, and measures the memory that one open stream takes.
func (l *lab) open(ctx context.Context, g *gateway, n int) (sample, error) {
	const seconds, chunks, perSecond = 10, 60, 5
	c := cell{name: opening, args: []string{"-stream", "-chunks", strconv.Itoa(chunks), "-ivus", strconv.Itoa(1e6 / perSecond),
		"-rate", strconv.Itoa(n / seconds)}}
	if _, err := l.load(ctx, g, c, "-rate", "0", "-c", "2", "-chunks", "5", "-ivus", "1000", "-warm", "0s", "-d", "300ms"); err != nil {
		return nil, err
	}
	base, err := g.proc.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	watch, stop := context.WithCancel(ctx)
	most := make(chan sample, 1)
	go func() { most <- l.watch(watch, g) }()
	s, err := l.load(ctx, g, c, "-warm", "0s", "-d", strconv.Itoa(seconds)+"s")
	stop()
	peak := <-most
	if err != nil {
		return nil, err
	}
	s["open"] = peak["open"]
	if peak["open"] > 0 {
		s["stream_kib"] = (peak["rss"] - base) * 1024 / peak["open"]
	}
	return s, nil
}

// watch samples open streams and memory four times a second and returns the sample with the most open streams.
func (l *lab) watch(ctx context.Context, g *gateway) sample {
	most := sample{}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return most
		case <-tick.C:
		}
		stats, err := l.mockStats(ctx)
		if err != nil {
			continue // the mock is busy or the run is over; the next sample will do
		}
		rss, err := g.proc.memory("VmRSS")
		if err == nil && stats["inflight"] >= most["open"] {
			most = sample{"open": stats["inflight"], "rss": rss}
		}
	}
}
