package relay

import (
	"net/http"
	"net/textproto"
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
	h, v := w.Header(), []string{headerSafe(e.Provider.Name), headerSafe(e.Model.ID)}
	h[r.names.provider], h[r.names.model] = v[:1:1], v[1:]
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
