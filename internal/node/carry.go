package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// carrier carries the requests of one lease to the machine. What the machine itself says of them, and that it cannot be
// reached, becomes an error: whoever sees an answer sees the engine's.
type carrier struct {
	client *Client
	ask    slot.Ask
	slot   *hearth.Slot
	also   string // names of the others that would do
	asked  time.Time
	waited atomic.Int64
}

func (t *carrier) waitedFor() time.Duration { return time.Duration(t.waited.Load()) }

// RoundTrip implements http.RoundTripper.
func (t *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.client.data.RoundTrip(t.labelled(r))
	if err != nil {
		return nil, t.broken(r.Context(), err)
	}
	h := resp.Header
	word, refused := words[h.Get(headStatus)]
	unsent := h.Get(headUnsent) == "1"
	t.waited.Add(int64(min(header(h, headWaited), time.Since(t.asked))))
	for name := range h {
		if strings.HasPrefix(name, "X-Hearth-") {
			delete(h, name)
		}
	}
	if refused && resp.StatusCode == http.StatusServiceUnavailable {
		defer resp.Body.Close()
		if unsent {
			return nil, errors.Join(refusal(word, resp), slot.ErrUnsent)
		}
		return nil, refusal(word, resp)
	}
	resp.Body = &answer{resp.Body, resp, t, r.Context()}
	return resp, nil
}

// vote tells the machine of a request that would have gone to the slot. There is no lease for it, so it always ends in an error.
func (t *carrier) vote(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.client.base+slotsPath+t.slot.Name+voteRoute, nil)
	if err != nil {
		return fmt.Errorf("vote at the machine %s: %w", t.client.name, err)
	}
	r.Header.Set("Authorization", "Bearer "+t.client.token.Reveal())
	resp, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("vote at the machine %s: it answers %d", t.client.name, resp.StatusCode)
	}
	return &slot.Refusal{Word: hearth.SkipLoading, RetryAfter: time.Second, Message: "the vote is counted"}
}

// labelled is the request with what the machine must know of it.
func (t *carrier) labelled(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	r.Header = maps.Clone(r.Header)
	budget := max(t.ask.Budget-time.Since(t.asked), 0)
	r.Header[headBudget] = []string{strconv.FormatInt(budget.Milliseconds(), 10)}
	r.Header[headModel] = []string{t.slot.Model.ID}
	if t.ask.HasNext {
		r.Header[headHasNext] = []string{"1"}
	}
	if t.also != "" {
		r.Header[headAlso] = []string{t.also}
	}
	if t.ask.Generation != "" {
		r.Header[headGeneration] = []string{t.ask.Generation}
	}
	if t.ask.Key != "" {
		r.Header[headKey] = []string{opaque(t.ask.Key)}
	}
	if t.ask.Class != hearth.Interactive {
		r.Header[headClass] = []string{t.ask.Class.String()}
	}
	return r
}

// opaque stands for a key where it is enough to tell keys apart: the same for all gateways that know the key.
func opaque(key string) string {
	sum := sha256.Sum256([]byte("slot queue of " + key))
	return hex.EncodeToString(sum[:16])
}

// broken says what a failed exchange with the machine means.
func (t *carrier) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil { // our own doing
		return err
	}
	t.client.miss()
	return errors.Join(lost(t.client.name), err)
}

// maxWord bounds what is read of a refusal.
const maxWord = 4 << 10

// refusal is the machine's, told in an answer.
func refusal(word hearth.SkipReason, resp *http.Response) *slot.Refusal {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxWord)) // the word counts, whatever is missing behind it
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &slot.Refusal{Word: word, RetryAfter: time.Duration(min(max(seconds, 1), 3600)) * time.Second, Message: readMessage(b)}
}

// header reads a number of milliseconds, 0 = there is none.
func header(h http.Header, name string) time.Duration {
	n, _ := strconv.ParseInt(h.Get(name), 10, 64)
	return ms(n)
}

// answer is the body of an engine's answer. One that ended in the middle of it is told in a trailer, one that breaks off
// ends its stream of the connection; anything else that goes wrong is the connection.
type answer struct {
	io.ReadCloser
	resp *http.Response
	t    *carrier
	ctx  context.Context
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if word, ok := words[a.resp.Trailer.Get(headStatus)]; ok && errors.Is(err, io.EOF) {
		return n, &slot.Refusal{Word: word, RetryAfter: time.Second, Message: ended}
	}
	if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "stream error") {
		err = a.t.broken(a.ctx, err)
	}
	return n, err
}
