package driver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// sleeper is a vLLM server in sleep mode: its weights wait in main memory. A request to one that sleeps can crash it, as can
// falling asleep with a request in flight, and one whose waking failed may be wedged: so nothing is taken on trust.
type sleeper struct{ *api }

// start wakes the server, sees that it is awake, and has it generate one token.
func (s *sleeper) start(ctx context.Context) error { return s.long(ctx, s.wake) }

func (s *sleeper) wake(ctx context.Context) error {
	asleep, err := s.asleep(ctx)
	if err != nil {
		return notThere(err)
	}
	if asleep {
		o := order(s.conf.Actions.Start)
		answer, err := s.call(ctx, http.MethodPost, "/wake_up", nil, o.Headers)
		if err != nil {
			return err
		}
		if !answer.ok() {
			return answer.fault("POST /wake_up")
		}
		if asleep, err = s.asleep(ctx); err != nil {
			return err
		}
		if asleep {
			return errors.New("the server says that it has woken up, and still sleeps")
		}
	}
	return s.oneToken(ctx)
}

// asleep asks whether the server sleeps.
func (s *sleeper) asleep(ctx context.Context) (bool, error) {
	answer, err := s.call(ctx, http.MethodGet, "/is_sleeping", nil, nil)
	if err != nil {
		return false, err
	}
	if answer.status == http.StatusNotFound {
		return false, errors.New("the server knows no sleep mode: start it with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1")
	}
	var page struct {
		Sleeping *bool `json:"is_sleeping"`
	}
	if !answer.ok() || decode(answer.body, &page) != nil || page.Sleeping == nil {
		return false, answer.fault("GET /is_sleeping")
	}
	return *page.Sleeping, nil
}

// stop puts the server to sleep when it has nothing to do any more, and sees that it sleeps.
func (s *sleeper) stop(ctx context.Context, grace time.Duration, hurry <-chan struct{}) error {
	if err := s.settled(ctx); err != nil {
		return err
	}
	asleep, err := s.asleep(ctx)
	if unreachable(err) && ctx.Err() == nil {
		return nil // nothing runs
	}
	if err != nil || asleep {
		return err
	}
	s.drained(ctx, grace, hurry)
	answer, err := s.call(ctx, http.MethodPost, "/sleep?level=1", nil, order(s.conf.Actions.Stop).Headers)
	if err != nil {
		return err
	}
	if !answer.ok() {
		return answer.fault("POST /sleep")
	}
	return until(ctx, func() (bool, error) { return s.asleep(ctx) })
}

// drained waits until the server works on nothing, if it says so: others than the gateway may use it. It waits no longer
// than grace, and not in a hurry.
func (s *sleeper) drained(ctx context.Context, grace time.Duration, hurry <-chan struct{}) {
	for end := time.Now().Add(grace); time.Now().Before(end); {
		answer, err := s.call(ctx, http.MethodGet, "/load", nil, nil)
		var page struct {
			Load count `json:"server_load"`
		}
		if err != nil || !answer.ok() || decode(answer.body, &page) != nil || page.Load == 0 {
			return
		}
		select {
		case <-hurry:
			return
		default:
			within(nil, hurry, 100*time.Millisecond)
		}
	}
}

func (s *sleeper) status(ctx context.Context) (alive, error) {
	asleep, err := s.asleep(ctx)
	switch {
	case unreachable(err) && ctx.Err() == nil, err == nil && asleep:
		return runsNot, nil
	case err != nil:
		return unsure, err
	}
	return runs, nil
}

// oneToken has the server generate one token: only that proves that what was asleep works.
func (a *api) oneToken(ctx context.Context) error {
	answer, err := a.call(ctx, http.MethodPost, "/v1/chat/completions", map[string]any{
		"model": a.model, "max_tokens": 1, "messages": []map[string]string{{"role": "user", "content": "."}},
	}, nil)
	if err != nil {
		return err
	}
	var page struct {
		Choices list[struct{}] `json:"choices"`
	}
	if !answer.ok() || decode(answer.body, &page) != nil || len(page.Choices) == 0 {
		return answer.fault("a request for one token")
	}
	return nil
}

// ollamaLoader has an Ollama load a model for good, and unload it.
type ollamaLoader struct {
	*api
	cut bool // a load was given up
}

func (o *ollamaLoader) start(ctx context.Context) error {
	answer, err := o.keep(ctx, -1)
	if err != nil {
		o.cut = ctx.Err() != nil
		return notThere(err)
	}
	if !answer.ok() {
		return answer.fault("loading the model")
	}
	return nil
}

// keep asks for nothing but that the model is kept in memory: -1 for ever, 0 not at all.
func (o *ollamaLoader) keep(ctx context.Context, alive int) (reply, error) {
	var body any = map[string]any{"model": o.model, "keep_alive": alive, "stream": false}
	act := order(o.conf.Actions.Stop)
	if alive != 0 {
		body, act = o.load(body), order(o.conf.Actions.Start)
	}
	return o.call(ctx, http.MethodPost, "/api/generate", body, act.Headers)
}

// stop unloads the model, whether it is listed or not: one that is being loaded is in no list. The server gives up a load
// whose client has left, a little later; it must have been quiet for a while then.
func (o *ollamaLoader) stop(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	answer, err := o.keep(ctx, 0)
	switch {
	case unreachable(err) && ctx.Err() == nil:
		return nil
	case err != nil:
		return err
	case !answer.ok() && answer.status != http.StatusNotFound:
		return answer.fault("unloading the model")
	}
	quiet := time.Now()
	return until(ctx, func() (bool, error) {
		state, err := o.status(ctx)
		if state == runs {
			quiet = time.Now()
			_, err = o.keep(ctx, 0) // it was still being loaded when it was asked
		}
		return state == runsNot && (!o.cut || time.Since(quiet) >= loadSettle), err
	})
}

func (o *ollamaLoader) status(ctx context.Context) (alive, error) {
	m := offer{names: []string{o.model}}
	err := asker{o.probe, o.base, o.conf.APIKey}.running(ctx, &m)
	switch {
	case unreachable(err) && ctx.Err() == nil:
		return runsNot, nil
	case err != nil:
		return unsure, err
	case m.state == unsaid:
		return unsure, errors.New("GET /api/ps has no answer that can be read")
	case m.state == loaded:
		return runs, nil
	}
	return runsNot, nil
}

// named finds the model in an asker's list, nil if it is not there.
func (a *api) named(ctx context.Context, kind string) (*offer, error) {
	models, ok, err := asker{a.probe, a.base, a.conf.APIKey}.list(ctx, kind)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("the server does not list its models")
	}
	for i := range models {
		for _, name := range models[i].names {
			if sameName(name, a.model) {
				return &models[i], nil
			}
		}
	}
	return nil, nil
}

// stateOf is whether a server has the model in memory.
func (a *api) stateOf(ctx context.Context, kind string) (alive, error) {
	m, err := a.named(ctx, kind)
	switch {
	case unreachable(err) && ctx.Err() == nil, err == nil && m == nil:
		return runsNot, nil
	case err != nil:
		return unsure, err
	case m.state == loaded:
		return runs, nil
	}
	return runsNot, nil
}

// absent is the error for a model that a server does not have.
func (a *api) absent() error { return fmt.Errorf("the server has no model %q", a.model) }
