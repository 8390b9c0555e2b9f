package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"myip.co.kr/hearth"
)

// forgetRows is how many records are deleted in one transaction: what it takes is what the applier may have to wait.
const forgetRows = 200

// Forget deletes the oldest records whose requests arrived before an instant, up to a few hundred in one short transaction,
// and returns how many those were: 0 = there are none. The sums of days keep counting them. A zero instant is any time: the
// oldest there are.
func (s *Store) Forget(ctx context.Context, before time.Time) (int, error) {
	most := int64(math.MaxInt64)
	if !before.IsZero() {
		most = before.UnixMilli()
	}
	n, err := s.forget(ctx, most)
	if err != nil {
		return 0, fmt.Errorf("delete old records: %w", err)
	}
	return n, nil
}

func (s *Store) forget(ctx context.Context, before int64) (int, error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // no effect after Commit
	old, last, err := oldest(ctx, tx, before)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	if err := addSpend(ctx, tx, tableDeleted, old); err != nil {
		return 0, err
	}
	for _, where := range []string{`created_at < ?1 AND ?2 = ?2`, `created_at = ?1 AND rowid <= ?2`} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM generations WHERE `+where, last.at, last.row); err != nil {
			return 0, err
		}
	}
	return len(old), tx.Commit()
}

// oldest reads what the oldest rows are summed by, and where they end.
func oldest(ctx context.Context, tx *sql.Tx, before int64) (old []Row, last place, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT created_at, rowid, key_id, day, model, provider, currency, cost_nano, prompt_tokens, completion_tokens,
			CASE WHEN json_valid(CAST(record AS TEXT)) THEN json_extract(CAST(record AS TEXT), '$.usage.reasoning_tokens') END
		FROM generations WHERE created_at < ? ORDER BY created_at, rowid LIMIT ?`, before, forgetRows)
	if err != nil {
		return nil, last, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		var day string
		var cost int64
		var reasoning sql.NullInt64
		if err := rows.Scan(&last.at, &last.row, &r.KeyID, &day, &r.Model, &r.Provider, &r.Currency, &cost, &r.PromptTokens, &r.CompletionTokens, &reasoning); err != nil {
			return nil, last, err
		}
		if r.CreatedAt, err = time.Parse(time.DateOnly, day); err != nil { // the record could not be read when days got their column
			r.CreatedAt = time.UnixMilli(last.at).UTC()
		}
		r.Cost, r.ReasoningTokens = hearth.Nano(cost), reasoning.Int64
		old = append(old, r)
	}
	return old, last, rows.Err()
}

// Size is how much of the database file is in use, in bytes, and how large the file is.
func (s *Store) Size(ctx context.Context) (used, file int64, err error) {
	var pages, free, size int64
	for pragma, to := range map[string]*int64{"page_count": &pages, "freelist_count": &free, "page_size": &size} {
		if err := s.writer.QueryRowContext(ctx, `PRAGMA `+pragma).Scan(to); err != nil {
			return 0, 0, fmt.Errorf("read size of the database: %w", err)
		}
	}
	return (pages - free) * size, pages * size, nil
}

// shrinkPages is how many pages are given back in one transaction.
const shrinkPages = 256

// Shrink gives a few MiB of the file that are not in use back to the system. It does nothing to a file that was made before
// hearth could do this: what is free there is used again, but not given back.
func (s *Store) Shrink(ctx context.Context) error {
	rows, err := s.writer.QueryContext(ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, shrinkPages))
	if err != nil {
		return fmt.Errorf("shrink the database: %w", err)
	}
	defer rows.Close()
	for rows.Next() { // a step for each page
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("shrink the database: %w", err)
	}
	return nil
}
