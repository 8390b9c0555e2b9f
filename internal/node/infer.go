package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

const (
	smallBody   = 64 << 10 // a body of so many bytes is held, so that it can be sent again
	maxGenerate = 200      // bytes of an id
	chunk       = 32 << 10

	longestVote = time.Second // who votes is not waiting
)

var chunks = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// errEngine says that the engine did not answer.
var errEngine = errors.New("the engine does not answer")

// infer waits for the slot and has its engine answer.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, at *hearth.Slot, route string) {
	if r.ContentLength > s.o.MaxBody {
		refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than this machine takes")
		return
	}
	if model := r.Header.Get(headModel); model != "" && model != at.Model.ID {
		refuseSlot(w, 0, &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: time.Minute, Message: "the machine serves another model in slot " + at.Name})
		return
	}
	asked := time.Now()
	ask := s.ask(r, at)
	ask.Brief = counts[route]
	lease, err := s.acquire(r.Context(), ask)
	waited := time.Since(asked)
	var refusal *slot.Refusal
	switch {
	case errors.As(err, &refusal):
		refuseSlot(w, waited, refusal)
		return
	case err != nil: // the gateway left
		panic(http.ErrAbortHandler)
	}
	s.enter()
	defer s.leave()
	defer lease.Release()
	x := &exchange{s: s, w: w, r: r, rc: http.NewResponseController(w), lease: lease, ask: &ask, waited: waited}
	x.body.ReadCloser, x.body.rc, x.body.stall = http.MaxBytesReader(nil, r.Body, s.o.MaxBody), x.rc, s.o.Stall
	defer x.body.leave()
	x.run(route)
}

// vote asks for the slot in the place of a request that went elsewhere, within its budget, and gives what it gets back.
func (s *Server) vote(w http.ResponseWriter, r *http.Request, at *hearth.Slot) {
	ask := s.ask(r, at)
	if model := r.Header.Get(headModel); model != "" && model != at.Model.ID {
		refuse(w, http.StatusConflict, "the machine serves another model in slot "+at.Name)
		return
	}
	ask.Also, ask.Budget = nil, min(ask.Budget, longestVote)
	if lease, err := s.o.Fleet.Acquire(r.Context(), ask); err == nil { // it has come up meanwhile
		lease.Release()
	}
	answerJSON(w, struct{}{})
}

// refuseSlot answers with a slot word.
func refuseSlot(w http.ResponseWriter, waited time.Duration, r *slot.Refusal) {
	h := w.Header()
	h.Set(headStatus, string(r.Word))
	h.Set(headWaited, strconv.FormatInt(waited.Milliseconds(), 10))
	h.Set("Retry-After", strconv.FormatInt(int64(max((r.RetryAfter+time.Second-1)/time.Second, 1)), 10))
	refuse(w, http.StatusServiceUnavailable, r.Message)
}

// bounded is an id from the wire.
func bounded(id string) string { return strings.ToValidUTF8(id[:min(len(id), maxGenerate)], "") }

// exchange is one request in an engine.
type exchange struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	body   upload
	lease  *slot.Lease
	ask    *slot.Ask // what it was given for
	waited time.Duration
	sent   time.Time // when it had a connection to the engine, the first of them; zero = it has had none
}

// run sends the request to the engine and its answer to the gateway. An answer that breaks off is broken off here as well.
func (x *exchange) run(route string) {
	ctx, cancel := context.WithCancel(x.r.Context()) // the gateway leaves, or the engine is to go: it need not go on
	defer cancel()
	defer context.AfterFunc(x.s.cutAll, cancel)()
	defer x.lease.OnCut(cancel)()
	resp, err := x.send(ctx, route)
	var large *http.MaxBytesError
	switch {
	case x.r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case errors.As(err, &large):
		refuse(x.w, http.StatusRequestEntityTooLarge, "the body is larger than this machine takes")
		return
	case ctx.Err() != nil: // of our own doing
		refuseSlot(x.w, x.waited, &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: lostRetry, Message: "the engine was stopped"})
		return
	case err != nil && x.body.broken():
		refuseSlot(x.w, x.waited, &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: time.Second, Message: "the request did not get through to the engine"})
		return
	case err != nil:
		x.failed(err)
		return
	}
	defer resp.Body.Close()
	x.pass(ctx, resp)
}

// failed answers that the engine gave no answer.
func (x *exchange) failed(err error) {
	broke := time.Now()
	news := nextNews
	if !x.ask.HasNext {
		news = min(max(x.ask.Budget-x.waited, nextNews), deathNews)
	}
	if !x.died(news) {
		x.s.o.Log.Warn("an engine does not answer", "slot", x.lease.Slot.Name, "error", err)
		refuse(x.w, http.StatusBadGateway, errEngine.Error())
		return
	}
	if x.sent.IsZero() || broke.Sub(x.sent) < lastGasp {
		x.w.Header().Set(headUnsent, "1")
	}
	refuseSlot(x.w, x.waited+time.Since(broke), &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: time.Second, Message: ended})
}

// ended is what is said of an engine that has ended with requests in it. Its slot leaves it alone for a while in its own
// way: a gateway need not count it against the endpoint.
const ended = "the engine has ended"

// deathNews is how long after a failure of its connection an engine's end may be noticed: its sockets are closed first, and
// what it had in a GPU's memory takes its time.
const deathNews = 3 * time.Second

// nextNews is how long that is waited for while another candidate of the gateway could be serving the request.
const nextNews = time.Second

// lastGasp is how long the address of an engine that has ended may still take connections, which break: its sockets are
// closed one by one. An engine that ends for a request takes longer.
const lastGasp = 100 * time.Millisecond

// died says whether the engine's connection failed because the engine is gone. The news are waited for, if there will be any.
func (x *exchange) died(news time.Duration) bool {
	if !x.lease.Mortal {
		news = 0
	}
	t := time.NewTimer(news)
	defer t.Stop()
	select {
	case <-x.lease.Gone:
		return true
	default:
	}
	select {
	case <-x.lease.Gone:
		return true
	case <-t.C:
	case <-x.r.Context().Done():
	}
	return false
}

// send sends the request to the engine. A small body is read before, so that it can be sent again if the engine had closed a
// connection that was kept; a large one is read as it is sent, on a connection of its own.
func (x *exchange) send(ctx context.Context, route string) (*http.Response, error) {
	body := &x.body
	engines := x.s.once
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if x.sent.IsZero() {
			x.sent = time.Now()
		}
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.lease.URL+route, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = x.r.ContentLength
	if n := x.r.ContentLength; n >= 0 && n <= smallBody {
		b := make([]byte, n)
		if _, err := io.ReadFull(body, b); err != nil {
			return nil, err
		}
		again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
		req.Body, _ = again()
		req.GetBody, engines = again, x.s.o.Engines
		req.Header["X-Idempotency-Key"] = nil // not sent: lets net/http send the request again
		body.end()
	}
	for _, name := range [...]string{"Content-Type", "Accept"} {
		if v := x.r.Header[name]; len(v) == 1 {
			req.Header[name] = v
		}
	}
	req.Header.Set("User-Agent", "hearth-node")
	if key := x.lease.APIKey; key != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	return engines.RoundTrip(req)
}

// upload is a request's body as it comes from the gateway. One that stops coming is an error. An engine that answers before it
// has read the whole body leaves net/http reading it, even after the handler has returned: the connection is no longer its own then.
type upload struct {
	io.ReadCloser
	stall time.Duration
	mu    sync.Mutex
	rc    *http.ResponseController // nil once the handler has returned
	broke bool                     // it could not be read
	shut  bool                     // nobody wants the rest of it
}

func (u *upload) Read(p []byte) (int, error) {
	u.deadline(time.Now().Add(u.stall)) // a connection without deadlines ends by its pings
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		u.end()
	} else if err != nil {
		u.mu.Lock()
		u.broke = u.broke || !u.shut
		u.mu.Unlock()
	}
	return n, err
}

// Close is called when the engine's connection has failed, or has answered already.
func (u *upload) Close() error {
	u.mu.Lock()
	u.shut = true
	u.mu.Unlock()
	return u.ReadCloser.Close()
}

// broken says whether it was the body that failed.
func (u *upload) broken() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.broke
}

// end takes the deadline off: it is the connection's, or the answer's.
func (u *upload) end() { u.deadline(time.Time{}) }

func (u *upload) deadline(t time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rc != nil {
		_ = u.rc.SetReadDeadline(t)
	}
}

// leave is called when the handler returns.
func (u *upload) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rc = nil
}

// passed are the headers of an engine's answer that the gateway gets. Its length is not said: an answer that breaks off has
// something to say behind it.
var passed = [...]string{"Content-Type", "Content-Encoding", "Retry-After"}

// pass passes the engine's answer on as it comes.
func (x *exchange) pass(ctx context.Context, resp *http.Response) {
	h := x.w.Header()
	for _, name := range passed {
		if v := resp.Header[name]; len(v) > 0 {
			h[name] = v[:1]
		}
	}
	h.Set(headWaited, strconv.FormatInt(x.waited.Milliseconds(), 10))
	h.Set("Trailer", headStatus)
	x.w.WriteHeader(resp.StatusCode)
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	for {
		n, err := resp.Body.Read(*buf)
		if errors.Is(err, io.EOF) { // the engine is done, however long the rest takes
			x.lease.Release()
		}
		if n > 0 && !x.write((*buf)[:n]) {
			panic(http.ErrAbortHandler)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil && (ctx.Err() != nil || x.died(deathNews)) { // if it was the gateway that left, nobody hears of it
			h.Set(headStatus, string(hearth.SkipFailed))
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// write sends a piece of the answer on at once.
func (x *exchange) write(b []byte) bool {
	_ = x.rc.SetWriteDeadline(time.Now().Add(x.s.o.Stall)) // likewise
	if _, err := x.w.Write(b); err != nil {
		return false
	}
	return x.rc.Flush() == nil
}
