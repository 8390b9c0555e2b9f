package relay

import (
	"context"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// engines starts the engines of a scene's slots.
type engines map[string]part

func (g engines) Start(_ context.Context, s *hearth.Slot) (slot.Engine, error) {
	p := g[s.Name]
	if p.broken {
		return nil, &slot.ExitError{Code: 1}
	}
	e := &pipeEngine{url: s.URL, ready: time.Now().Add(p.load), gone: make(chan struct{})}
	if p.made != nil {
		p.made(e)
	}
	return e, nil
}

type pipeEngine struct {
	url   string
	ready time.Time
	once  sync.Once
	gone  chan struct{}
}

func (e *pipeEngine) URL() string             { return e.url }
func (e *pipeEngine) Leave() error            { return nil }
func (e *pipeEngine) APIKey() hearth.Secret   { return "" }
func (e *pipeEngine) Died() <-chan struct{}   { return e.gone }
func (e *pipeEngine) Exited() <-chan struct{} { return e.gone }
func (e *pipeEngine) ExitError() error        { return nil }
func (e *pipeEngine) LogTail() []string       { return nil }
func (e *pipeEngine) Probe(context.Context) (slot.Report, error) {
	return slot.Report{Ready: !time.Now().Before(e.ready)}, nil
}
func (e *pipeEngine) Stop(context.Context, time.Duration) error {
	e.once.Do(func() { close(e.gone) })
	return nil
}
