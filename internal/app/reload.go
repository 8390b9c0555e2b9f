package app

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"myip.co.kr/hearth/internal/config"
)

// reloads is what came of changes of the configuration while the gateway runs.
type reloads struct {
	turn sync.Mutex // one reload at a time

	mu      sync.Mutex
	refused int       // files that could not be used, in all
	err     error     // what was wrong with the last one, nil = it holds
	at      time.Time // when that was found out
	waiting string    // what needs a restart, "" = nothing

	unshown map[string]bool // currencies of keys that have no rate; guarded by turn
}

// Files are the files besides the configuration's own that it was read from.
func (a *App) Files() []string { return a.config().Files() }

// Files are the files besides the configuration's own that it was read from.
func (n *Node) Files() []string { return n.app.Files() }

// Reload makes another configuration hold, for the requests that come from now on; who is there goes on under the one
// that held when it came. What was learned of endpoints, connections and slots that are in both is kept. changes is all
// that differs; what needs a restart keeps its value until then. An error means that nothing has changed.
func (a *App) Reload(cfg *config.Config) (changes []config.Change, err error) {
	a.reloads.turn.Lock()
	defer a.reloads.turn.Unlock()
	return a.reload(cfg)
}

// reload is Reload for who has the turn.
func (a *App) reload(cfg *config.Config) (changes []config.Change, err error) {
	was := a.now.Load()
	holds, changes := cfg.Follow(was.cfg)
	if config.Summary(changes, false) == "" {
		return changes, nil
	}
	a.rates.Follow(rateSources(holds))
	if err := a.follow(holds); err != nil {
		a.rates.Follow(rateSources(was.cfg))
		return nil, err
	}
	return changes, nil
}

// follow makes a snapshot of a configuration, and of the exchange rates that are known now, take the place of the one
// before. An error means that nothing has changed.
func (a *App) follow(holds *config.Config) error {
	was := a.now.Load()
	next, err := newSnapshot(holds, ratesNow(a.rates))
	if err != nil {
		return err
	}
	from := next.catalog.From(was.catalog)
	if next.upstream, err = was.upstream.Next(next.catalog, upstreamOptions(holds, a.o), from); err != nil {
		return err
	}
	if err := a.fleet.Reload(next.catalog); err != nil { // the last that can fail, and the first to change something
		return err
	}
	next.health, next.windows = was.health.Next(next.catalog, from), was.windows.Next(from)
	next.router = was.router.Next(next.catalog, from, routingOptions(holds), time.Now())
	if next.media = was.media; holds.Local.MediaURLs != was.cfg.Local.MediaURLs {
		next.media = fetcher(holds, a.o.Version)
	}
	next.relay = was.relay.Next(a.relayOptions(next), a.relayParts(next))
	a.ledger.Retain(retention(holds))
	a.contents.Retain(contentRetention(holds))
	a.now.Store(next)
	a.quality.tell(next)
	a.Server.Swap(a.server(next))
	a.tellUnshown()
	was.relay.Follow(next.relay)
	was.upstream.Retire(next.upstream)
	return nil
}

// ReloadFrom reads a configuration and makes it hold. What came of it is logged, counted, and shown to the operator; the
// error is for callers that have more to say.
func (a *App) ReloadFrom(read func() (*config.Config, error)) error {
	a.reloads.turn.Lock() // before the file is read: of two reloads at once the later one has read the later file
	defer a.reloads.turn.Unlock()
	return a.reloadFrom(read, a.reload)
}

// ReloadFrom is App.ReloadFrom for a node.
func (n *Node) ReloadFrom(read func() (*config.Config, error)) error {
	n.app.reloads.turn.Lock()
	defer n.app.reloads.turn.Unlock()
	return n.app.reloadFrom(read, n.Reload)
}

func (a *App) reloadFrom(read func() (*config.Config, error), apply func(*config.Config) ([]config.Change, error)) error {
	before := a.config()
	cfg, err := read()
	var changes []config.Change
	if err == nil {
		changes, err = apply(cfg)
	}
	a.reloads.note(err, changes)
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			a.log.Error("configuration refused, the one before holds: " + line)
		}
		return err
	}
	known := map[string]bool{}
	for _, w := range before.Warnings() {
		known[w.Path+w.Message] = true
	}
	for _, w := range cfg.Warnings() {
		if !known[w.Path+w.Message] {
			a.log.Warn("configuration: " + w.String())
		}
	}
	a.log.Info("configuration reloaded", "changes", config.Summary(changes, false), "needs_restart", config.Summary(changes, true))
	return nil
}

func (r *reloads) note(err error, changes []config.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.at = err, time.Now()
	if err != nil {
		r.refused++
		return
	}
	r.waiting = config.Summary(changes, true)
}

// notices is what the operator should know of the configuration.
func (r *reloads) notices() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	if r.err != nil {
		first, more := r.err.Error(), ""
		var problems config.Problems
		if errors.As(r.err, &problems) && len(problems) > 0 {
			if first = problems[0].String(); len(problems) > 1 {
				more = fmt.Sprintf(" (and %d more, see the log)", len(problems)-1)
			}
		}
		list = append(list, fmt.Sprintf("the configuration was refused at %s, the one before holds: %s%s", r.at.Format(time.DateTime), first, more))
	}
	if r.waiting != "" {
		list = append(list, "needs a restart: "+r.waiting)
	}
	return list
}
