package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// The keys of callers, in the shapes of OpenRouter's API (https://openrouter.ai/docs/api-reference/api-keys/list and its
// neighbours). Amounts are in the currency of the key that asks.

// Keyring makes and changes keys. Models, providers and currencies that a key is to have must be those of the configuration.
type Keyring interface {
	Create(ctx context.Context, k hearth.Key) (plain string, made hearth.Key, err error)
	Change(ctx context.Context, which string, c hearth.KeyChange) (hearth.Key, error)
}

const (
	// keysPage is how many keys one answer lists.
	keysPage = 100
	// workspace is the one there is.
	workspace = "00000000-0000-0000-0000-000000000000"
)

// ownedKeyJSON is a key as its operator sees it.
type ownedKeyJSON struct {
	Hash     string `json:"hash"`
	Name     string `json:"name"`
	Label    string `json:"label"`
	Disabled bool   `json:"disabled"`
	usageJSON
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt *time.Time `json:"updated_at"`
	Workspace string     `json:"workspace_id"`

	Management    bool     `json:"is_management_key"`
	LocalOnly     bool     `json:"local_only"`
	Content       string   `json:"content"`             // "never": prompts and answers are not kept; else "allowed"
	Class         string   `json:"class"`               // "interactive", or "batch": its requests wait behind all others
	Models        []string `json:"models"`              // empty = all
	Providers     []string `json:"providers"`           // empty = all
	ShownCurrency *string  `json:"shown_currency"`      // in which the key itself sees amounts, null = as configured
	Requests      *int64   `json:"requests_per_minute"` // null = no limit
	Tokens        *int64   `json:"tokens_per_minute"`   // likewise

	Kappa   jsontext.Value `json:"kappa"`   // what its time is worth, null = as the class or the model has it
	Explore bool           `json:"explore"` // its requests may try endpoints for the sake of knowing them
}

func (s *Server) ownedKeyJSON(k *hearth.Key, shown hearth.Money) ownedKeyJSON {
	return ownedKeyJSON{
		Hash: k.Hash.String(), Name: k.Name, Label: k.Label, Disabled: k.Disabled, usageJSON: s.usage(k, shown),
		CreatedAt: k.CreatedAt, UpdatedAt: orNullTime(k.UpdatedAt), Workspace: workspace, Management: k.Admin, LocalOnly: k.LocalOnly, Content: contentWord(k.NoContent), Class: k.Class.String(),
		Models: append([]string{}, k.Models...), Providers: append([]string{}, k.Providers...), ShownCurrency: orNull(k.Currency),
		Requests: orNoLimit(k.RequestsPerMinute), Tokens: orNoLimit(k.TokensPerMinute),
		Kappa: kappaJSON(k.Kappa), Explore: !k.NoExplore,
	}
}

// kappaJSON is what a key's time is worth as a number, null if it has none of its own.
func kappaJSON(k hearth.Kappa) jsontext.Value {
	if k == 0 {
		return jsontext.Value("null")
	}
	return jsontext.Value(k.String())
}

// orNoLimit is a limit, nil if there is none.
func orNoLimit(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// The words for whether prompts and answers of a key may be kept.
const (
	contentAllowed = "allowed"
	contentNever   = "never"
)

func contentWord(never bool) string {
	if never {
		return contentNever
	}
	return contentAllowed
}

func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	all, err := strconv.ParseBool(orElse(q.Get("include_disabled"), "false"))
	if err != nil {
		return hearth.Invalid("include_disabled", "must be true or false")
	}
	offset, err := strconv.Atoi(orElse(q.Get("offset"), "0"))
	if err != nil || offset < 0 {
		return hearth.Invalid("offset", "must be how many keys to pass over: an integer from 0 on")
	}
	list, err := s.Accounts.List(r.Context())
	if err != nil {
		return err
	}
	elsewhere := orElse(q.Get("workspace_id"), workspace) != workspace
	list = slices.DeleteFunc(list, func(k hearth.Key) bool { return k.Deleted || k.Disabled && !all || elsewhere })
	list = list[min(offset, len(list)):]
	shown, rows := s.shown(r), make([]ownedKeyJSON, 0, min(keysPage, len(list)))
	for i := range list[:min(keysPage, len(list))] {
		rows = append(rows, s.ownedKeyJSON(&list[i], shown))
	}
	return writeJSON(w, http.StatusOK, struct {
		Data []ownedKeyJSON `json:"data"`
	}{rows})
}

// findKey finds the key whose hash the path names.
func (s *Server) findKey(r *http.Request) (*hearth.Key, error) {
	list, err := s.Accounts.List(r.Context())
	if err != nil {
		return nil, err
	}
	for i := range list {
		if k := &list[i]; !k.Deleted && k.Hash.String() == r.PathValue("hash") {
			return k, nil
		}
	}
	return nil, hearth.Errorf(hearth.ErrNotFound, "no key has this hash, the SHA-256 of the whole key in hex; GET /keys lists those there are")
}

func (s *Server) sendKey(w http.ResponseWriter, r *http.Request, k *hearth.Key) error {
	return writeJSON(w, http.StatusOK, struct {
		Data ownedKeyJSON `json:"data"`
	}{s.ownedKeyJSON(k, s.shown(r))})
}

func (s *Server) showKey(w http.ResponseWriter, r *http.Request) error {
	k, err := s.findKey(r)
	if err != nil {
		return err
	}
	return s.sendKey(w, r, k)
}

func (s *Server) createKey(w http.ResponseWriter, r *http.Request) error {
	shown := s.shown(r)
	body, err := readKeyBody(w, r)
	if err != nil {
		return err
	}
	c, err := body.change(s.Catalog, shown)
	if err != nil {
		return err
	}
	if c.Owner, err = optional(body.Creator, "creator_user_id", text); err != nil {
		return err
	}
	plain, k, err := s.Keys.Create(r.Context(), c.Apply(hearth.Key{}))
	if err != nil {
		return wire(err)
	}
	s.Log.Info("a key was made", "key", k.ID, "by", by(s.asking(r)))
	w.Header().Set("Cache-Control", "no-store") // nobody else is to learn it
	return writeJSON(w, http.StatusCreated, struct {
		Data ownedKeyJSON `json:"data"`
		Key  string       `json:"key"`
	}{s.ownedKeyJSON(&k, shown), plain})
}

func (s *Server) changeKey(w http.ResponseWriter, r *http.Request) error {
	k, err := s.findKey(r)
	if err != nil {
		return err
	}
	body, err := readKeyBody(w, r)
	if err != nil {
		return err
	}
	c, err := body.change(s.Catalog, s.shown(r))
	if err != nil {
		return err
	}
	if c.Disabled != nil && *c.Disabled {
		if err := s.notOwn(r, k, "disable"); err != nil {
			return err
		}
	}
	if c != (hearth.KeyChange{}) {
		changed, err := s.Keys.Change(r.Context(), k.ID, c)
		if err != nil {
			return wire(err)
		}
		k = &changed
		s.Log.Info("a key was changed", "key", k.ID, "by", by(s.asking(r)))
	}
	return s.sendKey(w, r, k)
}

func (s *Server) deleteKey(w http.ResponseWriter, r *http.Request) error {
	k, err := s.findKey(r)
	if err != nil {
		return err
	}
	if err := s.notOwn(r, k, "delete"); err != nil {
		return err
	}
	if err := s.Accounts.Delete(r.Context(), k.ID); err != nil {
		return err
	}
	s.Log.Info("a key was deleted", "key", k.ID, "by", by(s.asking(r)))
	return writeJSON(w, http.StatusOK, struct {
		Deleted bool `json:"deleted"`
	}{true})
}

// notOwn refuses what would lock out who asks for it.
func (s *Server) notOwn(r *http.Request, k *hearth.Key, what string) error {
	if own := s.asking(r); own != nil && own.ID == k.ID {
		return &hearth.Error{Type: hearth.ErrInvalidRequest, Status: http.StatusConflict, Message: "a key cannot " + what + " itself: ask with another admin key"}
	}
	return nil
}

// by names who asks, for the log.
func by(k *hearth.Key) string {
	if k == nil {
		return "operator"
	}
	return k.ID
}

func orElse(s, none string) string {
	if s == "" {
		return none
	}
	return s
}
