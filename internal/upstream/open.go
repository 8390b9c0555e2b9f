package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
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
	Body      []byte        // what is sent; must not change until the attempt is over
	Stream    bool
	Stamp     *dialect.Stamp // what the rewritten answer carries
}

// Opened is an attempt that reached its commit point: exactly one of Stream and Answer is set. Until here nothing was
// sent to the caller; from here on no other candidate may be tried.
type Opened struct {
	Stream *Stream
	Answer *dialect.Answer
	Status int
	// Cut: the headers of a non-stream answer were good and its body then broke. It is no answer, and it is too late
	// for another candidate.
	Cut *Failure
}

// Open sends the call and waits for its commit point: the first content-bearing event of a stream, or a complete body.
// A nil Opened comes with the reason why there is no answer; when ctx ended because the caller left, with ctx's error.
func (c *Client) Open(ctx context.Context, call *Call) (*Opened, *Failure, error) {
	w := watch(ctx, call.Endpoint.Provider.Limits.Total)
	o, f := c.open(w, call)
	if o == nil || o.Stream == nil {
		w.close()
	}
	if f != nil && ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	return o, f, nil
}

func (c *Client) open(w *watchdog, call *Call) (*Opened, *Failure) {
	limits := &call.Endpoint.Provider.Limits
	if call.Stream {
		w.arm(limits.FirstByte, errFirstByte)
	} else {
		w.arm(limits.Answer, errAnswer)
	}
	resp, f := c.send(w, call)
	if f != nil {
		return nil, f
	}
	if resp.StatusCode/100 != 2 {
		return nil, readFailure(resp, call)
	}
	if call.Stream {
		return openStream(w, resp, call)
	}
	return readAnswer(w, resp)
}

func (c *Client) send(w *watchdog, call *Call) (*http.Response, *Failure) {
	t, err := c.targetOf(call)
	if err != nil {
		f := judgeSend(err, nil)
		return nil, &f
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: t.url, Host: t.url.Host, Header: t.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: body{bytes.NewReader(call.Body)}, ContentLength: int64(len(call.Body)),
		GetBody: func() (io.ReadCloser, error) { return body{bytes.NewReader(call.Body)}, nil },
	}).WithContext(w.ctx)
	resp, err := t.rt.RoundTrip(req)
	if err != nil {
		f := judgeSend(err, cause(w.ctx))
		return nil, &f
	}
	return resp, nil
}

type body struct{ *bytes.Reader }

func (body) Close() error { return nil }

// cause is why ctx ended, nil while it has not.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

func readFailure(resp *http.Response, call *Call) *Failure {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut error body is still the status's error
	f := judgeStatus(resp.StatusCode, dialect.ReadError(resp.StatusCode, b), resp.Header, call.Endpoint.Local(), time.Now())
	return &f
}

// readAnswer reads a whole non-stream body. A complete body without an answer in it lets the walk go on; a body that
// breaks off does not.
func readAnswer(w *watchdog, resp *http.Response) (*Opened, *Failure) {
	defer resp.Body.Close()
	b, err := readAll(resp.Body, resp.ContentLength)
	if err != nil {
		f := judgeSend(err, cause(w.ctx))
		f.Status = resp.StatusCode
		if !f.TimedOut {
			f.Message = "the answer was cut off"
		}
		if errors.Is(err, errTooLarge) {
			f.Message = errTooLarge.Error()
		}
		return &Opened{Status: resp.StatusCode, Cut: &f}, nil
	}
	a, err := dialect.ReadAnswer(b)
	switch {
	case err != nil:
		return nil, &Failure{Status: resp.StatusCode, Blame: hearth.BlameEndpoint, Message: "provider answered without a JSON answer", Err: err}
	case a.Err != nil && a.Choices == 0:
		f := judgeInBand(a.Err, false, time.Now())
		return nil, &f
	case a.Choices == 0 || !a.Content && a.Finish == "" || a.Finish == "error":
		return nil, &Failure{Status: resp.StatusCode, Blame: hearth.BlameEndpoint, Message: "provider answered without an answer"}
	}
	return &Opened{Answer: a, Status: resp.StatusCode}, nil
}

var errTooLarge = errors.New("the answer is larger than 64 MiB")

func readAll(r io.Reader, length int64) ([]byte, error) {
	if length > maxAnswerBody {
		return nil, errTooLarge
	}
	if length >= 0 {
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
func openStream(w *watchdog, resp *http.Response, call *Call) (*Opened, *Failure) {
	if ct, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); ct == "application/json" {
		return nil, answerInsteadOfStream(resp, call)
	}
	s := &Stream{
		w: w, body: resp.Body, events: sse.NewReader(resp.Body, 0), stamp: call.Stamp,
		idle: call.Endpoint.Provider.Limits.Idle, local: call.Endpoint.Local(), buf: heldBuffer(),
	}
	for {
		step, err := s.next()
		switch {
		case err != nil:
			f := judgeSend(err, cause(w.ctx))
			s.close()
			return nil, &f
		case step == stepContent, step == stepFinish && s.Finish != "error":
			s.FirstAt = time.Now()
			w.arm(s.idle, errIdle)
			return &Opened{Stream: s, Status: resp.StatusCode}, nil
		case step == stepError:
			f := judgeInBand(s.inBand, s.local, time.Now())
			s.close()
			return nil, &f
		case step == stepEnd, step == stepFinish:
			s.close()
			return nil, &Failure{Status: resp.StatusCode, Blame: hearth.BlameEndpoint, Message: "the stream ended before its first token"}
		case step == stepMalformed:
			s.close()
			return nil, &Failure{Status: resp.StatusCode, Blame: hearth.BlameEndpoint, Message: "the stream held an event that is not JSON"}
		case len(s.buf) > maxHeld:
			s.close()
			return nil, &Failure{Status: resp.StatusCode, Blame: hearth.BlameEndpoint, Message: "the stream brought too much before its first token"}
		}
	}
}

// answerInsteadOfStream judges a JSON body that came where a stream was asked for: an error, or nothing usable.
func answerInsteadOfStream(resp *http.Response, call *Call) *Failure {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if a, err := dialect.ReadAnswer(b); err == nil && a.Err != nil {
		f := judgeInBand(a.Err, call.Endpoint.Local(), time.Now())
		return &f
	}
	return &Failure{Status: resp.StatusCode, Blame: hearth.BlameEndpoint, Message: "provider answered with JSON where a stream was asked for"}
}
