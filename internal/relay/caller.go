package relay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

// headerNames are the names of our headers. Those that are sent keep the prefix as it is written, "X-MyIP" and not
// "X-Myip": people look for them with grep. The one that is read is in canonical form.
type headerNames struct{ provider, model, generation, note, maxWait string }

func namesFor(prefix string) headerNames {
	return headerNames{
		prefix + "-Provider", prefix + "-Model", prefix + "-Generation-Id", prefix + "-Note",
		textproto.CanonicalMIMEHeaderKey(prefix + "-Max-Wait"),
	}
}

// winner names the endpoint that made the bytes of the answer.
func (r *Relay) winner(w http.ResponseWriter, e *hearth.Endpoint) {
	h := w.Header()
	h[r.names.provider] = []string{headerSafe(e.Provider.Name)}
	h[r.names.model] = []string{headerSafe(e.Model.ID)}
}

// note tells the caller what was accepted and ignored.
func (r *Relay) note(w http.ResponseWriter, x *exchange) {
	if len(x.gen.Notes) > 0 {
		w.Header()[r.names.note] = []string{headerSafe(bounded(strings.Join(x.gen.Notes, "; ")))}
	}
}

// maxText bounds what is kept of a caller's header.
const maxText = 512

func bounded(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "")
	}
	return strings.ToValidUTF8(s, "")
}

// headerSafe makes text fit for a header value: printable ASCII; other characters become "?".
func headerSafe(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return strings.Map(func(c rune) rune {
				if c < ' ' || c > '~' {
					return '?'
				}
				return c
			}, s)
		}
	}
	return s
}

func first(h http.Header, names ...string) string {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return v
		}
	}
	return ""
}

// callersPatience bounds the wait for slots by what the caller said: X-MyIP-Max-Wait in seconds, else the SDK's own
// timeout less two seconds for the answer. It is not ok if our header holds no such number.
func (r *Relay) callersPatience(h http.Header, wait time.Duration) (left time.Duration, ok bool) {
	if v := h.Get(r.names.maxWait); v != "" {
		s, ok := seconds(v)
		return min(wait, s), ok
	}
	if s, ok := seconds(h.Get("X-Stainless-Timeout")); ok {
		return min(wait, max(s-2*time.Second, 0)), true
	}
	return wait, true
}

// seconds reads a number of seconds between 0 and a day; anything else is ignored.
func seconds(v string) (time.Duration, bool) {
	if v == "" {
		return 0, false
	}
	s, err := strconv.ParseFloat(v, 64)
	if err != nil || !(s >= 0 && s <= 86400) {
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}

// ReadBody reads the whole body within the request's and the process's budget. free gives budget and buffer back; calls
// after the first do nothing.
func (r *Relay) ReadBody(w http.ResponseWriter, req *http.Request) (raw []byte, free func(), err error) {
	if req.ContentLength > r.opt.MaxBody {
		w.Header().Set("Connection", "close") // the body is not read
		return nil, nil, r.tooLarge()
	}
	held := max(req.ContentLength, 0)
	if !r.hold(held) {
		return nil, nil, errBusyBodies()
	}
	inTime := slowBodies(w, req)
	box := bodyBuffers.Get().(*[]byte)
	freed := false
	free = func() {
		if freed {
			return
		}
		freed = true
		r.bodies.Add(-held)
		if cap(raw) <= maxPooledBody {
			*box = raw[:0]
			bodyBuffers.Put(box)
		}
	}
	if raw = *box; req.ContentLength >= 0 {
		raw = slices.Grow(raw[:0], int(req.ContentLength))[:req.ContentLength]
		_, err = io.ReadFull(req.Body, raw)
	} else {
		raw, err = r.readChunked(raw[:0], req.Body, &held)
	}
	if err == nil {
		inTime()
		return raw, free, nil
	}
	free()
	w.Header().Set("Connection", "close") // the rest of the body is not read
	var he *hearth.Error
	switch {
	case errors.Is(err, errBodyLimit):
		return nil, nil, r.tooLarge()
	case errors.As(err, &he):
		return nil, nil, he
	}
	e := hearth.Invalid("", "the body could not be read to its end; check Content-Length")
	e.Err = err
	return nil, nil, e
}

// A body that needs more than one read must come at bodyPace at least, after a start of bodyStart: whoever sends more
// slowly holds a part of the budget for nothing.
const (
	bodyStart  = 30 * time.Second
	bodyPace   = 32 << 10 // bytes per second
	quickBody  = 4 << 10  // bytes; what comes with the headers needs no deadline
	slowestEnd = 40 * time.Minute
)

// slowBodies sets the deadline for the body of a request. inTime takes it back, for the connection lives on; without that
// it also ends the reading of what is left of a body that did not come.
func slowBodies(w http.ResponseWriter, req *http.Request) (inTime func()) {
	if req.ContentLength >= 0 && req.ContentLength <= quickBody {
		return func() {}
	}
	limit := slowestEnd
	if req.ContentLength > 0 {
		limit = min(limit, bodyStart+time.Duration(req.ContentLength/bodyPace)*time.Second)
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(limit)) != nil {
		return func() {} // a writer without deadlines has no connection to hold
	}
	return func() { _ = rc.SetReadDeadline(time.Time{}) }
}

// maxPooledBody is the largest body buffer that is kept for another request.
const maxPooledBody = 1 << 20

var bodyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// hold takes n bytes of the process's budget for bodies.
func (r *Relay) hold(n int64) bool {
	if r.bodies.Add(n) > r.opt.MaxBodyTotal {
		r.bodies.Add(-n)
		return false
	}
	return true
}

var errBodyLimit = errors.New("body over the limit")

// readChunked reads a body of unknown length, taking budget as it grows.
func (r *Relay) readChunked(raw []byte, body io.Reader, held *int64) ([]byte, error) {
	for {
		if len(raw) == cap(raw) {
			raw = slices.Grow(raw, max(len(raw), 8<<10))
		}
		if more := int64(cap(raw)) - *held; more > 0 {
			if !r.hold(more) {
				return nil, errBusyBodies()
			}
			*held += more
		}
		n, err := body.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if int64(len(raw)) > r.opt.MaxBody {
			return nil, errBodyLimit
		}
		if errors.Is(err, io.EOF) {
			return raw, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read body: %w", err)
		}
	}
}

func (r *Relay) tooLarge() *hearth.Error {
	return hearth.Errorf(hearth.ErrPayloadTooLarge, "the body is larger than %d bytes; the operator can raise request.max_body", r.opt.MaxBody)
}

func errBusyBodies() *hearth.Error {
	e := hearth.Errorf(hearth.ErrOverloaded, "the gateway holds as many request bodies as its memory budget allows; retry in a second")
	e.RetryAfter = time.Second
	return e
}

// sampler lets the first missesPerSecond per key and second through: refused requests must not fill the records.
type sampler struct {
	mu   sync.Mutex
	sec  int64
	seen map[string]int
}

const missesPerSecond = 10

func (s *sampler) allow(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sec := now.Unix(); sec != s.sec || s.seen == nil {
		s.sec, s.seen = sec, make(map[string]int)
	}
	s.seen[key]++
	return s.seen[key] <= missesPerSecond
}
