package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// Row is a generation on its way from the journal to its table.
type Row struct {
	Seq              uint64
	ID, KeyID        string
	CreatedAt        time.Time // its zone rules the day its cost is counted to
	Model            string
	Provider         string // slug
	Endpoint         string
	PromptTokens     int64
	CompletionTokens int64
	ReasoningTokens  int64 // of CompletionTokens
	Cost             hearth.Nano
	Currency         string
	HTTP             int
	Record           []byte // JSON, as it stands in the journal
}

const rowColumns = 14

// NewRow makes the row of g; record is its JSON.
func NewRow(seq uint64, g *hearth.Generation, record []byte) Row {
	return Row{
		Seq: seq, ID: g.ID, KeyID: g.KeyID, CreatedAt: g.CreatedAt,
		Model: g.Model, Provider: g.Slug, Endpoint: g.Endpoint,
		PromptTokens: g.Usage.PromptTokens, CompletionTokens: g.Usage.CompletionTokens, ReasoningTokens: g.Usage.ReasoningTokens,
		Cost: g.Bill.Cost, Currency: g.Bill.Currency, HTTP: g.HTTP, Record: record,
	}
}

func (r *Row) appendArgs(args []any) []any {
	return append(args, r.ID, int64(r.Seq), r.KeyID, r.CreatedAt.UnixMilli(), r.Model, r.Provider, r.Endpoint,
		r.PromptTokens, r.CompletionTokens, int64(r.Cost), r.Currency, r.HTTP, r.Record, r.day())
}

// day is the date that spend counts the row to.
func (r *Row) day() string { return r.CreatedAt.Format(time.DateOnly) }

// insertRows is the statement that inserts n rows whose ids are not there yet. OR FAIL: the transaction is given up after any
// error, so SQLite need not be able to undo half a statement, for which it would copy each page to a file.
func insertRows(n int) string {
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", rowColumns), ",") + ")"
	return `INSERT OR FAIL INTO generations (id, seq, key_id, created_at, model, provider, endpoint,
		prompt_tokens, completion_tokens, cost_nano, currency, http, record, day) VALUES ` +
		strings.TrimSuffix(strings.Repeat(one+",", n), ",") + ` ON CONFLICT (id) DO NOTHING`
}

// chunk is how many rows one statement inserts.
const chunk = 32

// errDuplicate ends the fast way of Apply.
var errDuplicate = errors.New("an id was there already")

// Apply inserts rows of a journal, adds what was really inserted to the spend, and notes lastSeq as the last
// sequence of that journal that is in the database: all or nothing. A row whose id is there already is passed over.
// It returns how many rows were inserted.
func (s *Store) Apply(ctx context.Context, journal string, lastSeq uint64, rows []Row) (int, error) {
	n, err := s.apply(ctx, journal, lastSeq, rows, false)
	if errors.Is(err, errDuplicate) {
		n, err = s.apply(ctx, journal, lastSeq, rows, true)
	}
	if err != nil {
		return 0, fmt.Errorf("apply %d records: %w", len(rows), err)
	}
	return n, nil
}

// apply is Apply; unless singly, it inserts many rows with one statement and gives up with errDuplicate if one of
// them was there, because it cannot tell which.
func (s *Store) apply(ctx context.Context, journal string, lastSeq uint64, rows []Row, singly bool) (int, error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // no effect after Commit
	inserted := rows
	if singly {
		inserted, err = s.insertSingly(ctx, tx, rows)
	} else {
		err = s.insertChunks(ctx, tx, rows)
	}
	if err != nil {
		return 0, err
	}
	if err := addSpend(ctx, tx, tableSpend, inserted); err != nil {
		return 0, err
	}
	if err := setApplied(ctx, tx, journal, lastSeq); err != nil {
		return 0, err
	}
	return len(inserted), tx.Commit()
}

func (s *Store) insertChunks(ctx context.Context, tx *sql.Tx, rows []Row) error {
	many, one := tx.StmtContext(ctx, s.insertChunk), tx.StmtContext(ctx, s.insertOne)
	args := make([]any, 0, chunk*rowColumns)
	insert := func(stmt *sql.Stmt, part []Row) error {
		args = args[:0]
		for i := range part {
			args = part[i].appendArgs(args)
		}
		r, err := stmt.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n != int64(len(part)) {
			return errors.Join(errDuplicate, err)
		}
		return nil
	}
	for len(rows) >= chunk {
		if err := insert(many, rows[:chunk]); err != nil {
			return err
		}
		rows = rows[chunk:]
	}
	for i := range rows {
		if err := insert(one, rows[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) insertSingly(ctx context.Context, tx *sql.Tx, rows []Row) ([]Row, error) {
	one := tx.StmtContext(ctx, s.insertOne)
	var inserted []Row
	args := make([]any, 0, rowColumns)
	for i := range rows {
		r, err := one.ExecContext(ctx, rows[i].appendArgs(args[:0])...)
		if err != nil {
			return nil, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n == 1 {
			inserted = append(inserted, rows[i])
		}
	}
	return inserted, nil
}

func setApplied(ctx context.Context, tx *sql.Tx, journal string, seq uint64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES ('applied:' || ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)`, journal, int64(seq))
	return err
}

// Applied is the last sequence of a journal that is in the database, 0 = none.
func (s *Store) Applied(ctx context.Context, journal string) (uint64, error) {
	var seq int64
	err := s.reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'applied:' || ?`, journal).Scan(&seq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read last applied sequence: %w", err)
	}
	return uint64(seq), nil
}

// Record reads the JSON of a generation; ErrNotFound.
func (s *Store) Record(ctx context.Context, id string) ([]byte, error) {
	var record []byte
	err := s.reader.QueryRowContext(ctx, `SELECT record FROM generations WHERE id = ?`, id).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read generation: %w", ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read generation: %w", err)
	}
	return record, nil
}

// Generations counts the generations.
func (s *Store) Generations(ctx context.Context) (int, error) {
	var n int
	if err := s.reader.QueryRowContext(ctx, `SELECT count(*) FROM generations`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count generations: %w", err)
	}
	return n, nil
}
