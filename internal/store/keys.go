package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"myip.co.kr/hearth"
)

// ErrKeyExists is returned when a key with the same hash is there already.
var ErrKeyExists = errors.New("key exists already")

// InsertKey adds a key.
func (s *Store) InsertKey(ctx context.Context, k hearth.Key) error {
	_, err := s.writer.ExecContext(ctx,
		`INSERT INTO keys (id, hash, name, label, admin, disabled, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		k.ID, k.Hash[:], k.Name, k.Label, k.Admin, k.Disabled, k.CreatedAt.UnixMilli())
	if code(err) == codeConflict {
		return fmt.Errorf("insert key %s: %w", k.ID, ErrKeyExists)
	}
	if err != nil {
		return fmt.Errorf("insert key %s: %w", k.ID, err)
	}
	return nil
}

// Keys reads all keys, oldest first.
func (s *Store) Keys(ctx context.Context) ([]hearth.Key, error) {
	rows, err := s.reader.QueryContext(ctx,
		`SELECT id, hash, name, label, admin, disabled, created_at FROM keys ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer rows.Close()
	var keys []hearth.Key
	for rows.Next() {
		var k hearth.Key
		var hash []byte
		var created int64
		if err := rows.Scan(&k.ID, &hash, &k.Name, &k.Label, &k.Admin, &k.Disabled, &created); err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		if copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
			return nil, fmt.Errorf("read keys: hash of %s has %d bytes, want %d", k.ID, len(hash), len(k.Hash))
		}
		k.CreatedAt = time.UnixMilli(created).UTC()
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return keys, nil
}

// DisableKey switches a key off, or on again.
func (s *Store) DisableKey(ctx context.Context, id string, disabled bool) error {
	r, err := s.writer.ExecContext(ctx, `UPDATE keys SET disabled = ? WHERE id = ?`, disabled, id)
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
