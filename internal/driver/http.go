package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"myip.co.kr/hearth"
)

// api speaks to the server of a slot.
type api struct {
	conf  *hearth.Slot
	base  string
	model string // as the server calls it
	probe *prober
	wrote tail // what was asked and answered, for the operator

	mu    sync.Mutex
	order chan struct{} // closed when a long order has been carried out; nil = there was none
}

// http makes the orders of a slot with driver http.
func (d *Drivers) http(s *hearth.Slot, dial dialer) (orders, error) {
	a := &api{conf: s, base: trimURL(s.URL), model: engineModel(s), probe: newProber(dial)}
	switch s.Preset {
	case "":
		return &requests{a}, nil
	case vllm:
		return &sleeper{api: a}, nil
	case sglang:
		return d.releaser(a)
	case ollama:
		return &ollamaLoader{api: a}, nil
	case llamaServer:
		return &router{a}, nil
	case lmStudio:
		return &studioLoader{a}, nil
	case tabbyAPI:
		return &tabbyLoader{a}, nil
	}
	return nil, fmt.Errorf("unknown preset %q", s.Preset)
}

func (a *api) watch(context.Context) error { return nil } // nothing tells when a model is gone
func (a *api) logTail() []string           { return a.wrote.last() }
func (a *api) close()                      { a.probe.close() }

// reply is a server's answer.
type reply struct {
	status int
	body   []byte
}

func (r reply) ok() bool { return r.status >= 200 && r.status < 300 }

// fault is what a server that has not done as asked says of it.
func (r reply) fault(what string) error {
	if says := r.says(); says != "" {
		return fmt.Errorf("%s is answered with status %d: %s", what, r.status, says)
	}
	return fmt.Errorf("%s is answered with status %d", what, r.status)
}

// says is the message of an error, in any of the shapes that engines give it; "" = there is none.
func (r reply) says() string {
	var e struct {
		Error   jsontext.Value `json:"error"`
		Message text           `json:"message"`
		Detail  text           `json:"detail"`
	}
	if decode(r.body, &e) != nil {
		return clean(string(r.body), 200)
	}
	said := string(e.Message + e.Detail)
	var inner struct {
		Message text `json:"message"`
	}
	var plain text
	if decode(e.Error, &inner) == nil {
		said += string(inner.Message)
	} else if decode(e.Error, &plain) == nil {
		said += string(plain)
	}
	return clean(said, 300)
}

// call sends a request to the server; body is JSON, nil = none. An error is of the network.
func (a *api) call(ctx context.Context, method, path string, body any, headers map[string]hearth.Secret) (reply, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return reply{}, fmt.Errorf("write the request: %w", err)
		}
	}
	return a.send(ctx, method, a.base+path, b, headers, true)
}

// send sends a request. own says that it goes to the slot's own server, which may have its key.
func (a *api) send(ctx context.Context, method, address string, body []byte, headers map[string]hearth.Secret, own bool) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return reply{}, errors.New("the address of the request is none")
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if own && a.conf.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+a.conf.APIKey.Reveal())
	}
	for name, v := range headers {
		req.Header.Set(name, strings.ReplaceAll(v.Reveal(), "${model}", a.model))
	}
	status, answer, err := a.probe.do(req)
	var refused *refusedError
	switch {
	case errors.As(err, &refused), errors.Is(err, errTooLong): // the status has answered
	case err != nil:
		if e := (*url.Error)(nil); errors.As(err, &e) { // without the address, which may hold a secret
			err = e.Err
		}
		a.note(method, req.URL.Path, fmt.Sprint(err))
		return reply{}, fmt.Errorf("%s %s: %w", method, req.URL.Path, err)
	}
	r := reply{status, answer}
	if method != http.MethodGet {
		a.note(method, req.URL.Path, fmt.Sprintf("%d %s", status, r.says()))
	}
	return r, nil
}

func (a *api) note(method, path, result string) {
	_, _ = fmt.Fprintf(&a.wrote, "%s %s: %s\n", method, clean(path, 100), result) // it never fails
}

// long carries out an order that the server goes on with even when nobody waits for its answer. When ctx ends, long returns
// and the order goes on: settled waits for it.
func (a *api) long(ctx context.Context, order func(context.Context) error) error {
	limit := startLimit
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	done := make(chan struct{})
	a.mu.Lock()
	a.order = done
	a.mu.Unlock()
	var err error
	go func() {
		defer close(done)
		alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		err = order(alone)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settled waits until a long order has been carried out: until then, what the server says of itself is not the last word.
func (a *api) settled(ctx context.Context) error {
	a.mu.Lock()
	order := a.order
	a.mu.Unlock()
	if order == nil {
		return nil
	}
	select {
	case <-order:
		return nil
	case <-ctx.Done():
		return errors.New("the server has not finished what it was ordered before")
	}
}

// order is the action that the operator wrote for a preset, which may have other headers and another body.
func order(a *hearth.Action) hearth.Action {
	if a == nil {
		return hearth.Action{}
	}
	return *a
}

// load is the body with which a preset loads the model: own, unless the operator wrote another.
func (a *api) load(own any) any {
	if body := order(a.conf.Actions.Start).Body; body != "" {
		return jsontext.Value(a.filled(body))
	}
	return own
}

// filled is a text of the operator with the model in it, as a part of a JSON string.
func (a *api) filled(body string) string {
	quoted, err := jsontext.AppendQuote(nil, a.model)
	if err != nil {
		return body
	}
	return strings.ReplaceAll(body, "${model}", string(quoted[1:len(quoted)-1]))
}

// requests are the operator's own requests.
type requests struct{ *api }

func (r *requests) start(ctx context.Context) error {
	yes, why, err := r.do(ctx, r.conf.Actions.Start, http.MethodPost)
	if err == nil && !yes {
		err = errors.New(why)
	}
	return err
}

func (r *requests) stop(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	yes, why, err := r.do(ctx, r.conf.Actions.Stop, http.MethodPost)
	if err == nil && !yes {
		err = errors.New(why)
	}
	if err != nil {
		if state, bad := r.status(ctx); state == runsNot && bad == nil {
			return nil // there is nothing that it could have stopped
		}
		return err
	}
	if r.conf.Actions.Status == nil {
		return nil
	}
	return until(ctx, func() (bool, error) {
		state, err := r.status(ctx)
		return state == runsNot, err
	})
}

func (r *requests) status(ctx context.Context) (alive, error) {
	if r.conf.Actions.Status == nil {
		return unsure, nil
	}
	limited, cancel := context.WithTimeout(ctx, limitOf(r.conf.Actions.Status, statusLimit))
	defer cancel()
	yes, _, err := r.do(limited, r.conf.Actions.Status, http.MethodGet)
	switch {
	case unreachable(err) && limited.Err() == nil:
		return runsNot, nil // the server itself does not run
	case err != nil:
		return unsure, err
	case yes:
		return runs, nil
	}
	return runsNot, nil
}

// do carries out an action; why says what was wrong with the answer if it is no yes.
func (r *requests) do(ctx context.Context, act *hearth.Action, method string) (yes bool, why string, err error) {
	if act.Method != "" {
		method = act.Method
	}
	address, own := r.address(act.URL)
	body := act.Body
	if kind := act.Headers["Content-Type"]; kind == "" || strings.Contains(string(kind), "json") {
		body = r.filled(body)
	} else {
		body = strings.ReplaceAll(body, "${model}", r.model)
	}
	answer, err := r.send(ctx, method, address, []byte(body), act.Headers, own)
	if err != nil {
		return false, "", err
	}
	if act.Status == nil && !answer.ok() || act.Status != nil && !slices.Contains(act.Status, answer.status) {
		return false, answer.fault(method + " " + clean(act.URL, 100)).Error(), nil
	}
	if act.Match != "" && !matches(answer.body, act.Match) {
		return false, fmt.Sprintf("the answer to %s %s does not have %s", method, clean(act.URL, 100), act.Match), nil
	}
	return true, "", nil
}

// address is where a request goes; own says whether that is the slot's own server.
func (r *requests) address(text string) (address string, own bool) {
	path, query, asks := strings.Cut(text, "?")
	path = strings.ReplaceAll(path, "${model}", url.PathEscape(r.model))
	if asks {
		path += "?" + strings.ReplaceAll(query, "${model}", url.QueryEscape(r.model))
	}
	if strings.HasPrefix(path, "/") {
		return r.base + path, true
	}
	return path, strings.HasPrefix(path, r.base+"/")
}

// matches says whether a JSON document has a value at a path: "data.0.state=running" is the member state of the first
// element of data. Texts and other plain values are compared as they are written.
func matches(body []byte, match string) bool {
	path, want, _ := strings.Cut(match, "=")
	v := jsontext.Value(body)
	for step := range strings.SplitSeq(path, ".") {
		switch v.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if decode(v, &members) != nil {
				return false
			}
			v = members[step]
		case '[':
			var items []jsontext.Value
			n, err := strconv.Atoi(step)
			if err != nil || decode(v, &items) != nil || n < 0 || n >= len(items) {
				return false
			}
			v = items[n]
		default:
			return false
		}
	}
	switch v.Kind() {
	case '"':
		b, err := jsontext.AppendUnquote(nil, v)
		return err == nil && string(b) == want
	case 't', 'f', 'n', '0':
		return string(v) == want
	}
	return false
}

// notThere is the error of a server that must run, and does not.
func notThere(err error) error {
	if unreachable(err) {
		return fmt.Errorf("the server does not run: %w", err)
	}
	return err
}
