// load: closed-loop / open-loop load generator for OpenAI-style chat endpoints.
//
// ttfb is the time to the first event of a stream; content the time to its first piece of text, less the
// interval that the mock waits before it on purpose. A gateway that holds its headers until it knows which
// upstream answers can only be compared by content.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type hdrs []string

func (h *hdrs) String() string     { return strings.Join(*h, ",") }
func (h *hdrs) Set(s string) error { *h = append(*h, s); return nil }

func q(v []int64, p float64) int64 {
	if len(v) == 0 {
		return 0
	}
	i := int(p * float64(len(v)-1))
	return v[i]
}

func main() {
	var hs hdrs
	url := flag.String("url", "http://127.0.0.1:9100/v1/chat/completions", "")
	c := flag.Int("c", 1, "concurrency")
	d := flag.Duration("d", 5*time.Second, "duration")
	warm := flag.Duration("warm", time.Second, "warm-up")
	rate := flag.Float64("rate", 0, "open loop: requests/s (poisson), 0=closed loop")
	stream := flag.Bool("stream", false, "")
	nchunk := flag.Int("chunks", 50, "")
	ivus := flag.Int("ivus", 0, "chunk interval, microseconds")
	model := flag.String("model", "mock", "")
	pad := flag.Int("pad", 0, "extra prompt bytes")
	label := flag.String("label", "", "")
	flag.Var(&hs, "H", "header k: v")
	flag.Parse()

	msg := "Say hello in one short sentence." + strings.Repeat(" lorem", *pad/6)
	m := map[string]any{"model": *model, "messages": []any{map[string]any{"role": "user", "content": msg}}}
	if *stream {
		m["stream"] = true
		m["max_tokens"] = *nchunk
		m["seed"] = *ivus
		m["stream_options"] = map[string]any{"include_usage": true}
	}
	body, _ := json.Marshal(m)
	tr := &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	cl := &http.Client{Transport: tr}

	var mu sync.Mutex
	var lat, ttfb, chunk, content []int64
	var errs, nreq, shortStreams atomic.Int64
	errSample := atomic.Value{}
	start := time.Now()
	recStart := start.Add(*warm)
	end := recStart.Add(*d)

	one := func(sched time.Time, l, tf, ch, ct *[]int64) {
		req, _ := http.NewRequestWithContext(context.Background(), "POST", *url, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		for _, h := range hs {
			k, v, _ := strings.Cut(h, ":")
			req.Header.Set(strings.TrimSpace(k), strings.TrimSpace(v))
		}
		t0 := sched
		resp, err := cl.Do(req)
		if err != nil {
			if time.Now().After(recStart) {
				errs.Add(1)
				errSample.CompareAndSwap(nil, err.Error())
			}
			return
		}
		rec := t0.After(recStart)
		if !*stream || resp.StatusCode != 200 {
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || !bytes.Contains(b, []byte("short answer")) {
				if rec {
					errs.Add(1)
					errSample.CompareAndSwap(nil, fmt.Sprintf("%d %v %.200s", resp.StatusCode, err, b))
				}
				return
			}
			if rec {
				*l = append(*l, time.Since(t0).Nanoseconds())
				nreq.Add(1)
			}
			return
		}
		br := bufio.NewReaderSize(resp.Body, 16<<10)
		first := true
		n := 0
		done := false
		for {
			line, err := br.ReadSlice('\n')
			now := time.Now()
			if len(line) > 5 && bytes.HasPrefix(line, []byte("data:")) {
				if first {
					first = false
					if rec {
						*tf = append(*tf, now.Sub(t0).Nanoseconds())
					}
				}
				if i := bytes.IndexByte(line, '@'); i >= 0 {
					if j := bytes.IndexByte(line[i+1:], '@'); j > 0 {
						if ts, e := strconv.ParseInt(string(line[i+1:i+1+j]), 10, 64); e == nil {
							n++
							if rec && n == 1 {
								*ct = append(*ct, now.Sub(t0).Nanoseconds()-int64(*ivus)*1000)
							}
							if rec {
								*ch = append(*ch, now.UnixNano()-ts)
							}
						}
					}
				} else if bytes.Contains(line, []byte("[DONE]")) {
					done = true
				}
			}
			if err != nil {
				break
			}
		}
		resp.Body.Close()
		if rec {
			if n != *nchunk || !done {
				shortStreams.Add(1)
			}
			*l = append(*l, time.Since(t0).Nanoseconds())
			nreq.Add(1)
		}
	}
	var wg sync.WaitGroup
	merge := func(l, tf, ch, ct []int64) {
		mu.Lock()
		lat = append(lat, l...)
		ttfb = append(ttfb, tf...)
		chunk = append(chunk, ch...)
		content = append(content, ct...)
		mu.Unlock()
	}
	if *rate == 0 {
		for i := 0; i < *c; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var l, tf, ch, ct []int64
				for time.Now().Before(end) {
					before := errs.Load()
					one(time.Now(), &l, &tf, &ch, &ct)
					if errs.Load() > before+50 {
						time.Sleep(10 * time.Millisecond)
					}
				}
				merge(l, tf, ch, ct)
			}()
		}
	} else {
		next := time.Now()
		for next.Before(end) {
			if dt := time.Until(next); dt > 0 {
				time.Sleep(dt)
			}
			s := next
			wg.Add(1)
			go func() {
				defer wg.Done()
				var l, tf, ch, ct []int64
				one(s, &l, &tf, &ch, &ct)
				merge(l, tf, ch, ct)
			}()
			next = next.Add(time.Duration(rand.ExpFloat64() / *rate * 1e9))
		}
	}
	wg.Wait()
	for _, v := range [][]int64{lat, ttfb, chunk, content} {
		sort.Slice(v, func(i, j int) bool { return v[i] < v[j] })
	}
	us := func(n int64) float64 { return float64(n/100) / 10 }
	mode := "json"
	if *stream {
		mode = "sse"
	}
	out := map[string]any{"label": *label, "mode": mode, "c": *c, "rate": *rate, "n": nreq.Load(), "err": errs.Load(),
		"rps":    float64(int(float64(nreq.Load())/d.Seconds()*10)) / 10,
		"p50_us": us(q(lat, .5)), "p90_us": us(q(lat, .9)), "p99_us": us(q(lat, .99)), "p999_us": us(q(lat, .999)), "max_us": us(q(lat, 1))}
	if *stream {
		out["ttfb_p50_us"] = us(q(ttfb, .5))
		out["ttfb_p99_us"] = us(q(ttfb, .99))
		out["content_p50_us"] = us(q(content, .5))
		out["content_p99_us"] = us(q(content, .99))
		out["chunk_p50_us"] = us(q(chunk, .5))
		out["chunk_p99_us"] = us(q(chunk, .99))
		out["chunks_s"] = int(float64(len(chunk)) / d.Seconds())
		out["short_streams"] = shortStreams.Load()
		out["ivus"] = *ivus
	}
	if s := errSample.Load(); s != nil {
		out["err_sample"] = s
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
