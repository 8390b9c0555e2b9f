package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"myip.co.kr/hearth/test/engine/llm"
)

var (
	errGone     = errors.New("the client left")
	errStopping = errors.New("the server is stopping")
)

// sink takes an answer as it is made.
type sink interface {
	begin() error // the first token is there
	delta(delta) error
	ping() error // nothing happened for a while
}

// answer is one answer in the making.
type answer struct {
	srv    *Server
	q      *request
	seq    *llm.Sequence
	prompt []llm.Token

	cached, produced int
	finish           string
	start, first     time.Time
}

// run makes the answer. It fails with errGone and errStopping at the next token after the client left or the
// server was told to stop.
func (a *answer) run(ctx context.Context, out sink) error {
	a.start = time.Now()
	var err error
	if a.cached, err = a.seq.Begin(a.prompt, a.q.sampling()); err != nil {
		return err
	}
	text := newScript(a.q.tools(), out.delta)
	stop := stopper{stops: a.q.stops()}
	for a.finish == "" {
		if err := a.pause(ctx, out); err != nil {
			return err
		}
		piece, end, err := a.seq.Next()
		if err != nil {
			return err
		}
		if a.produced++; a.produced == 1 {
			a.first = time.Now()
			if err := out.begin(); err != nil {
				return err
			}
		}
		piece, found := stop.feed(piece)
		switch limit := a.q.limit(); {
		case end, found:
			a.finish = "stop"
		case limit >= 0 && a.produced >= limit, a.seq.Full():
			a.finish = "length"
		}
		if a.finish != "" && !found {
			piece += stop.held
		}
		if err := text.feed(piece); err != nil {
			return err
		}
	}
	if err := text.end(a.finish == "length"); err != nil {
		return err
	}
	if text.calls > 0 && a.finish == "stop" {
		a.finish = "tool_calls"
	}
	return nil
}

// pause is what lies between two tokens.
func (a *answer) pause(ctx context.Context, out sink) error {
	var due <-chan time.Time
	if d := a.srv.conf.TokenDelay; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	var ping *time.Ticker
	for {
		switch {
		case ctx.Err() != nil:
			return errGone
		case a.srv.stopping.Err() != nil:
			return errStopping
		case due == nil:
			return nil
		}
		if ping == nil {
			ping = time.NewTicker(a.srv.conf.Ping)
			defer ping.Stop()
		}
		select {
		case <-due:
			due = nil
		case <-ctx.Done():
		case <-a.srv.stopping.Done():
		case <-ping.C:
			if err := out.ping(); err != nil {
				return err
			}
		}
	}
}

// stopper finds the texts that end an answer; what could become one is held back.
type stopper struct {
	stops []string
	held  string
}

func (s *stopper) feed(piece string) (out string, found bool) {
	s.held += piece
	first, keep := -1, len(s.held)
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
		keep = min(keep, partial(s.held, stop))
	}
	if first >= 0 {
		return s.held[:first], true
	}
	out, s.held = s.held[:keep], s.held[keep:]
	return out, false
}

// usage counts an answer's tokens.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (a *answer) usage() *usage {
	u := &usage{Prompt: len(a.prompt), Completion: a.produced, Total: len(a.prompt) + a.produced}
	u.Details.Cached = a.cached
	return u
}

// timings are llama-server's own account of an answer.
type timings struct {
	CacheN          int     `json:"cache_n"`
	PromptN         int     `json:"prompt_n"`
	PromptMS        float64 `json:"prompt_ms"`
	PromptPerSec    float64 `json:"prompt_per_second"`
	PredictedN      int     `json:"predicted_n"`
	PredictedMS     float64 `json:"predicted_ms"`
	PredictedPerSec float64 `json:"predicted_per_second"`
}

func (a *answer) timings() *timings {
	t := &timings{CacheN: a.cached, PromptN: len(a.prompt) - a.cached, PredictedN: a.produced}
	first, rest := a.first.Sub(a.start), time.Since(a.first)
	t.PromptMS, t.PredictedMS = ms(first), ms(rest)
	t.PromptPerSec, t.PredictedPerSec = float64(t.PromptN)/first.Seconds(), float64(a.produced)/rest.Seconds()
	return t
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
