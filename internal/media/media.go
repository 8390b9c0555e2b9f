// Package media downloads what a request names by a web address, so that an engine of the house gets data and never
// an address it would follow itself. It reaches public addresses only, whatever the address says, resolves to or
// redirects to, and is bounded in size, time and memory.
package media

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

const (
	maxBytes     = 20 << 20 // of one download
	maxTotal     = 64 << 20 // of all downloads at once
	maxAtOnce    = 16
	timeLimit    = 10 * time.Second // of a download, the wait for its turn included
	maxURL       = 8192             // bytes of an address
	maxRedirects = 3
	maxHeaders   = 64 << 10
)

// Options of a Fetcher. The zero value is what a gateway needs.
type Options struct {
	Agent    string        // User-Agent, "" = "hearth"
	MaxBytes int64         // of one download, 0 = 20 MiB
	MaxTotal int64         // of what all downloads hold at once, 0 = 64 MiB
	Timeout  time.Duration // of one download, 0 = 10 s

	// Permit says which addresses may be connected to; nil allows public ones that are not in a network of this machine's
	// own. It is called after names are resolved, for every connection. Tests set it.
	Permit   func(netip.AddrPort) bool
	Resolver *net.Resolver  // nil = the system's
	Roots    *x509.CertPool // nil = the system's
}

// Fetcher downloads media. Its methods may be called from many goroutines. Close is not needed: it keeps no connection.
type Fetcher struct {
	client   *http.Client
	agent    string
	maxBytes int64
	maxTotal int64
	timeout  time.Duration
	turns    chan struct{}
	held     atomic.Int64 // bytes, for maxTotal
}

// New makes a Fetcher.
func New(o Options) *Fetcher {
	f := &Fetcher{agent: o.Agent, maxBytes: o.MaxBytes, maxTotal: o.MaxTotal, timeout: o.Timeout, turns: make(chan struct{}, maxAtOnce)}
	if f.agent == "" {
		f.agent = "hearth"
	}
	if f.maxBytes == 0 {
		f.maxBytes = maxBytes
	}
	if f.maxTotal == 0 {
		f.maxTotal = maxTotal
	}
	if f.timeout == 0 {
		f.timeout = timeLimit
	}
	f.client = &http.Client{Transport: transport(o), CheckRedirect: redirect}
	return f
}

// Fetch downloads what an http or https address names and returns it as a data URL, whose type is one of image/*, audio/*
// or video/*. The error is a *hearth.Error with Param "messages", fit for the caller: of type invalid_request, or overloaded
// when too much is being downloaded. If ctx ends first, it is ctx's.
func (f *Fetcher) Fetch(ctx context.Context, address string) (string, error) {
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	data, err := f.fetch(limited, u)
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return data, err
}

func (f *Fetcher) fetch(ctx context.Context, u *url.URL) (string, error) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return "", busy()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", refusal(u, nil, "the address cannot be asked for")
	}
	req.Header.Set("User-Agent", f.agent)
	req.Header.Set("Accept", "image/*, audio/*, video/*")
	resp, err := f.client.Do(req)
	if err != nil {
		return "", explain(u, err)
	}
	defer resp.Body.Close()
	if err := f.acceptable(u, resp); err != nil {
		return "", err
	}
	return f.read(u, resp)
}

// acceptable looks at an answer before its body is read.
func (f *Fetcher) acceptable(u *url.URL, resp *http.Response) error {
	switch encoding := resp.Header.Get("Content-Encoding"); {
	case resp.StatusCode != http.StatusOK:
		return refusal(u, nil, "its server answered with status %d", resp.StatusCode)
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return refusal(u, nil, "its server sent it in a compressed form that was not asked for")
	case resp.ContentLength > f.maxBytes:
		return f.tooLarge(u)
	}
	return nil
}

// read turns the body into a data URL as it comes: the media itself is never held beside it.
func (f *Fetcher) read(u *url.URL, resp *http.Response) (string, error) {
	body := &counted{r: resp.Body, f: f}
	defer body.release()
	if err := body.reserve(max(0, resp.ContentLength)); err != nil {
		return "", busy()
	}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(body, head)
	if head = head[:n]; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", f.broken(u, err)
	}
	if n == 0 {
		return "", refusal(u, nil, "its server sent nothing")
	}
	kind := mediaType(resp.Header.Get("Content-Type"), head)
	if kind == "" {
		return "", refusal(u, nil, "what its server sent is no image, sound or film that can be recognised")
	}
	var b strings.Builder
	if size := resp.ContentLength; size > 0 {
		b.Grow(len("data:;base64,") + len(kind) + base64.StdEncoding.EncodedLen(int(size)))
	}
	b.WriteString("data:" + kind + ";base64,")
	enc := base64.NewEncoder(base64.StdEncoding, &b)
	_, _ = enc.Write(head) // a Builder takes everything
	if _, err := io.Copy(enc, body); err != nil {
		return "", f.broken(u, err)
	}
	_ = enc.Close() // likewise
	return b.String(), nil
}

var (
	errTooLarge = errors.New("the answer is larger than allowed")
	errBusy     = errors.New("all downloads together hold too much")
)

// counted bounds one download and all of them together.
type counted struct {
	r        io.Reader
	f        *Fetcher
	read     int64
	reserved int64 // at least read
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += int64(n)
	if c.read > c.f.maxBytes {
		return 0, errTooLarge
	}
	if more := c.read - c.reserved; more > 0 {
		if err := c.reserve(more); err != nil {
			return 0, err
		}
	}
	return n, err
}

func (c *counted) reserve(n int64) error {
	c.reserved += n
	if c.f.held.Add(n) > c.f.maxTotal {
		return errBusy
	}
	return nil
}

func (c *counted) release() { c.f.held.Add(-c.reserved) }

// parse reads an address of the request.
func parse(address string) (*url.URL, error) {
	if len(address) > maxURL {
		return nil, hearth.Invalid("messages", "An address of media is longer than %d bytes: send the media as a data: URL.", maxURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, hearth.Invalid("messages", "An address of media cannot be read: write http:// or https:// and a host, or send the media as a data: URL.")
	}
	if why := forbidden(u); why != "" {
		return nil, refusal(u, nil, "%s", why)
	}
	return u, nil
}

// forbidden says why an address may not be asked for, whoever names it.
func forbidden(u *url.URL) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "only http and https addresses are fetched"
	case u.User != nil:
		return "its address holds a user name or password, which is not sent"
	}
	return ""
}

// redirect decides on every redirect. Where it leads is checked once more when the connection is made.
func redirect(next *http.Request, before []*http.Request) error {
	next.Header.Del("Referer") // addresses of media can be secrets
	switch {
	case len(before) > maxRedirects:
		return &redirectError{"its server redirects too often"}
	case forbidden(next.URL) != "":
		return &redirectError{"its server redirects to an address that is not fetched"}
	case before[len(before)-1].URL.Scheme == "https" && next.URL.Scheme != "https":
		return &redirectError{"its server redirects from https to http"}
	}
	return nil
}

type redirectError struct{ why string }

func (e *redirectError) Error() string { return e.why }

// explain says what went wrong before there was an answer. Whether an address is forbidden, does not exist or does not
// answer looks the same to the caller: else addresses of the house could be found out.
func explain(u *url.URL, err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // without the address, which can be a secret
	}
	if r, ok := errors.AsType[*redirectError](err); ok {
		return refusal(u, nil, "%s", r.why)
	}
	return refusal(u, err, "it cannot be reached at a public address within the time there is")
}

func (f *Fetcher) broken(u *url.URL, err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return f.tooLarge(u)
	case errors.Is(err, errBusy):
		return busy()
	case errors.Is(err, context.DeadlineExceeded):
		return refusal(u, err, "it did not arrive within %s", f.timeout)
	}
	return refusal(u, err, "its server broke off")
}

func (f *Fetcher) tooLarge(u *url.URL) error {
	return refusal(u, nil, "it has more than %d bytes", f.maxBytes)
}

func busy() error {
	return &hearth.Error{Type: hearth.ErrOverloaded, Param: "messages", RetryAfter: time.Second,
		Message: "Too much media is being downloaded at once: try again, or send it as a data: URL."}
}

// refusal is the error for one address. It shows the host that the caller wrote and nothing else of it; err is for the log.
func refusal(u *url.URL, err error, why string, args ...any) error {
	e := hearth.Invalid("messages", "The media at %.100q could not be fetched: ", u.Hostname())
	e.Message += hearth.Invalid("", why, args...).Message + ". Send it as a data: URL, or name another address."
	if err != nil {
		e.Err = fmt.Errorf("%.300s", err.Error()) // it can hold the whole of a long name
	}
	return e
}

// mediaType is the type of media in the form it has in a data URL, "" if it is none or not what it claims to be.
func mediaType(header string, head []byte) string {
	claimed, _, err := mime.ParseMediaType(header)
	if err != nil {
		claimed = ""
	}
	return judge(claimed, head)
}
