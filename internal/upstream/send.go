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
	if p, ok := t.rt.(*pool); ok && p.lines != nil && t.head.first != "" {
		return p.lines.send(ctx, &t.head, b, done)
	}
	again := func() (io.ReadCloser, error) { return inMemory(b), nil }
	if done != nil {
		r := &readers{b: b, done: done}
		r.count.Store(1)
		defer r.leave()
		again = r.body
	}
	size := int64(len(b))
	body, err := again()
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: t.url, Host: t.url.Host, Header: t.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: body, ContentLength: size, GetBody: again,
	}).WithContext(ctx)
	return t.rt.RoundTrip(req)
}

// inMemory is b as a request body. It is of a type that net/http knows to be in memory: for others it sends the headers
// in a write of their own, in case the body blocks.
func inMemory(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// readers counts who may still read a body: the attempt itself, and each body that net/http was given and has not
// closed. It closes them all, but sometimes only after it has returned. When all have left, the bytes are let go: the
// request that net/http keeps as long as its answer lasts leads to nothing any more.
type readers struct {
	count atomic.Int32
	b     []byte
	done  func()
}

func (r *readers) leave() {
	if r.count.Add(-1) == 0 {
		r.done()
		r.b, r.done = nil, nil
	}
}

// body is called while the attempt itself is counted, so that there is something to read.
func (r *readers) body() (io.ReadCloser, error) {
	r.count.Add(1)
	return &countedBody{rest: bytes.NewReader(r.b), of: r}, nil
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
		c.of, c.rest = nil, nil
	}
	return nil
}
