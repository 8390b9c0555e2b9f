package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/sse"
)

const (
	maxPicture = 4 << 20                // bytes of one picture
	retryFirst = 100 * time.Millisecond // after a stream that brought something
	retryMost  = 2 * time.Second
)

// follow keeps a stream of pictures open until ctx ends.
func (c *Client) follow(ctx context.Context) {
	retry := retryFirst
	for ctx.Err() == nil {
		brought, err := c.stream(ctx)
		if ctx.Err() != nil {
			break
		}
		if brought {
			retry = retryFirst
		}
		if err == nil {
			continue // it ended in good order
		}
		c.lose(err)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, retryMost)
	}
	c.see(&sight{lost: unfollowed}, nil)
}

// unfollowed is why nothing is known of a machine that is not configured any more, or at the end.
const unfollowed = "the gateway does not follow it any more"

// stream follows one stream to its end. It is nil if another one is to be asked for at once. brought says whether there
// was a picture.
func (c *Client) stream(ctx context.Context) (brought bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(stale, func() { cancel(errSilent) })
	defer silence.Stop()
	began := time.Now() // no picture is older than its connection: what it takes to connect does not count
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { began = time.Now() }})
	resp, err := c.get(ctx, viewsPath)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if err := accepted(resp); err != nil {
		return false, err
	}
	events := sse.NewReader(resp.Body, maxPicture)
	defer events.Close()
	ended := false
	for number := uint64(1); ; number++ {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) && ended { // read to its end, so that the connection stays
			return true, nil
		}
		if err != nil {
			return brought, cmpCause(ctx, err)
		}
		if ev.Comment {
			number--
			continue
		}
		p, err := readPicture(ev.Data)
		switch {
		case err != nil:
			return brought, errors.New("it does not speak like a hearth node")
		case p.Number != number:
			return brought, fmt.Errorf("its picture %d came where %d was due", p.Number, number)
		}
		silence.Reset(stale)
		brought = true
		c.take(&p, began)
		ended = p.Last
	}
}

var errSilent = errors.New("it has been silent for two seconds")

// cmpCause prefers why the context was ended to the error that came of it.
func cmpCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// accepted says what is wrong with an answer of the machine itself.
func accepted(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return errToken
	}
	return fmt.Errorf("it answered %d where a hearth node answers 200", resp.StatusCode)
}

// take makes a picture of a stream that began at an instant hold.
func (c *Client) take(p *picture, began time.Time) {
	now := time.Now()
	at := began.Add(ms(p.At))
	if at.After(now) { // a clock that runs too fast makes nothing younger
		at = now
	}
	c.see(&sight{at: at, leaving: p.Leaving, slots: p.Slots}, p.Steps)
}

// lose notes that the machine cannot be reached.
func (c *Client) lose(err error) {
	c.data.CloseIdleConnections()
	c.see(&sight{lost: err.Error(), at: time.Now()}, nil)
}

// miss notes that a request did not get through. The next picture says that all is well again.
func (c *Client) miss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.sight.Load(); old.lost == "" {
		c.change(old, &sight{lost: "a request did not get through", at: old.at}, nil)
	}
}

// see makes a sight hold, and tells of the steps that led there.
func (c *Client) see(s *sight, steps []taken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.change(c.sight.Load(), s, steps)
}

func (c *Client) change(old, s *sight, steps []taken) {
	c.sight.Store(s)
	now := time.Now()
	was, is := c.known, s.unknown(now) == ""
	c.known = is
	conf := *c.conf.Load()
	if was != is || s.lost != old.lost && s.lost != "" {
		if is {
			c.log.Info("the machine of a node answers", "node", c.name)
		} else if s.lost != unfollowed {
			c.log.Warn("the machine of a node does not answer: its slots are not used", "node", c.name, "why", s.unknown(now))
		}
	}
	for _, t := range steps {
		if at := conf[t.Slot]; at != nil {
			c.tell(at, slot.Event{At: now.Add(-ms(t.Ago)), From: stateOf(t.From), To: stateOf(t.To), Why: t.Why}, s, now)
		}
	}
	if was == is {
		return
	}
	why := "the machine answers"
	if !is {
		why = "the machine does not answer: " + s.unknown(now)
	}
	for _, at := range conf {
		state := s.view(at, now).State
		c.tell(at, slot.Event{At: now, From: state, To: state, Why: why}, s, now)
	}
}

func (c *Client) tell(at *hearth.Slot, e slot.Event, s *sight, now time.Time) {
	e.Node, e.Slot, e.Model, e.View = c.name, at.Name, at.Model.ID, s.view(at, now)
	if c.emit != nil {
		c.emit(e)
	}
}

// get asks the machine itself.
func (c *Client) get(ctx context.Context, path string) (*http.Response, error) {
	return c.send(ctx, http.MethodGet, path)
}

func (c *Client) send(ctx context.Context, method, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the machine: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	r.Header.Set("User-Agent", c.agent)
	resp, err := c.calm.RoundTrip(r)
	if err != nil {
		return nil, cmpCause(ctx, err)
	}
	return resp, nil
}
