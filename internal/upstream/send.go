package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// send makes the request. net/http may read the body until the answer's own body is closed, and after: done is called
// when nobody reads it any more.
func (t *target) send(ctx context.Context, b []byte, done func()) (*http.Response, error) {
	body := inMemory
	if done != nil {
		r := &readers{done: done}
		r.count.Store(1)
		defer r.leave()
		body = r.body
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: t.url, Host: t.url.Host, Header: t.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: body(b), ContentLength: int64(len(b)),
		GetBody: func() (io.ReadCloser, error) { return body(b), nil },
	}).WithContext(ctx)
	return t.rt.RoundTrip(req)
}

// inMemory is b as a request body. It is of a type that net/http knows to be in memory: for others it sends the headers
// in a write of their own, in case the body blocks.
func inMemory(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// readers counts who may still read a body: the attempt itself, and each body that net/http was given and has not
// closed. It closes them all, but sometimes only after it has returned.
type readers struct {
	count atomic.Int32
	done  func()
}

func (r *readers) leave() {
	if r.count.Add(-1) == 0 {
		r.done()
	}
}

func (r *readers) body(b []byte) io.ReadCloser {
	r.count.Add(1)
	return &countedBody{rest: bytes.NewReader(b), of: r}
}

// countedBody is a body that net/http may close in one goroutine while it reads it in another: Close waits for such a
// read, and nothing is read after it.
type countedBody struct {
	mu   sync.Mutex
	rest *bytes.Reader
	of   *readers // nil when closed
}

func (c *countedBody) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	return c.rest.Read(p)
}

func (c *countedBody) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != nil {
		c.of.leave()
		c.of = nil
	}
	return nil
}
