package driver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// loadSettle is how long a router may say after an order to load that the model is not being loaded, and how long an Ollama
// may take to give up a load.
const loadSettle = 2 * time.Second

// router is a llama-server that runs one child process per model. It takes orders at once and carries them out later.
type router struct{ *api }

func (r *router) start(ctx context.Context) error {
	answer, err := r.call(ctx, http.MethodPost, "/models/load", r.load(map[string]string{"model": r.model}), order(r.conf.Actions.Start).Headers)
	if err != nil {
		return notThere(err)
	}
	if !answer.ok() && !strings.Contains(answer.says(), "already running") {
		return answer.fault("POST /models/load")
	}
	begin, loading := time.Now(), false
	return until(ctx, func() (bool, error) {
		m, err := r.named(ctx, llamaServer)
		switch {
		case err != nil:
			return false, err
		case m == nil:
			return false, r.absent()
		case m.state == loaded:
			return true, nil
		case m.failed && (loading || m.idle):
			return false, errors.New("the server could not load the model")
		case m.idle && (loading || time.Since(begin) > loadSettle):
			return false, errors.New("the server has stopped loading the model")
		}
		loading = loading || !m.idle
		return false, nil
	})
}

func (r *router) stop(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	asked := time.Time{}
	return until(ctx, func() (bool, error) {
		m, err := r.named(ctx, llamaServer)
		if unreachable(err) && ctx.Err() == nil {
			return true, nil // its children end with it
		}
		if err != nil {
			return false, err
		}
		if m == nil || m.idle && m.state != loaded {
			return true, nil
		}
		if time.Since(asked) < time.Second {
			return false, nil
		}
		asked = time.Now()
		answer, err := r.call(ctx, http.MethodPost, "/models/unload", map[string]string{"model": r.model}, order(r.conf.Actions.Stop).Headers)
		if err == nil && !answer.ok() && !strings.Contains(answer.says(), "not running") {
			err = answer.fault("POST /models/unload")
		}
		return false, err
	})
}

func (r *router) status(ctx context.Context) (alive, error) {
	m, err := r.named(ctx, llamaServer)
	if err == nil && m != nil && !m.idle {
		return runs, nil // one that is being loaded takes memory as well
	}
	return r.stateOf(ctx, llamaServer)
}

// studioLoader has an LM Studio load and unload a model. It would load a second instance of one that is loaded.
type studioLoader struct{ *api }

func (s *studioLoader) start(ctx context.Context) error { return s.long(ctx, s.loads) }

func (s *studioLoader) loads(ctx context.Context) error {
	m, err := s.named(ctx, lmStudio)
	switch {
	case err != nil:
		return notThere(err)
	case m == nil:
		return s.absent()
	case m.state == loaded:
		return nil
	}
	answer, err := s.call(ctx, http.MethodPost, "/api/v1/models/load", s.load(map[string]string{"model": m.names[0]}), order(s.conf.Actions.Start).Headers)
	if err == nil && !answer.ok() {
		err = answer.fault("POST /api/v1/models/load")
	}
	return err
}

// stop unloads every instance of the model.
func (s *studioLoader) stop(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	if err := s.settled(ctx); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		m, err := s.named(ctx, lmStudio)
		if unreachable(err) && ctx.Err() == nil {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if m == nil || m.state != loaded {
			return true, nil
		}
		for _, id := range m.instances {
			answer, err := s.call(ctx, http.MethodPost, "/api/v1/models/unload", map[string]string{"instance_id": id}, order(s.conf.Actions.Stop).Headers)
			if err != nil {
				return false, err
			}
			if !answer.ok() && answer.status != http.StatusNotFound {
				return false, answer.fault("POST /api/v1/models/unload")
			}
		}
		return false, nil
	})
}

func (s *studioLoader) status(ctx context.Context) (alive, error) { return s.stateOf(ctx, lmStudio) }

// tabbyLoader has a TabbyAPI load and unload its one model. The key must be the admin's.
type tabbyLoader struct{ *api }

// start loads the model. The answer is a stream of its progress; the load goes on without a reader.
func (t *tabbyLoader) start(ctx context.Context) error { return t.long(ctx, t.loads) }

func (t *tabbyLoader) loads(ctx context.Context) error {
	if m, err := t.named(ctx, tabbyAPI); err != nil {
		return notThere(err)
	} else if m != nil {
		return nil
	}
	answer, err := t.call(ctx, http.MethodPost, "/v1/model/load", t.load(map[string]string{"model_name": t.model}), order(t.conf.Actions.Start).Headers)
	if err != nil {
		return err
	}
	if !answer.ok() {
		return answer.fault("POST /v1/model/load")
	}
	m, err := t.named(ctx, tabbyAPI)
	if err == nil && m == nil {
		err = fmt.Errorf("the server has not loaded %q: %s", t.model, lastEvent(answer.body))
	}
	return err
}

// lastEvent is the last thing that a stream of events said.
func lastEvent(body []byte) string {
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	last := strings.TrimSpace(strings.TrimPrefix(lines[len(lines)-1], "data:"))
	if says := (reply{body: []byte(last)}).says(); says != "" {
		return says
	}
	return clean(last, 200)
}

// stop unloads the model, if it is this one: what others have loaded is not ours to end.
func (t *tabbyLoader) stop(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	if err := t.settled(ctx); err != nil { // a model that is being loaded is not in the list
		return err
	}
	return until(ctx, func() (bool, error) {
		state, err := t.status(ctx)
		if err != nil || state == runsNot {
			return err == nil, err
		}
		answer, err := t.call(ctx, http.MethodPost, "/v1/model/unload", nil, order(t.conf.Actions.Stop).Headers)
		if err == nil && !answer.ok() && answer.status != http.StatusServiceUnavailable && answer.status != http.StatusBadRequest {
			err = answer.fault("POST /v1/model/unload")
		}
		return false, err
	})
}

func (t *tabbyLoader) status(ctx context.Context) (alive, error) { return t.stateOf(ctx, tabbyAPI) }
