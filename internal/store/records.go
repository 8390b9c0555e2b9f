package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"myip.co.kr/hearth"
)

// Filter chooses records. The zero value is all of them.
type Filter struct {
	From, To          time.Time // when their requests arrived, To not included; zero = no bound
	FirstDay, LastDay string    // the days (YYYY-MM-DD, both included) that they are counted to; "" = no bound
	KeyID, Model      string
	Most              Mark // none that was added after it; the zero value = no bound
}

// Mark is a moment in the life of the table of records: those that were there at it can be told from later ones.
type Mark int64

// Stored is a record as it stands in its table.
type Stored struct {
	Row
	Day string // it is counted to
}

// place is where a page ended.
type place struct{ at, row int64 }

// page is how many rows of the table are read in one transaction.
const page = 500

// Each gives fn every record that a filter chooses, by the time of arrival. It reads page after page, each in a short
// transaction of its own, so that it holds nobody up however long fn takes; what is added meanwhile may or may not be
// seen. tick, if not nil, is told how many rows of the table were gone through.
func (s *Store) Each(ctx context.Context, f Filter, fn func(*Stored) error, tick func(rows int)) error {
	list := make([]Stored, 0, page)
	from, to := bounds(f)
	next := place{from, math.MinInt64}
	for {
		var n int
		var err error
		if list, n, err = s.page(ctx, &f, &next, to, list[:0]); err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		for i := range list {
			if err := fn(&list[i]); err != nil {
				return err
			}
		}
		if tick != nil {
			tick(n)
		}
		if n < page {
			return nil
		}
	}
}

// bounds are the first and the last instant of a filter in unix milliseconds, both included. Days are those of the record's
// own zone, which is up to 14 hours from UTC.
func bounds(f Filter) (from, to int64) {
	const zone = 26 * time.Hour
	from, to = math.MinInt64, math.MaxInt64
	if !f.From.IsZero() {
		from = f.From.UnixMilli()
	}
	if !f.To.IsZero() {
		to = f.To.UnixMilli() - 1
	}
	if t, err := time.Parse(time.DateOnly, f.FirstDay); err == nil {
		from = max(from, t.Add(-zone).UnixMilli())
	}
	if t, err := time.Parse(time.DateOnly, f.LastDay); err == nil {
		to = min(to, t.Add(24*time.Hour+zone).UnixMilli())
	}
	return from, to
}

// Where a page begins: at the rows of the same instant that are left, or at those of later ones. In one condition the two
// would go through all rows of that instant each time.
const (
	sameInstant = `created_at = ?6 AND rowid > ?7 AND created_at <= ?8`
	later       = `created_at > ?6 AND ?7 = ?7 AND created_at <= ?8`
)

// selectPage is the statement that reads up to ?9 rows. Of those that the filter does not choose it reads no record.
func selectPage(where string) string {
	return `SELECT rowid, created_at, id, seq, key_id, model, provider, endpoint, prompt_tokens,
			completion_tokens, cost_nano, currency, http, day,
			CASE WHEN (?1 = '' OR key_id = ?1) AND (?2 = '' OR model = ?2) AND (?3 = '' OR day >= ?3) AND (?4 = '' OR day <= ?4)
				AND rowid <= ?5 THEN record END
		FROM generations WHERE ` + where + ` ORDER BY created_at, rowid LIMIT ?9`
}

// page reads the rows behind a place, and moves it. n counts those too that the filter does not choose, so that one
// transaction never goes through more than a page of the table.
func (s *Store) page(ctx context.Context, f *Filter, next *place, to int64, list []Stored) (_ []Stored, n int, err error) {
	for _, where := range []string{sameInstant, later} {
		var more int
		if list, more, err = s.part(ctx, where, f, next, to, page-n, list); err != nil {
			return list, n, err
		}
		if n += more; n == page {
			break
		}
	}
	return list, n, nil
}

func (s *Store) part(ctx context.Context, where string, f *Filter, next *place, to int64, limit int, list []Stored) (_ []Stored, n int, err error) {
	most := int64(f.Most)
	if most == 0 {
		most = math.MaxInt64
	}
	rows, err := s.reader.QueryContext(ctx, selectPage(where), f.KeyID, f.Model, f.FirstDay, f.LastDay, most, next.at, next.row, to, limit)
	if err != nil {
		return list, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Stored
		var seq, cost int64
		if err := rows.Scan(&next.row, &next.at, &r.ID, &seq, &r.KeyID, &r.Model, &r.Provider, &r.Endpoint, &r.PromptTokens,
			&r.CompletionTokens, &cost, &r.Currency, &r.HTTP, &r.Day, &r.Record); err != nil {
			return list, n, err
		}
		if n++; r.Record != nil {
			r.Seq, r.Cost, r.CreatedAt = uint64(seq), hearth.Nano(cost), time.UnixMilli(next.at).UTC()
			list = append(list, r)
		}
	}
	return list, n, rows.Err()
}

// Count is how many rows of the table Each will go through.
func (s *Store) Count(ctx context.Context, f Filter) (n int, err error) {
	from, to := bounds(f)
	err = s.reader.QueryRowContext(ctx, `SELECT count(*) FROM generations WHERE created_at >= ? AND created_at <= ?`, from, to).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count records: %w", err)
	}
	return n, nil
}

// Sums are the sums of days at a mark.
type Sums struct {
	Mark    Mark
	Spend   []Spend // what was spent, by key, day, model, provider and currency
	Deleted []Spend // the part of it whose records were deleted
}

// Sums reads all sums of days, and marks which records they are made of: those of before the mark, and the deleted ones.
func (s *Store) Sums(ctx context.Context) (v Sums, err error) {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return v, fmt.Errorf("read sums: %w", err)
	}
	defer tx.Rollback()
	var mark sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT max(rowid) FROM generations`).Scan(&mark); err != nil {
		return v, fmt.Errorf("read sums: %w", err)
	}
	if v.Mark = Mark(mark.Int64); !mark.Valid {
		v.Mark = -1 // there is none yet: the first has row 1
	}
	if v.Spend, err = readSums(ctx, tx, tableSpend); err != nil {
		return v, err
	}
	v.Deleted, err = readSums(ctx, tx, tableDeleted)
	return v, err
}

func readSums(ctx context.Context, tx *sql.Tx, table string) ([]Spend, error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+spendColumns+` FROM `+table+` ORDER BY key_id, day, model, provider, currency`)
	if err != nil {
		return nil, fmt.Errorf("read sums: %w", err)
	}
	return scanSpend(rows)
}

const spendColumns = `key_id, day, model, provider, currency, cost_nano, requests, prompt_tokens, completion_tokens`

// scanSpend reads rows of spendColumns to their end.
func scanSpend(rows *sql.Rows) (list []Spend, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v Spend
		var cost int64
		if err := rows.Scan(&v.KeyID, &v.Day, &v.Model, &v.Provider, &v.Currency, &cost, &v.Requests,
			&v.PromptTokens, &v.CompletionTokens); err != nil {
			return nil, fmt.Errorf("read spend: %w", err)
		}
		v.Cost = hearth.Nano(cost)
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read spend: %w", err)
	}
	return list, nil
}
