package relay

import (
	"context"
	"errors"
	"sync"

	"myip.co.kr/hearth"
)

// downloads are what a request's web addresses hold, fetched once for the engines of the house: an engine of ours is
// given data, never an address to follow.
type downloads struct {
	data  map[string]string // by address
	bytes int64             // of all data, held in the budget for bodies
	err   *hearth.Error     // why there is none
	asked bool
}

// mediaAtOnce is how many downloads one request may have at once.
const mediaAtOnce = 4

// fetchMedia downloads what the request names, if that was not done yet. It is false if there is no data, and the outcome
// then says why.
func (r *Relay) fetchMedia(ctx context.Context, x *exchange, o *outcome) bool {
	m := &x.media
	if !m.asked {
		m.asked = true
		if err := r.download(ctx, m, x.chat.MediaURLs()); err != nil && !errors.As(err, &m.err) {
			o.left(err)
			return false
		}
	}
	if m.err == nil {
		return true
	}
	o.Message = m.err.Message
	x.tally.quotes = true // it names the address
	if m.err.Type == hearth.ErrOverloaded {
		x.tally.overloaded++
	} else {
		x.tally.param = m.err.Param
	}
	return false
}

// download fetches all addresses, or none: the first error ends it. It is a *hearth.Error, or ctx's.
func (r *Relay) download(parent context.Context, m *downloads, urls []string) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	m.data = make(map[string]string, len(urls))
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, mediaAtOnce)
	for _, url := range urls {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			data, err := r.media.Fetch(ctx, url)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = r.keep(m, url, data)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		m.free(r)
		return err
	}
	return nil
}

// keep keeps one download within the budget: all together may be as large as a body.
func (r *Relay) keep(m *downloads, url, data string) error {
	n := int64(len(data))
	if m.bytes+n > r.opt.MaxBody {
		return hearth.Invalid("messages", "the media behind the web addresses are larger than %d bytes together; send fewer or smaller ones", r.opt.MaxBody)
	}
	if !r.hold(n) {
		return errBusyBodies()
	}
	m.bytes += n
	m.data[url] = data
	return nil
}

// free gives the data and its part of the budget back.
func (m *downloads) free(r *Relay) {
	r.bodies.Add(-m.bytes)
	m.data, m.bytes = nil, 0
}
