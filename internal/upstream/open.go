package upstream

import (
	"context"
	"io"
	"net/http"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// Call is one attempt to be made.
type Call struct {
	Endpoint  *hearth.Endpoint
	EngineURL string        // local endpoints: the engine's base URL, without /v1
	EngineKey hearth.Secret // local endpoints: what the engine wants as its API key
	// Transport reaches an engine that is not to be reached like those of this machine; nil = it is one of them.
	Transport http.RoundTripper
	Lease     Lease         // local endpoints: the right to use the engine; nil = it needs none
	Wait      time.Duration // how long the request may wait for its engine over there: what is waited does not count
	// Body is what is sent. It must not be written to before Done is called: an upstream may answer, or fail, before
	// all of it is sent, and the connection's own goroutine may then still be reading it.
	Body []byte
	Done func() // called once when nobody reads Body any more; nil = nobody wants to know
	// Plain makes the body once more without stream_options, for an upstream that refuses them; nil = it has none. done is
	// to that body what Done is to Body. It is not ok if there is no memory for it.
	Plain     func() (body []byte, done func(), ok bool)
	MaxTokens int // the caller's cap on the output, in tokens, 0 = none
	Stream    bool
	Stamp     *dialect.Stamp // what the rewritten answer carries
}

// Opened is an attempt that reached its commit point: exactly one of Stream, Answer and Cut is set. Until here nothing
// was sent to the caller; from here on no other candidate may be tried.
type Opened struct {
	Stream *Stream
	Answer *dialect.Answer // counts to the memory of all answers until Free is called
	Status int
	// Cut: the headers of a non-stream answer were good and its body then broke. It is no answer, and it is too late
	// for another candidate.
	Cut *Failure

	share share
}

// Free says that the Answer is not needed any more. It may be called again, and where there is no Answer.
func (o *Opened) Free() {
	if o != nil {
		o.share.free()
	}
}

// errorWait is how long the text of an error is waited for once its status is known: the next candidate is waiting too.
const errorWait = 2 * time.Second

// Open sends the call and waits for its commit point: the first content-bearing event of a stream, or a complete body.
// A nil Opened comes with the reason why there is no answer; when ctx ended because the caller left, with ctx's error.
// The Stream of an Opened must be copied, or ctx be ended; its Answer must be freed.
func (c *Client) Open(ctx context.Context, call *Call) (*Opened, *Failure, error) {
	t, err := c.targetOf(call)
	if err == nil && !call.Stream && c.answers.full() {
		err = errMemory // before it costs anything
	}
	if err != nil {
		if call.Done != nil {
			call.Done()
		}
		f := judgeSend(err, nil)
		return nil, &f, nil
	}
	op := &opening{client: c, target: t, call: call, began: time.Now()}
	op.w, op.after = c.watchCall(ctx, call, call.longer(call.Endpoint.Provider.Limits.Total))
	if call.Lease != nil {
		op.w.unhook = call.Lease.OnCut(op.w.cut)
	}
	o, f := op.open()
	if o == nil || o.Stream == nil {
		op.w.close()
		t.pool.left()
	}
	if ctx.Err() != nil && (f != nil || o.Cut != nil) {
		return nil, nil, context.Cause(ctx)
	}
	if f != nil {
		f.hide(t.secrets)
	}
	return o, f, nil
}

// opening is a call on its way to its commit point.
type opening struct {
	client  *Client
	target  *target
	call    *Call
	w       *watchdog
	after   *abandoned // nil = the stream ends with its caller
	began   time.Time
	refused bool // the upstream does not know stream_options
}

// open tries the call, and once more without stream_options where it was they that were refused.
func (op *opening) open() (*Opened, *Failure) {
	o, f := op.try(op.call.Body, op.call.Done)
	if !op.refused || op.call.Plain == nil || op.w.ctx.Err() != nil {
		return o, f
	}
	body, done, ok := op.call.Plain()
	if !ok {
		f := judgeSend(errBody, nil)
		return nil, &f
	}
	o, f = op.try(body, done)
	if o != nil {
		op.client.plainFromNowOn(op.call.Endpoint.Index)
	}
	return o, f
}

// try sends a body and judges what comes back.
func (op *opening) try(body []byte, done func()) (*Opened, *Failure) {
	op.arm()
	resp, err := op.target.send(op.w.ctx, body, done)
	if err != nil {
		f := judgeSend(err, cause(op.w.ctx))
		return nil, &f
	}
	readable := decompress(resp)
	switch {
	case resp.StatusCode/100 != 2:
		return nil, op.readFailure(resp, readable)
	case !readable:
		resp.Body.Close()
		return nil, failure(resp.StatusCode, "provider answered in a content encoding that was not asked for")
	case !op.call.Stream:
		return op.readAnswer(resp)
	}
	return op.openStream(resp)
}

// arm starts what is left of the limit for the first token, or for the whole answer.
func (op *opening) arm() {
	d, cause := op.call.Endpoint.Provider.Limits.Answer, errAnswer
	if op.call.Stream {
		d, cause = op.call.Endpoint.Provider.Limits.FirstByte, errFirstByte
	}
	if d > 0 {
		d = max(op.call.longer(d)-time.Since(op.began), time.Nanosecond)
	}
	op.w.arm(d, cause)
}

// failure is a 2xx that holds no answer, for which the endpoint is to blame.
func failure(status int, message string) *Failure {
	return &Failure{Status: status, Blame: hearth.BlameEndpoint, Message: message}
}

func (op *opening) readFailure(resp *http.Response, readable bool) *Failure {
	defer resp.Body.Close()
	op.w.arm(errorWait, errEnough)
	var b []byte
	if readable && resp.StatusCode >= 400 { // what a redirect says is not told, and the body of a 101 is the connection itself
		b, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut error body is still the status's error
	}
	ue := dialect.ReadError(resp.StatusCode, b)
	op.refused = refusesStreamOptions(resp.StatusCode, ue)
	f := judgeStatus(resp.StatusCode, ue, resp.Header, op.call.Endpoint.Local(), time.Now())
	return &f
}
