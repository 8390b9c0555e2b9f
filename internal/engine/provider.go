package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// ProviderConfig is what an external provider is like when nothing is wrong.
type ProviderConfig struct {
	Name            string        // its answers name it
	Models          []string      // models it serves, none = any
	Latency         time.Duration // until the first token
	TokensPerSecond float64       // after it, 0 = as fast as can be
	APIKey          hearth.Secret // asked for, "" = none

	PromptPrice, CompletionPrice decimal.Decimal // per 1M tokens, at the start
}

// Provider is one simulated external provider, an http.Handler: OpenAI's routes under /v1 and /api/v1, and
// /control to switch its behaviour.
type Provider struct {
	conf ProviderConfig
	mux  *http.ServeMux

	mu      sync.Mutex
	control Control
	seen    Seen
}

// Seen is what a provider has seen of chat requests, those it failed included.
type Seen struct {
	Requests  int `json:"requests"`
	Inflight  int `json:"inflight"`
	Cancelled int `json:"cancelled"` // left by the client before the end
	lastBody  []byte
}

// NewProvider makes a provider without faults.
func NewProvider(c ProviderConfig) *Provider {
	p := &Provider{conf: c, mux: http.NewServeMux()}
	p.control = Control{Fault: None, LatencyMS: int(c.Latency.Milliseconds()), TokensPerSecond: c.TokensPerSecond, After: -1,
		PromptPrice: c.PromptPrice, CompletionPrice: c.CompletionPrice}
	for _, base := range []string{"/v1", "/api/v1"} {
		p.mux.HandleFunc("POST "+base+"/chat/completions", p.chat)
		p.mux.HandleFunc("GET "+base+"/models", p.models)
	}
	p.mux.HandleFunc("GET /control", p.showControl)
	p.mux.HandleFunc("POST /control", p.setControl)
	return p
}

// ServeHTTP answers one request.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Seen returns what was seen up to now.
func (p *Provider) Seen() Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// LastBody is the body of the last chat request, byte for byte; nil = there was none.
func (p *Provider) LastBody() []byte { return p.Seen().lastBody }

func (p *Provider) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID     string `json:"id"`
		Object string `json:"object"`
		Owner  string `json:"owned_by"`
		Price  struct {
			Prompt     string `json:"prompt"`
			Completion string `json:"completion"`
		} `json:"pricing"` // per token, as OpenRouter lists it
	}
	list, ctl := []model{}, p.Control()
	for _, id := range p.conf.Models {
		m := model{ID: id, Object: "model", Owner: p.conf.Name}
		m.Price.Prompt, m.Price.Completion = ctl.PromptPrice.Shift(-6).String(), ctl.CompletionPrice.Shift(-6).String()
		list = append(list, m)
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// providerError is an error answer as OpenRouter and OpenAI-compatible providers give it.
type providerError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
}

func (p *Provider) fail(w http.ResponseWriter, status int, kind, format string, args ...any) {
	writeJSON(w, status, map[string]providerError{"error": {status, fmt.Sprintf(format, args...), kind}})
}

// chat answers a chat request, or does to it what is switched.
func (p *Provider) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		p.fail(w, http.StatusRequestEntityTooLarge, "invalid_request_error", "the body cannot be read")
		return
	}
	c := p.take(body)
	p.count(func(s *Seen) { s.Inflight++ })
	defer p.count(func(s *Seen) { s.Inflight-- })
	if p.broken(w, r, c) {
		return
	}
	if !authorised(r, p.conf.APIKey) {
		p.fail(w, http.StatusUnauthorized, "authentication_error", "No auth credentials found")
		return
	}
	q := new(question)
	f := decodeJSON(body, q)
	if f == nil {
		f = q.check()
	}
	switch {
	case f != nil:
		p.fail(w, f.Code, f.Type, "%s", f.Message)
	case len(p.conf.Models) > 0 && !slices.Contains(p.conf.Models, q.Model):
		p.fail(w, http.StatusNotFound, "invalid_request_error", "%q is not a valid model ID", q.Model)
	default:
		p.answer(w, r, q, c)
	}
}

func (p *Provider) count(f func(*Seen)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.seen)
}

// broken plays the faults that come before any answer, and says whether it did.
func (p *Provider) broken(w http.ResponseWriter, r *http.Request, c Control) bool {
	switch c.Fault {
	case F429:
		if c.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(c.RetryAfter))
		}
		p.fail(w, http.StatusTooManyRequests, "rate_limit_error", "Rate limit exceeded")
	case F500:
		p.fail(w, http.StatusInternalServerError, "server_error", "The server had an error while processing your request")
	case F503:
		p.fail(w, http.StatusServiceUnavailable, "overloaded_error", "The engine is currently overloaded")
	case F401:
		p.fail(w, http.StatusUnauthorized, "authentication_error", "User not found.")
	case F400:
		p.fail(w, http.StatusBadRequest, "invalid_request_error", "Provider returned error")
	case Overflow:
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{
			"message": "This model's maximum context length is 8192 tokens. Please reduce the length of the messages.",
			"type":    "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
		}})
	case Moderated:
		writeJSON(w, http.StatusForbidden, map[string]any{"error": map[string]any{
			"code": http.StatusForbidden, "message": "The request was refused by moderation",
			"metadata": map[string]any{"reasons": []string{"harassment"}, "flagged_input": "…"},
		}})
	case Refuse:
		reset(w)
	case Hang:
		<-r.Context().Done()
		p.count(func(s *Seen) { s.Cancelled++ })
	default:
		return false
	}
	return true
}

// reset closes the request's connection so that the client sees a reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a test's recorder: the server ends the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error means that it is closed already
	}
	_ = conn.Close()
}

// answer sends an answer, whole or broken.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, q *question, ctl Control) {
	c := newCompletion(w, q, q.Model, introduce(q, q.Model, p.conf.Name), 1<<20, ctl.tempo())
	c.doc.ID = "gen-" + c.doc.ID
	c.doc.Provider = p.conf.Name
	c.cost = ctl.cost
	part := len(c.tokens) / 2
	if ctl.After >= 0 {
		part = min(ctl.After, len(c.tokens))
	}
	var err error
	switch ctl.Fault {
	case Cut:
		err = c.cut(r.Context(), part)
	case ErrorEvent:
		err = c.errorEvent(r.Context(), part)
	case Empty:
		err = c.empty(r.Context())
	case Garbage:
		err = c.garbage(r.Context())
	default:
		err = c.write(r.Context())
	}
	if err != nil {
		p.count(func(s *Seen) { s.Cancelled++ })
	}
}

// cut resets the connection after n tokens.
func (c *completion) cut(ctx context.Context, n int) error {
	if c.q.Stream {
		if err := c.begin(ctx); err != nil {
			return err
		}
		if err := c.content(ctx, n); err != nil {
			return err
		}
	} else {
		c.w.Header().Set("Content-Type", "application/json")
		if err := c.raw(`{"id":"` + c.doc.ID + `","object":"chat.completion","choices":[{"index":0,"mess`); err != nil {
			return err
		}
	}
	reset(c.w)
	return nil
}

// errorEvent lets the answer turn into an error after n tokens.
func (c *completion) errorEvent(ctx context.Context, n int) error {
	e := providerError{http.StatusBadGateway, "Provider disconnected", "server_error"}
	if !c.q.Stream {
		writeJSON(c.w, http.StatusOK, map[string]providerError{"error": e})
		return nil
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.content(ctx, n); err != nil {
		return err
	}
	finish, d := "error", c.doc
	d.Choices = []choice{{Delta: &delta{Content: new(string)}, Finish: &finish}}
	return c.event(struct {
		document
		Error providerError `json:"error"`
	}{d, e})
}

// empty answers with success and nothing else.
func (c *completion) empty(ctx context.Context) error {
	if !c.tempo.until(ctx, c.start, 0) {
		return ctx.Err()
	}
	if c.q.Stream {
		c.w.Header().Set("Content-Type", "text/event-stream")
		return c.raw("data: [DONE]\n\n")
	}
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// garbage answers with success and what is not JSON.
func (c *completion) garbage(ctx context.Context) error {
	if !c.tempo.until(ctx, c.start, 0) {
		return ctx.Err()
	}
	const page = "<html><body><h1>It works!</h1></body></html>"
	if c.q.Stream {
		c.w.Header().Set("Content-Type", "text/event-stream")
		return c.raw("data: {\"id\":\"" + c.doc.ID + "\",\"choices\":[{\"ind\n\ndata: " + page + "\n\n")
	}
	return c.raw(page)
}
