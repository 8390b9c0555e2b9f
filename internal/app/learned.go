package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/store"
)

const (
	// learnedEvery is how often what was learned of endpoints is kept, if there is news: that much a crash forgets.
	learnedEvery = 5 * time.Second
	// learnedVersion is that of the type learned. It changes when an older program would misread what is kept.
	learnedVersion = 1
	// learnedMost bounds what is read: more than any catalog comes to.
	learnedMost = 64 << 20
)

// learned is what outlives the program of the endpoints: what the router goes by, and who is out.
type learned struct {
	Routing routing.State `json:"routing"`
	Out     []health.Out  `json:"out,omitzero"`
}

// recall gives a snapshot that has served nobody yet what an earlier gateway of the data directory has learned. It is worth
// no failed start: what cannot be read is learned anew.
func (a *App) recall(ctx context.Context, s *snapshot) {
	version, state, err := a.store.Learned(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return
	}
	var known learned
	switch {
	case err != nil:
	case version != learnedVersion:
		err = fmt.Errorf("it was kept by another version of the program, %d", version)
	case len(state) > learnedMost:
		err = fmt.Errorf("it has %d bytes", len(state))
	default:
		err = json.Unmarshal(state, &known)
	}
	if err != nil {
		a.log.Warn("what was learned of endpoints cannot be read and is learned anew", "err", err)
		return
	}
	now := time.Now()
	s.router.Restore(known.Routing, now)
	s.health.Restore(s.catalog, known.Out, now)
}

// keeper keeps what is learned of endpoints.
type keeper struct {
	app    *App
	mark   uint64
	out    []byte // who was out
	failed bool   // the last time
}

// keep writes down what was learned, if there is news. That a disk is full hurts nobody: it is said once.
func (k *keeper) keep(ctx context.Context) {
	s, now := k.app.now.Load(), time.Now()
	gone := s.health.State(s.catalog, now)
	out, err := json.Marshal(gone)
	mark := s.router.Mark()
	if err == nil && mark == k.mark && bytes.Equal(out, k.out) {
		return
	}
	var state []byte
	if err == nil {
		state, err = json.Marshal(learned{s.router.State(now), gone})
	}
	if err == nil {
		err = k.app.store.SaveLearned(ctx, learnedVersion, state)
	}
	if err == nil {
		k.mark, k.out = mark, out
	}
	if failed := err != nil; failed != k.failed {
		k.failed = failed
		if failed {
			k.app.log.Warn("what is learned of endpoints cannot be kept for the next start; it is tried again", "err", err)
		} else {
			k.app.log.Info("what is learned of endpoints is kept again")
		}
	}
}

// learn keeps what is learned of endpoints, every now and then and before the database is closed.
func (a *App) learn(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	stop, done := make(chan struct{}), make(chan struct{})
	k := &keeper{app: a, mark: a.now.Load().router.Mark()}
	k.out, _ = json.Marshal(a.now.Load().health.State(a.Catalog(), time.Now()))
	go func() {
		defer close(done)
		t := time.NewTicker(learnedEvery)
		defer t.Stop()
		for {
			select {
			case <-stop:
				k.keep(ctx)
				return
			case <-t.C:
				k.keep(ctx)
			}
		}
	}()
	a.push(func(context.Context) error {
		close(stop)
		<-done
		return nil
	})
}
