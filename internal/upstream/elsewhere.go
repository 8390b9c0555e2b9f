package upstream

import (
	"net/http"
	"time"

	"myip.co.kr/hearth"
)

// via is the engine as it is reached by a transport, nil = like the engines of this machine.
func (e *engine) via(rt http.RoundTripper) *target {
	if rt == nil {
		return &e.target
	}
	t := e.target
	t.rt = rt
	return &t
}

// longer is a limit, 0 = none, with the time in it that the request may wait before it is its engine's.
func (c *Call) longer(limit time.Duration) time.Duration {
	if limit <= 0 {
		return limit
	}
	return limit + c.Wait
}

// LocalTransport reaches the engines of a catalog's slots, and nothing outside of the house, as a Client does.
func LocalTransport(c *hearth.Catalog, dial Dialer) *http.Transport {
	return localTransport(trusted(c), dial)
}
