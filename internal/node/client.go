package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// lostRetry is when asking again makes sense for a machine that does not answer.
const lostRetry = 5 * time.Second

// ClientOptions are what a client needs besides the configuration of its node.
type ClientOptions struct {
	Agent string       // sent as User-Agent
	Log   *slog.Logger // nil = nobody is told
	Dial  Dialer       // connects to the machine, nil = the net package. Who sets it answers for where it leads.
}

// Client is a slot.Node: one other machine's slots, as a gateway has them.
type Client struct {
	name  string
	base  string // URL without a final slash; its host means nothing for a socket
	token hearth.Secret
	agent string
	log   *slog.Logger
	data  *http.Transport // carries requests to engines
	calm  *http.Transport // carries what must not wait behind them

	conf     atomic.Pointer[map[string]*hearth.Slot] // by name
	sight    atomic.Pointer[sight]
	refusing atomic.Bool
	emit     func(slot.Event)

	mu     sync.Mutex // of what tells others of a change: sight is written under it
	known  bool       // what emit was last told: something is known of the machine
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing runs any more; nil = nothing ever did
}

// Dial makes the client of a node. It connects when it is told to watch, and tries again for ever; an error is one of the
// configuration.
func Dial(n *hearth.Node, slots []*hearth.Slot, o ClientOptions) (*Client, error) {
	base, tr, err := transports(n.Remote, o.Dial)
	if err != nil {
		return nil, err
	}
	c := &Client{name: n.Name, base: base, token: n.Remote.Token, agent: o.Agent, log: o.Log, data: tr(), calm: tr()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.Reload(n, slots)
	c.sight.Store(&sight{lost: "it has not answered yet"})
	return c, nil
}

// Reload makes newer settings of the slots hold.
func (c *Client) Reload(_ *hearth.Node, slots []*hearth.Slot) {
	conf := make(map[string]*hearth.Slot, len(slots))
	for _, s := range slots {
		conf[s.Name] = s
	}
	c.conf.Store(&conf)
}

// Watch begins to follow the machine.
func (c *Client) Watch(emit func(slot.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	c.emit, c.cancel, c.done = emit, cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		c.follow(ctx)
	}()
}

// Close ends what the client does. Requests that are under way go on.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	cancel, done := c.cancel, c.done
	c.mu.Unlock()
	c.refusing.Store(true)
	if cancel != nil {
		cancel()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	c.calm.CloseIdleConnections()
	c.data.CloseIdleConnections()
	return ctx.Err()
}

// RefuseWaiters refuses everybody who asks from now on. Whoever waits does so at the machine, and leaves with its request.
func (c *Client) RefuseWaiters() { c.refusing.Store(true) }

// View is what is known of a slot.
func (c *Client) View(name string) hearth.SlotView {
	s := (*c.conf.Load())[name]
	if s == nil {
		return hearth.SlotView{Unknown: true, LastError: "the slot is not configured"}
	}
	return c.sight.Load().view(s, time.Now())
}

// Acquire gives the right to send a request to the machine, which decides by itself whether it waits there. Who may not
// even be sent is refused: nobody knows whether the machine is there, or it does not serve what the slot promises.
func (c *Client) Acquire(ctx context.Context, a slot.Ask) (*slot.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.refusing.Load() {
		return nil, &slot.Refusal{Word: hearth.SkipLoading, RetryAfter: time.Second, Message: "the gateway is shutting down"}
	}
	seen, now := c.sight.Load(), time.Now()
	refusal := seen.refuses(a.Slot, now, c.name)
	s := a.Slot
	if len(a.Also) > 0 && (refusal != nil || !seen.free(a.Slot)) {
		for _, also := range a.Also {
			if seen.refuses(also, now, c.name) == nil && seen.free(also) {
				s, refusal = also, nil
				break
			}
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	t := &carrier{client: c, ask: a, slot: s, also: seen.others(s, a, now), asked: now}
	if a.Vote {
		return nil, t.vote(ctx)
	}
	return &slot.Lease{URL: c.base + slotsPath + s.Name, APIKey: c.token, Slot: s, Remote: true, Transport: t, Waited: t.waitedFor}, nil
}

// others are the names of the slots besides one that would do as well, with commas.
func (s *sight) others(than *hearth.Slot, a slot.Ask, now time.Time) string {
	var names []string
	for _, at := range append([]*hearth.Slot{a.Slot}, a.Also...) {
		if len(a.Also) > 0 && at != than && s.refuses(at, now, "") == nil {
			names = append(names, at.Name)
		}
	}
	return strings.Join(names, ",")
}

// sight is what was last seen of the machine. It is never changed.
type sight struct {
	lost    string    // why nothing is known; "" = the picture counts, while it is not stale
	at      time.Time // of the picture
	leaving bool
	slots   []seen
}

// find returns what was seen of a slot, nil = nothing.
func (s *sight) find(name string) *seen {
	i := slices.IndexFunc(s.slots, func(p seen) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.slots[i]
}

// unknown is why nothing is known of the machine at the instant now, "" = something is.
func (s *sight) unknown(now time.Time) string {
	if s.lost == "" && now.Sub(s.at) > stale {
		return "it has been silent for two seconds"
	}
	return s.lost
}

// view is that of a slot at the instant now.
func (s *sight) view(conf *hearth.Slot, now time.Time) hearth.SlotView {
	if why := s.unknown(now); why != "" {
		return hearth.SlotView{Unknown: true, Since: s.at, LastError: "the machine of the slot is not known to be there: " + why}
	}
	p := s.find(conf.Name)
	if p == nil || p.Model != conf.Model.ID {
		return hearth.SlotView{State: hearth.SlotFailed, Since: s.at, LastError: p.mismatch(conf)}
	}
	v := p.view(s.at)
	switch v.State {
	case hearth.SlotStarting, hearth.SlotDraining, hearth.SlotStopping, hearth.SlotFailed:
		rest := v.LoadRest
		v.LoadRest = max(0, v.LoadRest-now.Sub(s.at))
		v.WaitRest = max(0, v.WaitRest-(rest-v.LoadRest))
	}
	if v.State == hearth.SlotStarting {
		v.Soonest = max(0, v.Soonest-now.Sub(s.at))
	}
	v.Drained = v.Drained || s.leaving
	return v
}

// mismatch says in which way the slot is not the one that was meant.
func (p *seen) mismatch(conf *hearth.Slot) string {
	if p == nil {
		return "the machine has no slot " + conf.Name
	}
	return "the machine serves another model in slot " + conf.Name
}

// refuses is why a request for a slot need not even be sent, nil = it may be.
func (s *sight) refuses(conf *hearth.Slot, now time.Time, node string) *slot.Refusal {
	if s.unknown(now) != "" {
		return lost(node)
	}
	if p := s.find(conf.Name); p == nil || p.Model != conf.Model.ID {
		return &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: time.Minute, Message: p.mismatch(conf)}
	}
	if s.leaving {
		return &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: lostRetry, Message: "the machine " + node + " is shutting down"}
	}
	return nil
}

// free says whether the slot is ready and seems to have a free place.
func (s *sight) free(conf *hearth.Slot) bool {
	p := s.find(conf.Name)
	if p == nil || stateOf(p.State) != hearth.SlotReady || p.Disabled || p.Drained || p.Foreign || p.Paused > 0 || p.Shut > 0 || p.Waiting > 0 {
		return false
	}
	limit := p.Limit
	if limit == 0 {
		limit = max(p.Parallel, 1)
	}
	return p.Inflight < limit
}

// lost is the refusal of a machine that does not answer.
func lost(node string) *slot.Refusal {
	return &slot.Refusal{Word: hearth.SkipFailed, RetryAfter: lostRetry, Message: "the machine " + node + " does not answer"}
}

var errToken = errors.New("it does not accept the token")
