// Package account knows the API keys: it makes them, lists them and tells whose a request is.
package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

const (
	// pollEvery is how often a change made by another process (hearth keys) is looked for: a disabled key is
	// refused at most this much later.
	pollEvery = time.Second
	// looksPerSecond bounds the looks for keys that are not known: a key that another process has just created works at
	// once, and guessing keys costs the database no more than so many short reads a second.
	looksPerSecond = 10
	// lookTimeout bounds how long a request with an unknown key waits for the database.
	lookTimeout = 250 * time.Millisecond
)

// view is what Authorise reads: never changed, only replaced.
type view struct {
	version int64
	keys    map[hearth.KeyHash]*known
}

// known is a key and whether it was ever accepted by this process.
type known struct {
	hearth.Key
	used *atomic.Bool // the same in the views to come
}

// Accounts holds the keys of a store. Its methods may be called from many goroutines.
type Accounts struct {
	store  *store.Store
	prefix string
	view   atomic.Pointer[view]

	refreshing sync.Mutex
	looked     time.Time // when the last look began; guarded by refreshing
	second     time.Time // looks are counted since then; guarded by refreshing
	looks      int       // guarded by refreshing
	guesses    guesses

	stop    chan struct{}
	stopped chan struct{}
}

// DefaultPrefix begins the keys that Create makes, unless another is configured.
const DefaultPrefix = "sk-myip-"

// Open reads the keys of s and follows their changes until Close. The prefix begins the keys that Create makes;
// "" is DefaultPrefix.
func Open(ctx context.Context, s *store.Store, prefix string) (*Accounts, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	a := &Accounts{store: s, prefix: prefix, stop: make(chan struct{}), stopped: make(chan struct{})}
	a.view.Store(&view{version: -1})
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	if err := a.refresh(ctx); err != nil {
		return nil, fmt.Errorf("open accounts: %w", err)
	}
	go a.poll()
	return a, nil
}

// Close stops following changes. The store stays open.
func (a *Accounts) Close() {
	close(a.stop)
	<-a.stopped
}

// refresh reads the keys again if they changed. a.refreshing is held.
func (a *Accounts) refresh(ctx context.Context) error {
	a.looked = time.Now()
	version, err := a.store.KeysVersion(ctx)
	if err != nil {
		return err
	}
	if version == a.view.Load().version {
		return nil
	}
	list, err := a.store.Keys(ctx)
	if err != nil {
		return err
	}
	// The list may be newer than the version read before it; then the next look reads it once more.
	v, before := &view{version: version, keys: make(map[hearth.KeyHash]*known, len(list))}, a.view.Load().keys
	for _, k := range list {
		used := new(atomic.Bool)
		if was := before[k.Hash]; was != nil {
			used = was.used
		}
		v.keys[k.Hash] = &known{k, used}
	}
	a.view.Store(v)
	return nil
}

// poll follows the changes other processes make. A database that cannot be read leaves the last view in force.
func (a *Accounts) poll() {
	defer close(a.stopped)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), pollEvery)
		a.refreshing.Lock()
		_ = a.refresh(ctx) // the next tick tries again
		a.refreshing.Unlock()
		cancel()
	}
}

// lookFor looks in the store for a key that the view does not have.
func (a *Accounts) lookFor(hash hearth.KeyHash) *known {
	began := time.Now()
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	// Whoever held the lock may have looked after this request came.
	if a.looked.Before(began) && a.mayLook(began) {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		if err := a.refresh(ctx); err != nil {
			return nil // as good as not there; the poll goes on trying
		}
	}
	return a.view.Load().keys[hash]
}

// mayLook counts a look, if there is one left in this second. a.refreshing is held.
func (a *Accounts) mayLook(now time.Time) bool {
	if now.Sub(a.second) >= time.Second {
		a.second, a.looks = now, 0
	}
	a.looks++
	return a.looks <= looksPerSecond
}

// changed brings the view up to date after a change of our own.
func (a *Accounts) changed(ctx context.Context) error {
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	if err := a.refresh(ctx); err != nil {
		return fmt.Errorf("read keys after the change: %w", err)
	}
	return nil
}

// List reads all keys, oldest first, those that were deleted among them.
func (a *Accounts) List(ctx context.Context) ([]hearth.Key, error) { return a.store.Keys(ctx) }

// Disable switches off the key with this id, name or label, or the key itself, and returns it: whoever finds a leaked key
// holds nothing else. The error is a *hearth.Error if there is none, or several have the name; it does not repeat what may
// be a key.
func (a *Accounts) Disable(ctx context.Context, which string) (hearth.Key, error) {
	k, err := a.Find(ctx, which)
	if err != nil {
		return hearth.Key{}, err
	}
	return a.change(ctx, k, hearth.KeyChange{Disabled: new(true)})
}

// Find finds a key by what it may be called: see Disable. The error is a *hearth.Error if there is no such key or more than
// one.
func (a *Accounts) Find(ctx context.Context, which string) (hearth.Key, error) {
	list, err := a.store.Keys(ctx)
	if err != nil {
		return hearth.Key{}, err
	}
	return Pick(slices.DeleteFunc(list, func(k hearth.Key) bool { return k.Deleted }), which, a.prefix)
}

// Pick finds the one key of a list that is meant, as Find does: the key itself wins over an id, an id over a name, a name
// over a label. What begins with the prefix may be a key, and is not repeated.
func Pick(list []hearth.Key, which, prefix string) (hearth.Key, error) {
	if i := slices.IndexFunc(list, func(k hearth.Key) bool { return k.Hash == hash(which) }); i >= 0 {
		return list[i], nil
	}
	for _, field := range []func(*hearth.Key) string{
		func(k *hearth.Key) string { return k.ID },
		func(k *hearth.Key) string { return k.Name },
		func(k *hearth.Key) string { return k.Label },
	} {
		var found []hearth.Key
		for i := range list {
			if field(&list[i]) == which {
				found = append(found, list[i])
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		e := hearth.Errorf(hearth.ErrInvalidRequest, "%d keys have the name or label %q: say which by its id:", len(found), which)
		for _, k := range found {
			e.Message += " " + k.ID
		}
		return hearth.Key{}, e
	}
	if strings.HasPrefix(which, prefix) {
		return hearth.Key{}, hearth.Errorf(hearth.ErrNotFound, "there is no such key here; hearth keys list shows those there are")
	}
	return hearth.Key{}, hearth.Errorf(hearth.ErrNotFound, "no key has the id, name or label %q; hearth keys list shows those there are", printable(which))
}

// Change changes a key and returns it as it then is; which names it as for Disable. Running gateways
// see the change as they see a disabled key. The error is a *hearth.Error if there is no such key or the change cannot be
// accepted.
func (a *Accounts) Change(ctx context.Context, which string, c hearth.KeyChange) (hearth.Key, error) {
	k, err := a.Find(ctx, which)
	if err != nil {
		return hearth.Key{}, err
	}
	return a.change(ctx, k, c)
}

func (a *Accounts) change(ctx context.Context, k hearth.Key, c hearth.KeyChange) (hearth.Key, error) {
	now := moment(time.Now())
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return hearth.Key{}, err
		}
	}
	k, err := checkPolicy(c.Apply(k))
	if err != nil {
		return hearth.Key{}, err
	}
	if c.ExpiresAt != nil {
		if k.ExpiresAt, err = checkExpiry(k.ExpiresAt, now); err != nil {
			return hearth.Key{}, err
		}
		c.ExpiresAt = &k.ExpiresAt
	}
	if c.Models != nil {
		c.Models = &k.Models
	}
	if c.Providers != nil {
		c.Providers = &k.Providers
	}
	if err := a.store.ChangeKey(ctx, k.ID, c, now); err != nil {
		return hearth.Key{}, gone(err)
	}
	k.UpdatedAt = now
	return k, a.changed(ctx)
}

// add stores a key and shows it to Authorise.
func (a *Accounts) add(ctx context.Context, plain string, k hearth.Key) (hearth.Key, error) {
	k.ID, k.Hash, k.Label = newID(), hash(plain), label(plain, a.prefix)
	k.CreatedAt = moment(time.Now())
	if err := a.store.InsertKey(ctx, k); err != nil {
		return hearth.Key{}, err
	}
	return k, a.changed(ctx)
}

// Create makes a key with the name, the role and the policy of k; the rest of k is made here. The plain text is returned
// this once and kept nowhere. The error is a *hearth.Error if the name or the policy cannot be accepted.
func (a *Accounts) Create(ctx context.Context, k hearth.Key) (plain string, made hearth.Key, err error) {
	if err := checkName(k.Name); err != nil {
		return "", hearth.Key{}, err
	}
	if k, err = checkPolicy(k); err != nil {
		return "", hearth.Key{}, err
	}
	if k.ExpiresAt, err = checkExpiry(k.ExpiresAt, time.Now()); err != nil {
		return "", hearth.Key{}, err
	}
	if plain, err = newPlain(a.prefix); err != nil {
		return "", hearth.Key{}, err
	}
	if k, err = a.add(ctx, plain, k); err != nil {
		return "", hearth.Key{}, err
	}
	return plain, k, nil
}

// Adopt makes a key whose plain text comes from outside. If it is there already it is returned as it is. The
// error is a *hearth.Error if the name or the key cannot be accepted.
func (a *Accounts) Adopt(ctx context.Context, name, plain string, admin bool) (hearth.Key, error) {
	if err := checkName(name); err != nil {
		return hearth.Key{}, err
	}
	if err := checkPlain(plain); err != nil {
		return hearth.Key{}, err
	}
	k, err := a.add(ctx, plain, hearth.Key{Name: name, Admin: admin})
	if !errors.Is(err, store.ErrKeyExists) {
		return k, err
	}
	list, err := a.store.Keys(ctx)
	if err != nil {
		return hearth.Key{}, err
	}
	for _, k := range list {
		if k.Hash == hash(plain) {
			return k, a.changed(ctx)
		}
	}
	return hearth.Key{}, fmt.Errorf("adopt key: %w", store.ErrNotFound)
}
