package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"myip.co.kr/hearth"
)

// ErrKeyExists is returned when a key with the same hash is there already.
var ErrKeyExists = errors.New("key exists already")

const keyColumns = `id, hash, name, label, admin, disabled, deleted, created_at, updated_at, expires_at, owner,
	models, providers, local_only, early_headers, spend_limit, limit_reset, external_limit, currency, no_content, class,
	requests_per_minute, tokens_per_minute, kappa, no_explore`

// millis is an instant in unix milliseconds, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// instant is what millis was made of, in UTC.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// InsertKey adds a key.
func (s *Store) InsertKey(ctx context.Context, k hearth.Key) error {
	models, providers, err := lists(&k.Models, &k.Providers)
	if err != nil {
		return fmt.Errorf("insert key %s: %w", k.ID, err)
	}
	_, err = s.writer.ExecContext(ctx, `INSERT INTO keys (`+keyColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.ID, k.Hash[:], k.Name, k.Label, k.Admin, k.Disabled, k.Deleted, k.CreatedAt.UnixMilli(), millis(k.UpdatedAt), millis(k.ExpiresAt), k.Owner,
		models, providers, k.LocalOnly, k.EarlyHeaders.Milliseconds(), int64(k.Limit), string(k.LimitReset), int64(k.ExternalLimit), k.Currency, k.NoContent, string(k.Class),
		k.RequestsPerMinute, k.TokensPerMinute, int64(k.Kappa), k.NoExplore)
	if code(err) == codeConflict {
		return fmt.Errorf("insert key %s: %w", k.ID, ErrKeyExists)
	}
	if err != nil {
		return fmt.Errorf("insert key %s: %w", k.ID, err)
	}
	return nil
}

// lists are the JSON of the names a key may use; nil for a list that is not given.
func lists(models, providers *[]string) (m, p any, err error) {
	if m, err = list(models); err != nil {
		return nil, nil, err
	}
	p, err = list(providers)
	return m, p, err
}

func list(names *[]string) (any, error) {
	if names == nil {
		return nil, nil
	}
	b, err := json.Marshal(*names) // of nil: []
	return string(b), err
}

// Keys reads all keys, oldest first, those that were deleted among them.
func (s *Store) Keys(ctx context.Context) ([]hearth.Key, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT `+keyColumns+` FROM keys ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer rows.Close()
	var keys []hearth.Key
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return keys, nil
}

func scanKey(rows *sql.Rows) (k hearth.Key, err error) {
	var hash, models, providers []byte
	var created, updated, expires, early, limit, external int64
	if err := rows.Scan(&k.ID, &hash, &k.Name, &k.Label, &k.Admin, &k.Disabled, &k.Deleted, &created, &updated, &expires, &k.Owner,
		&models, &providers, &k.LocalOnly, &early, &limit, (*string)(&k.LimitReset), &external, &k.Currency, &k.NoContent, (*string)(&k.Class),
		&k.RequestsPerMinute, &k.TokensPerMinute, (*int64)(&k.Kappa), &k.NoExplore); err != nil {
		return k, err
	}
	if copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
		return k, fmt.Errorf("hash of %s has %d bytes, want %d", k.ID, len(hash), len(k.Hash))
	}
	k.CreatedAt, k.UpdatedAt, k.ExpiresAt = time.UnixMilli(created).UTC(), instant(updated), instant(expires)
	k.EarlyHeaders = time.Duration(early) * time.Millisecond
	k.Limit, k.ExternalLimit = hearth.Nano(limit), hearth.Nano(external)
	// A list that cannot be read must not become an empty one, which would allow everything.
	if k.Models, err = names(models); err != nil {
		return k, fmt.Errorf("models of %s: %w", k.ID, err)
	}
	if k.Providers, err = names(providers); err != nil {
		return k, fmt.Errorf("providers of %s: %w", k.ID, err)
	}
	return k, nil
}

// names reads a JSON list; an empty one is nil.
func names(b []byte) (list []string, err error) {
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	switch {
	case list == nil:
		return nil, errors.New("not a list")
	case len(list) == 0:
		return nil, nil
	}
	return list, nil
}

// ChangeKey changes a key that was not deleted, in one step: what c does not name keeps the value that another process may
// have set meanwhile. at is when that is.
func (s *Store) ChangeKey(ctx context.Context, id string, c hearth.KeyChange, at time.Time) error {
	models, providers, err := lists(c.Models, c.Providers)
	if err != nil {
		return fmt.Errorf("change key %s: %w", id, err)
	}
	var early, expires any
	if c.ExpiresAt != nil {
		expires = millis(*c.ExpiresAt)
	}
	if c.EarlyHeaders != nil {
		early = c.EarlyHeaders.Milliseconds()
	}
	return s.updateKey(ctx, id, `UPDATE keys SET updated_at = ?, name = coalesce(?, name), disabled = coalesce(?, disabled),
		expires_at = coalesce(?, expires_at), owner = coalesce(?, owner), models = coalesce(?, models), providers = coalesce(?, providers),
		local_only = coalesce(?, local_only), early_headers = coalesce(?, early_headers),
		spend_limit = coalesce(?, spend_limit), limit_reset = coalesce(?, limit_reset),
		external_limit = coalesce(?, external_limit), currency = coalesce(?, currency), no_content = coalesce(?, no_content), class = coalesce(?, class),
		requests_per_minute = coalesce(?, requests_per_minute), tokens_per_minute = coalesce(?, tokens_per_minute),
		kappa = coalesce(?, kappa), no_explore = coalesce(?, no_explore) WHERE id = ? AND NOT deleted`,
		millis(at), c.Name, c.Disabled, expires, c.Owner, models, providers, c.LocalOnly, early, (*int64)(c.Limit), (*string)(c.LimitReset), (*int64)(c.ExternalLimit), c.Currency, c.NoContent, (*string)(c.Class),
		c.RequestsPerMinute, c.TokensPerMinute, (*int64)(c.Kappa), c.NoExplore, id)
}

// RetireKey disables a key for good. at is when that is.
func (s *Store) RetireKey(ctx context.Context, id string, at time.Time) error {
	return s.updateKey(ctx, id, `UPDATE keys SET disabled = 1, deleted = 1, updated_at = ? WHERE id = ? AND NOT deleted`, millis(at), id)
}

// updateKey runs a statement that changes one key.
func (s *Store) updateKey(ctx context.Context, id, statement string, args ...any) error {
	r, err := s.writer.ExecContext(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("change key %s: %w", id, err)
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(fmt.Errorf("change key %s: %w", id, ErrNotFound), err)
	}
	return nil
}

// DeleteKey removes a key, unless something was recorded of it: records still have to say whose they are.
func (s *Store) DeleteKey(ctx context.Context, id string) error {
	if _, err := s.writer.ExecContext(ctx, `DELETE FROM keys WHERE id = ? AND NOT EXISTS (SELECT 1 FROM spend WHERE key_id = keys.id)`, id); err != nil {
		return fmt.Errorf("delete key %s: %w", id, err)
	}
	return nil
}

// KeysVersion changes whenever a key is added, changed or deleted, by this process or another.
func (s *Store) KeysVersion(ctx context.Context) (int64, error) {
	var v int64
	if err := s.reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'keys_version'`).Scan(&v); err != nil {
		return 0, fmt.Errorf("read version of keys: %w", err)
	}
	return v, nil
}
