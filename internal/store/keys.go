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

// InsertKey adds a key.
func (s *Store) InsertKey(ctx context.Context, k hearth.Key) error {
	models, providers, err := lists(&k.Models, &k.Providers)
	if err != nil {
		return fmt.Errorf("insert key %s: %w", k.ID, err)
	}
	_, err = s.writer.ExecContext(ctx, `INSERT INTO keys (id, hash, name, label, admin, disabled, created_at,
		models, providers, local_only, early_headers, spend_limit, limit_reset, external_limit, currency)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.ID, k.Hash[:], k.Name, k.Label, k.Admin, k.Disabled, k.CreatedAt.UnixMilli(),
		models, providers, k.LocalOnly, k.EarlyHeaders.Milliseconds(), int64(k.Limit), string(k.LimitReset), int64(k.ExternalLimit), k.Currency)
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

// Keys reads all keys, oldest first.
func (s *Store) Keys(ctx context.Context) ([]hearth.Key, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT id, hash, name, label, admin, disabled, created_at,
		models, providers, local_only, early_headers, spend_limit, limit_reset, external_limit, currency FROM keys ORDER BY created_at, id`)
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
	var created, early, limit, external int64
	if err := rows.Scan(&k.ID, &hash, &k.Name, &k.Label, &k.Admin, &k.Disabled, &created,
		&models, &providers, &k.LocalOnly, &early, &limit, (*string)(&k.LimitReset), &external, &k.Currency); err != nil {
		return k, err
	}
	if copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
		return k, fmt.Errorf("hash of %s has %d bytes, want %d", k.ID, len(hash), len(k.Hash))
	}
	k.CreatedAt = time.UnixMilli(created).UTC()
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

// ChangeKey changes what a key may use, in one step: what c does not name keeps the value that another process may have
// set meanwhile.
func (s *Store) ChangeKey(ctx context.Context, id string, c hearth.KeyChange) error {
	models, providers, err := lists(c.Models, c.Providers)
	if err != nil {
		return fmt.Errorf("change key %s: %w", id, err)
	}
	var early any
	if c.EarlyHeaders != nil {
		early = c.EarlyHeaders.Milliseconds()
	}
	return s.updateKey(ctx, id, `UPDATE keys SET models = coalesce(?, models), providers = coalesce(?, providers),
		local_only = coalesce(?, local_only), early_headers = coalesce(?, early_headers),
		spend_limit = coalesce(?, spend_limit), limit_reset = coalesce(?, limit_reset),
		external_limit = coalesce(?, external_limit), currency = coalesce(?, currency) WHERE id = ?`,
		models, providers, c.LocalOnly, early, (*int64)(c.Limit), (*string)(c.LimitReset), (*int64)(c.ExternalLimit), c.Currency, id)
}

// DisableKey switches a key off, or on again.
func (s *Store) DisableKey(ctx context.Context, id string, disabled bool) error {
	return s.updateKey(ctx, id, `UPDATE keys SET disabled = ? WHERE id = ?`, disabled, id)
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

// DeleteKey removes a key: for one that nobody was told. Keys that were in use are disabled instead, so that records
// still say whose they are.
func (s *Store) DeleteKey(ctx context.Context, id string) error {
	if _, err := s.writer.ExecContext(ctx, `DELETE FROM keys WHERE id = ?`, id); err != nil {
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
