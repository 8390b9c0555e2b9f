// Package hearth holds the nouns of the gateway: what a model, a provider, an endpoint, a slot, a request,
// a chain, an attempt and a generation are. It decides nothing and does no I/O; everything that works lives
// under internal/ and speaks in these words.
package hearth

import (
	"encoding/hex"
	"log/slog"
	"time"
)

// LocalSlug is the slug of the one provider that holds all own nodes.
const LocalSlug = "local-gpu"

// Kind says where a provider's machines stand.
type Kind string

const (
	Local    Kind = "local"    // our own hardware: the prompt does not leave the house
	External Kind = "external" // a third party
)

// Secret is a string that no log, error or JSON document shows. Reveal is the only way to its bytes.
type Secret string

// Reveal returns the secret itself, for the one header it is meant for.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret from fmt; an empty secret stays visibly empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// KeyHash is the SHA-256 of an API key: all that is kept of it.
type KeyHash [32]byte

// String is the hash in hex, the form in which OpenRouter's key routes name a key.
func (h KeyHash) String() string { return hex.EncodeToString(h[:]) }

// Key is a caller's API key, without the key.
type Key struct {
	ID        string  // "key-" + ULID
	Hash      KeyHash // SHA-256 of the whole key text
	Name      string  // what the operator called it
	Label     string  // "sk-myip-abc…xyz": enough to recognise it, too little to use it
	Admin     bool    // may use the admin routes
	Disabled  bool
	Deleted   bool // disabled for good and in no list: it stays only so that records can say whose they are
	CreatedAt time.Time
	UpdatedAt time.Time // of the last change, zero = never changed
	ExpiresAt time.Time // from then on it is refused, zero = it never expires
	Owner     string    // whose it is, as the operator says; "" = not said
	Class     Class     // whose turn comes first where its requests wait for a slot

	Models       []string      // model ids it may use; empty = all
	Providers    []string      // slugs or tags of the providers it may use; empty = all
	LocalOnly    bool          // its requests never leave the house
	NoContent    bool          // its prompts and answers are never kept, whatever the settings say
	EarlyHeaders time.Duration // as the setting of that name, for this key; 0 = the setting, NoEarlyHeaders = never
	Limit        Nano          // what it may spend in a period, in the billing currency; 0 = no limit
	LimitReset   Period        // of Limit; "" = for ever
	// ExternalLimit is what it may spend at external providers in a period, 0 = no limit of its own: when it is spent they
	// are skipped, own slots go on.
	ExternalLimit Nano
	Currency      string // in which its amounts are shown, "" = the setting
	// RequestsPerMinute is how many requests it may send in a minute, TokensPerMinute how many tokens of prompts and answers
	// they may have; 0 = no limit.
	RequestsPerMinute, TokensPerMinute int64

	Kappa     Kappa // what its time is worth; 0 = KappaBatch for the class Batch, else as the model's configuration says
	NoExplore bool  // its requests try no endpoint for the sake of knowing it
}

// Period is after how long what was spent counts anew. Periods begin at midnight in the configured time zone.
type Period string

const (
	Forever Period = ""
	Daily   Period = "daily"
	Weekly  Period = "weekly" // from Monday
	Monthly Period = "monthly"
)

// Class says whose requests are served first where several wait for the same slot.
type Class string

const (
	Interactive Class = ""      // a person waits
	Batch       Class = "batch" // after all interactive ones, but within the request's budget
)

// String is "interactive" or "batch".
func (c Class) String() string {
	if c == Interactive {
		return "interactive"
	}
	return string(c)
}

// NoEarlyHeaders in the place of a key's EarlyHeaders is never, whatever the setting says.
const NoEarlyHeaders = -time.Millisecond

// KeyChange is what is to become different about a key; what is nil stays as it is.
type KeyChange struct {
	Name              *string
	Disabled          *bool
	ExpiresAt         *time.Time // to the zero time = never
	Owner             *string
	Class             *Class
	Models, Providers *[]string
	LocalOnly         *bool
	NoContent         *bool
	EarlyHeaders      *time.Duration
	Limit             *Nano
	LimitReset        *Period
	ExternalLimit     *Nano
	Currency          *string
	RequestsPerMinute *int64
	TokensPerMinute   *int64
	Kappa             *Kappa
	NoExplore         *bool
}

// Apply returns k with the change made to it.
func (c KeyChange) Apply(k Key) Key {
	set(&k.Name, c.Name)
	set(&k.Disabled, c.Disabled)
	set(&k.ExpiresAt, c.ExpiresAt)
	set(&k.Owner, c.Owner)
	set(&k.Class, c.Class)
	set(&k.Models, c.Models)
	set(&k.Providers, c.Providers)
	set(&k.LocalOnly, c.LocalOnly)
	set(&k.NoContent, c.NoContent)
	set(&k.EarlyHeaders, c.EarlyHeaders)
	set(&k.Limit, c.Limit)
	set(&k.LimitReset, c.LimitReset)
	set(&k.ExternalLimit, c.ExternalLimit)
	set(&k.Currency, c.Currency)
	set(&k.RequestsPerMinute, c.RequestsPerMinute)
	set(&k.TokensPerMinute, c.TokensPerMinute)
	set(&k.Kappa, c.Kappa)
	set(&k.NoExplore, c.NoExplore)
	return k
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}
