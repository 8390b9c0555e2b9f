package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// releaser is an SGLang server that gives the memory of the device back and takes it again. It says to nobody whether it has
// it, and it crashes when it is to take what it has, to give what it has given, to give while it works, or to answer without
// memory. So what it was told is written down, for this gateway and the next one; one of which nothing is written is awake,
// as every server is at first.
type releaser struct {
	*api
	file string // exists while the server is asleep; holds what tells this run of the server from others
}

// releaser makes the orders for an SGLang server. What is known of it belongs to the server, not to the slot.
func (d *Drivers) releaser(a *api) (orders, error) {
	if d.o.Dir == "" {
		return nil, errors.New("preset sglang needs a directory to write down that its server is asleep")
	}
	sum := sha256.Sum256([]byte(a.base))
	return &releaser{a, filepath.Join(d.o.Dir, "sglang-"+hex.EncodeToString(sum[:8])+".asleep")}, nil
}

// run asks the server for what tells this run of it from others: the seed, which is another one at each start unless it
// is set. It fails for a server that could not give its memory back, or would have lost its weights after that.
func (r *releaser) run(ctx context.Context) (string, error) {
	answer, err := r.call(ctx, http.MethodGet, "/server_info", nil, nil)
	if err == nil && answer.status == http.StatusNotFound { // an older one
		answer, err = r.call(ctx, http.MethodGet, "/get_server_info", nil, nil)
	}
	if err != nil {
		return "", err
	}
	var page struct {
		Seed    count `json:"random_seed"`
		Saver   *bool `json:"enable_memory_saver"`
		Weights *bool `json:"enable_weights_cpu_backup"`
	}
	if !answer.ok() || decode(answer.body, &page) != nil {
		return "", answer.fault("GET /server_info")
	}
	if page.Saver != nil && !*page.Saver || page.Weights != nil && !*page.Weights {
		return "", errors.New("the server cannot sleep: start it with --enable-memory-saver and --enable-weights-cpu-backup")
	}
	return strconv.Itoa(int(page.Seed)), nil
}

// asleep says whether the server was told to give its memory back, and has not been started anew since.
func (r *releaser) asleep(ctx context.Context) (bool, error) {
	b, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether the server is asleep: %w", err)
	}
	run, err := r.run(ctx)
	return err == nil && run == string(b), err
}

// wakes takes note that the server is awake, or about to be.
func (r *releaser) wakes() error {
	if err := os.Remove(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that the server is awake: %w", err)
	}
	return nil
}

func (r *releaser) start(ctx context.Context) error { return r.long(ctx, r.resume) }

// resume notes first that the server is awake: one that crashes in waking up is started again by somebody, and is awake.
func (r *releaser) resume(ctx context.Context) error {
	run, err := r.run(ctx)
	if err != nil {
		return notThere(err)
	}
	asleep, err := r.asleep(ctx)
	if err != nil {
		return notThere(err)
	}
	if err := r.wakes(); err != nil {
		return err
	}
	if asleep {
		answer, err := r.call(ctx, http.MethodPost, "/resume_memory_occupation", r.load(struct{}{}), order(r.conf.Actions.Start).Headers)
		if err != nil {
			return notThere(err)
		}
		if !answer.ok() { // it is alive, and has not woken up
			return errors.Join(answer.fault("POST /resume_memory_occupation"), replaceFile(r.file, []byte(run)))
		}
	}
	return r.oneToken(ctx)
}

// stop has the server give its memory back as soon as it works on nothing.
func (r *releaser) stop(ctx context.Context, grace time.Duration, hurry <-chan struct{}) error {
	if err := r.settled(ctx); err != nil {
		return err
	}
	run, err := r.run(ctx)
	if unreachable(err) && ctx.Err() == nil {
		return r.wakes() // nothing runs; it will be awake when it does
	}
	if err != nil {
		return err
	}
	if asleep, err := r.asleep(ctx); err != nil || asleep {
		return err
	}
	if err := r.idle(ctx, grace, hurry); err != nil {
		return err
	}
	if err := replaceFile(r.file, []byte(run)); err != nil {
		return err
	}
	answer, err := r.call(ctx, http.MethodPost, "/release_memory_occupation", struct{}{}, order(r.conf.Actions.Stop).Headers)
	switch {
	case unreachable(err) && ctx.Err() == nil:
		return r.wakes()
	case err == nil && !answer.ok():
		return errors.Join(answer.fault("POST /release_memory_occupation"), r.wakes())
	}
	return err
}

// idle waits until the server works on nothing: only then does it agree to flush its cache, which is lost in sleep anyway.
// After grace, or in a hurry, it is told to give up what it works on.
func (r *releaser) idle(ctx context.Context, grace time.Duration, hurry <-chan struct{}) error {
	end := time.Now().Add(grace)
	return until(ctx, func() (bool, error) {
		answer, err := r.call(ctx, http.MethodPost, "/flush_cache", nil, order(r.conf.Actions.Stop).Headers)
		if err != nil || answer.status != http.StatusBadRequest {
			return err == nil, err // one that has no such order is not at work for all that is known
		}
		if !within(hurry, nil, 0) && time.Now().Before(end) {
			return false, nil
		}
		_, err = r.call(ctx, http.MethodPost, "/abort_request", map[string]any{"rid": "", "abort_all": true}, order(r.conf.Actions.Stop).Headers)
		return false, err
	})
}

func (r *releaser) status(ctx context.Context) (alive, error) {
	_, err := r.call(ctx, http.MethodGet, "/v1/models", nil, nil)
	if unreachable(err) && ctx.Err() == nil {
		return runsNot, nil
	}
	if err != nil {
		return unsure, err
	}
	asleep, err := r.asleep(ctx)
	switch {
	case err != nil:
		return unsure, err
	case asleep:
		return runsNot, nil
	}
	return runs, nil
}
