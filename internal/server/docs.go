package server

import (
	"net/http"
	"strconv"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/docs"
)

// docPages shows the pages that errors point to. They say nothing of this gateway, and need no key.
func docPages(w http.ResponseWriter, r *http.Request) error {
	page, ok := docs.Pages()[r.PathValue("page")]
	if !ok {
		return hearth.Errorf(hearth.ErrNotFound, "there is no page %s; there are /docs/errors, /docs/faults, /docs/chain, /docs/slots, /docs/routing, /docs/replay, /docs/money and /docs/metrics", printable(r.URL.Path))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendLimit)) // as for all that is sent
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(page)))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "max-age=3600")
	_, _ = w.Write(page) // a caller that left needs no answer
	return nil
}
