package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// SaveLearned keeps what was learned of endpoints, in place of what was kept before. The store does not know what is in
// it; version says how it is to be read. It takes one short transaction, and is not flushed to the disk.
func (s *Store) SaveLearned(ctx context.Context, version int, state []byte) error {
	_, err := s.writer.ExecContext(ctx, `INSERT INTO learned (id, version, state) VALUES (1, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, state = excluded.state`, version, state)
	if err != nil {
		return fmt.Errorf("keep what was learned of endpoints: %w", err)
	}
	return nil
}

// Learned is what SaveLearned kept last. The error is ErrNotFound if there is none.
func (s *Store) Learned(ctx context.Context) (version int, state []byte, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT version, state FROM learned WHERE id = 1`).Scan(&version, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil, ErrNotFound
	case err != nil:
		return 0, nil, fmt.Errorf("read what was learned of endpoints: %w", err)
	}
	return version, state, nil
}
