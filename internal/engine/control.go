package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/shopspring/decimal"
)

// Fault is what a provider does to requests.
type Fault string

// The faults of a provider.
const (
	None       Fault = "none"
	F429       Fault = "429" // with Retry-After
	F500       Fault = "500"
	F503       Fault = "503"
	F401       Fault = "401"
	F400       Fault = "400"
	Refuse     Fault = "refuse"      // the connection is reset before an answer
	Hang       Fault = "hang"        // nothing is ever answered
	Cut        Fault = "cut"         // the connection is reset in the middle of the answer
	ErrorEvent Fault = "error_event" // a stream turns into an error; a whole answer holds only one
	Empty      Fault = "empty"       // 200 with nothing in it
	Slow       Fault = "slow"        // ten times the latency, a tenth of the speed
	Garbage    Fault = "garbage"     // 200 with what is not JSON
	Overflow   Fault = "overflow"    // 400: the prompt does not fit the window
	Moderated  Fault = "moderated"   // 403: the prompt is refused for what it says
)

var faults = []Fault{None, F429, F500, F503, F401, F400, Refuse, Hang, Cut, ErrorEvent, Empty, Slow, Garbage, Overflow, Moderated}

// Control is what can be switched while a provider runs.
type Control struct {
	Fault           Fault   `json:"fault"`
	RetryAfter      int     `json:"retry_after"`       // of F429, seconds; 0 = no such header
	LatencyMS       int     `json:"latency_ms"`        // until the first token
	TokensPerSecond float64 `json:"tokens_per_second"` // after it, 0 = no limit
	Count           int     `json:"count"`             // the fault is for so many requests, 0 = until changed
	After           int     `json:"after"`             // of Cut and ErrorEvent: tokens sent before; -1 = half of them

	// What the provider asks for now, per 1M tokens, told in its list of models and as usage.cost.
	PromptPrice     decimal.Decimal `json:"prompt_price"`
	CompletionPrice decimal.Decimal `json:"completion_price"`
}

// maxWaitMS bounds the latency that may be asked for: one hour.
const maxWaitMS = 3_600_000

func (c Control) check() error {
	switch {
	case !slices.Contains(faults, c.Fault):
		return fmt.Errorf("unknown fault %q: there are %s", c.Fault, listed(faults))
	case c.RetryAfter < 0, c.Count < 0, c.TokensPerSecond < 0, c.LatencyMS < 0, c.LatencyMS > maxWaitMS, c.After < -1,
		c.PromptPrice.IsNegative(), c.CompletionPrice.IsNegative():
		return fmt.Errorf("a number is out of range")
	}
	return nil
}

// listed names faults in a message.
func listed(faults []Fault) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// Set switches the provider's behaviour. It fails, changing nothing, for what does not exist.
func (p *Provider) Set(c Control) error {
	if c.Fault == "" {
		c.Fault = None
	}
	if err := c.check(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.control = c
	return nil
}

// Control returns what is switched now. Count is what is left of it.
func (p *Provider) Control() Control {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.control
}

// take is the behaviour for one request; a fault for a number of requests is used up by it.
func (p *Provider) take(body []byte) Control {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Requests++
	p.seen.lastBody = body
	c := p.control
	if c.Fault != None && c.Count > 0 {
		if p.control.Count--; p.control.Count == 0 {
			p.control.Fault = None
		}
	}
	return c
}

// cost is what an answer of so many tokens costs under this control.
func (c Control) cost(prompt, completion int) decimal.Decimal {
	return decimal.NewFromInt(int64(prompt)).Mul(c.PromptPrice).Add(decimal.NewFromInt(int64(completion)).Mul(c.CompletionPrice)).Shift(-6)
}

// tempo is the speed of an answer under this control.
func (c Control) tempo() tempo {
	t := tempo{time.Duration(c.LatencyMS) * time.Millisecond, c.TokensPerSecond}
	if c.Fault == Slow {
		t.first = max(10*t.first, time.Second)
		t.perSec = max(t.perSec/10, 1)
	}
	return t
}

// showControl answers with the behaviour and with what was seen.
func (p *Provider) showControl(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Name string `json:"name"`
		Control
		Seen `json:"seen"`
	}{p.conf.Name, p.Control(), p.Seen()})
}

// setControl changes what the body names. A fault comes with its own count and after, or with their defaults.
func (p *Provider) setControl(w http.ResponseWriter, r *http.Request) {
	old := p.Control()
	c := old
	c.Fault, c.Count, c.After = "", 0, -1
	if f := readControl(r, &c); f != nil {
		writeError(w, f)
		return
	}
	if c.Fault == "" && c.Count == 0 && c.After == -1 {
		c.Fault, c.Count, c.After = old.Fault, old.Count, old.After
	}
	if err := p.Set(c); err != nil {
		writeError(w, invalid("%v", err))
		return
	}
	p.showControl(w, r)
}

func readControl(r *http.Request, c any) *failure {
	err := json.UnmarshalRead(http.MaxBytesReader(nil, r.Body, 4096), c, json.RejectUnknownMembers(true))
	if err != nil {
		return invalid("the body is not the expected JSON: %v", err)
	}
	return nil
}
