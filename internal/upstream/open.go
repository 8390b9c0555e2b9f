package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/sse"
)

// Call is one attempt to be made.
type Call struct {
	Endpoint  *hearth.Endpoint
	EngineURL string        // local endpoints: the engine's base URL, without /v1
	EngineKey hearth.Secret // local endpoints: what the engine wants as its API key
	// Body is what is sent. It must not be written to before Done is called: an upstream may answer, or fail, before
	// all of it is sent, and the connection's own goroutine may then still be reading it.
	Body []byte
	Done func() // called once when nobody reads Body any more; nil = nobody wants to know
	// Plain makes the body once more without stream_options, for an upstream that refuses them; nil = it has none. The
	// bytes are the attempt's own from then on.
	Plain     func() []byte
	MaxTokens int // the caller's cap on the output, in tokens, 0 = none
	Stream    bool
	Stamp     *dialect.Stamp // what the rewritten answer carries
}

// Opened is an attempt that reached its commit point: exactly one of Stream, Answer and Cut is set. Until here nothing
// was sent to the caller; from here on no other candidate may be tried.
type Opened struct {
	Stream *Stream
	Answer *dialect.Answer
	Status int
	// Cut: the headers of a non-stream answer were good and its body then broke. It is no answer, and it is too late
	// for another candidate.
	Cut *Failure
}

// errorWait is how long the text of an error is waited for once its status is known: the next candidate is waiting too.
const errorWait = 2 * time.Second

// Open sends the call and waits for its commit point: the first content-bearing event of a stream, or a complete body.
// A nil Opened comes with the reason why there is no answer; when ctx ended because the caller left, with ctx's error.
// The Stream of an Opened must be copied, or ctx be ended.
func (c *Client) Open(ctx context.Context, call *Call) (*Opened, *Failure, error) {
	t, err := c.targetOf(call)
	if err != nil {
		f := judgeSend(err, nil)
		return nil, &f, nil
	}
	w := watch(ctx, call.Endpoint.Provider.Limits.Total)
	o, f := open(w, t, call)
	if o == nil || o.Stream == nil {
		w.close()
	}
	if ctx.Err() != nil && (f != nil || o.Cut != nil) {
		return nil, nil, context.Cause(ctx)
	}
	if f != nil {
		f.hide(t.secrets)
	}
	return o, f, nil
}

func open(w *watchdog, t *target, call *Call) (*Opened, *Failure) {
	limits := &call.Endpoint.Provider.Limits
	if call.Stream {
		w.arm(limits.FirstByte, errFirstByte)
	} else {
		w.arm(limits.Answer, errAnswer)
	}
	resp, err := t.send(w.ctx, call)
	if err != nil {
		f := judgeSend(err, cause(w.ctx))
		return nil, &f
	}
	switch ct := resp.Header.Get("Content-Type"); {
	case resp.StatusCode/100 != 2:
		return nil, readFailure(w, resp, call)
	case encoded(resp.Header):
		resp.Body.Close()
		return nil, failure(resp.StatusCode, "provider answered in a content encoding that was not asked for")
	case !call.Stream:
		return readAnswer(w, resp, call)
	case isJSON(ct):
		return nil, answerInsteadOfStream(w, resp, call)
	}
	return openStream(w, resp, call, t.secrets)
}

func encoded(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e != "" && !strings.EqualFold(e, "identity")
}

func isJSON(contentType string) bool {
	ct, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(ct), "application/json")
}

// failure is a 2xx that holds no answer, for which the endpoint is to blame.
func failure(status int, message string) *Failure {
	return &Failure{Status: status, Blame: hearth.BlameEndpoint, Message: message}
}

func readFailure(w *watchdog, resp *http.Response, call *Call) *Failure {
	defer resp.Body.Close()
	w.arm(errorWait, errEnough)
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut error body is still the status's error
	if encoded(resp.Header) {
		b = nil
	}
	f := judgeStatus(resp.StatusCode, dialect.ReadError(resp.StatusCode, b), resp.Header, call.Endpoint.Local(), time.Now())
	return &f
}

// readAnswer reads a whole non-stream body. A complete body without an answer in it lets the walk go on; a body that
// breaks off does not.
func readAnswer(w *watchdog, resp *http.Response, call *Call) (*Opened, *Failure) {
	defer resp.Body.Close()
	b, err := readAll(resp.Body, resp.ContentLength)
	if err != nil {
		f := judgeRead(err, cause(w.ctx), "the answer was cut off")
		f.Status = resp.StatusCode
		return &Opened{Status: resp.StatusCode, Cut: &f}, nil
	}
	a, err := dialect.ReadAnswer(b)
	switch {
	case err != nil:
		f := failure(resp.StatusCode, "provider answered without a JSON answer")
		f.Err = err
		return nil, f
	case a.Err != nil && (a.Choices == 0 || a.Finish == "" || a.Finish == "error"):
		f := judgeInBand(a.Err, call.Endpoint.Local(), time.Now())
		return nil, &f
	case a.Choices == 0 && saysError(b):
		f := judgeInBand(dialect.ReadError(http.StatusBadGateway, b), call.Endpoint.Local(), time.Now())
		return nil, &f
	case a.Choices == 0 || !a.Content && a.Finish == "":
		return nil, failure(resp.StatusCode, "provider answered without an answer")
	}
	return &Opened{Answer: a, Status: resp.StatusCode}, nil
}

var errTooLarge = errors.New("the answer is larger than 64 MiB")

// readAll reads a body of the given length, -1 = unknown. A length that is only promised takes no memory: beyond the
// first MiB room is made for what has come.
func readAll(r io.Reader, length int64) ([]byte, error) {
	const trusted = 1 << 20
	switch {
	case length > maxAnswerBody:
		return nil, errTooLarge
	case length >= 0 && length <= trusted:
		b := make([]byte, length)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxAnswerBody+1))
	if err == nil && len(b) > maxAnswerBody {
		err = errTooLarge
	}
	return b, err
}

// openStream reads events until the first that bears content. What came before it (a role, an empty delta) is held.
func openStream(w *watchdog, resp *http.Response, call *Call, secrets []string) (*Opened, *Failure) {
	s := &Stream{
		w: w, body: timedBody{ReadCloser: resp.Body, w: w, idle: call.Endpoint.Provider.Limits.Idle},
		stamp: call.Stamp, local: call.Endpoint.Local(), secrets: secrets, own: buffers.Get().(*[]byte),
	}
	s.buf = (*s.own)[:0]
	s.events = sse.NewReader(&s.body, 0)
	committed, f := false, (*Failure)(nil)
	for !committed && f == nil {
		committed, f = s.approach(resp.StatusCode)
	}
	if f != nil {
		s.close()
		return nil, f
	}
	s.FirstAt = time.Now()
	return &Opened{Stream: s, Status: resp.StatusCode}, nil
}

// approach reads one event on the way to the commit point.
func (s *Stream) approach(status int) (committed bool, f *Failure) {
	step, err := s.next()
	switch {
	case err != nil:
		f := judgeSend(err, cause(s.w.ctx))
		return false, &f
	case step == stepContent || step == stepFinish:
		if !s.w.pause() { // the limit passed together with the token; nothing was sent yet
			f := judgeSend(context.DeadlineExceeded, s.w.cause)
			return false, &f
		}
		s.pace(step)
		return true, nil
	case step == stepError:
		f := judgeInBand(s.inBand, s.local, time.Now())
		return false, &f
	case step == stepEnd:
		return false, failure(status, "the stream ended before its first token")
	case step == stepMalformed:
		return false, failure(status, "the stream held an event that is not JSON")
	case len(s.buf) > maxHeld:
		return false, failure(status, "the stream brought too much before its first token")
	}
	return false, nil
}

// answerInsteadOfStream judges a JSON body that came where a stream was asked for: an error, or nothing usable.
func answerInsteadOfStream(w *watchdog, resp *http.Response, call *Call) *Failure {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		f := judgeSend(err, cause(w.ctx))
		return &f
	}
	a, err := dialect.ReadAnswer(b)
	switch {
	case err == nil && a.Err != nil:
		f := judgeInBand(a.Err, call.Endpoint.Local(), time.Now())
		return &f
	case err == nil && a.Choices == 0 && saysError(b):
		f := judgeInBand(dialect.ReadError(http.StatusBadGateway, b), call.Endpoint.Local(), time.Now())
		return &f
	}
	return failure(resp.StatusCode, "provider answered with JSON where a stream was asked for")
}

// saysError says whether a JSON object without choices is an error in vLLM's older form, which has its message on the
// top level.
func saysError(data []byte) bool {
	i := bytes.Index(data, []byte(`"object"`))
	return i >= 0 && bytes.HasPrefix(bytes.TrimLeft(data[i+len(`"object"`):], ": \t\r\n"), []byte(`"error"`))
}
