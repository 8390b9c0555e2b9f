package engine

import (
	"net/http"
	"slices"
)

// Faults that only an engine has.
const (
	Loading Fault = "loading"  // 503 as while it loads
	Parser  Fault = "parser"   // 500 for what is the model's output, or the request's fault
	NoCount Fault = "no_count" // it does not count prompts
)

var engineFaults = []Fault{None, F500, F400, Refuse, Hang, Cut, Loading, Parser, NoCount}

// EngineControl is what can be switched while an engine runs.
type EngineControl struct {
	Context int   `json:"context"` // window in tokens of one request
	Fault   Fault `json:"fault"`
	Count   int   `json:"count"` // the fault is for so many chat requests, 0 = until changed
}

func (c EngineControl) check() *failure {
	switch {
	case !slices.Contains(engineFaults, c.Fault):
		return invalid("unknown fault %q: there are %s", c.Fault, listed(engineFaults))
	case c.Context < 1, c.Count < 0:
		return invalid("a number is out of range")
	}
	return nil
}

// failure is the error with which a chat request is answered, nil = with none.
func (c EngineControl) failure() *failure {
	switch c.Fault {
	case F500:
		return &failure{Code: http.StatusInternalServerError, Message: "Compute error.", Type: "server_error"}
	case F400:
		return invalid("Failed to parse the request")
	case Loading:
		return &failure{Code: http.StatusServiceUnavailable, Message: "Loading model", Type: "unavailable_error"}
	case Parser:
		return &failure{Code: http.StatusInternalServerError, Type: "server_error",
			Message: "The model produced output that does not match the expected peg-native format"}
	}
	return nil
}

// Control returns what is switched now. Count is what is left of it.
func (e *Engine) Control() EngineControl {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.control
}

// Set switches the engine's behaviour; no fault and a window of 0 stand for none and for the window it was made with.
// It fails, changing nothing, for what does not exist.
func (e *Engine) Set(c EngineControl) error {
	if f := e.set(c); f != nil {
		return f
	}
	return nil
}

func (e *Engine) set(c EngineControl) *failure {
	if c.Fault == "" {
		c.Fault = None
	}
	if c.Context == 0 {
		c.Context = e.conf.Context
	}
	if f := c.check(); f != nil {
		return f
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.control = c
	return nil
}

// take is the behaviour for one chat request; a fault for a number of requests is used up by it.
func (e *Engine) take() EngineControl {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.control
	if c.Fault != None && c.Count > 0 {
		if e.control.Count--; e.control.Count == 0 {
			e.control.Fault = None
		}
	}
	return c
}

func (e *Engine) showControl(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, e.Control())
}

// setControl changes what the body names: the window stays if it names none, the fault does not.
func (e *Engine) setControl(w http.ResponseWriter, r *http.Request) {
	c := EngineControl{Context: e.Control().Context}
	f := readControl(r, &c)
	if f == nil {
		f = e.set(c)
	}
	if f != nil {
		writeError(w, f)
		return
	}
	e.showControl(w, r)
}
