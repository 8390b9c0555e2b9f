package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"
)

// contentsVersion is that of the tables of a file of contents.
const contentsVersion = 1

// Contents is an open file with the prompts and answers of generations. It is a file of its own, so that they neither count
// to the size of the records nor go where copies of those go. What is deleted from it is overwritten.
type Contents struct {
	path           string
	writer, reader *sql.DB
	clean          bool // what was deleted is gone from the write-ahead log too
}

// ContentRow is what is kept of one generation.
type ContentRow struct {
	ID       string
	At       time.Time // when its request arrived
	Document []byte    // JSON
}

// OpenContents opens the file at path and creates it, with mode 0600, if it is not there. The caller must Close it.
func OpenContents(ctx context.Context, path string) (*Contents, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open contents: %w", err)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	c := &Contents{path: path}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(explain(path, err), c.Close())
	}
	return c, nil
}

func (c *Contents) open(ctx context.Context) (err error) {
	if c.writer, err = sql.Open("sqlite", dsn(c.path, `"main".auto_vacuum(incremental)`, "secure_delete(1)")); err != nil {
		return err
	}
	c.writer.SetMaxOpenConns(1)
	c.writer.SetMaxIdleConns(1)
	if err := retryBusy(ctx, func() error { return c.migrate(ctx) }); err != nil {
		return err
	}
	if c.reader, err = sql.Open("sqlite", dsn(c.path, "query_only(1)")); err != nil {
		return err
	}
	c.reader.SetMaxOpenConns(1)
	c.reader.SetMaxIdleConns(1)
	return nil
}

func (c *Contents) migrate(ctx context.Context) error {
	var v int
	if err := c.writer.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&v); err != nil {
		return err
	}
	if v > contentsVersion {
		return fmt.Errorf("its tables have version %d, this hearth knows %d: start a newer hearth, or delete the file", v, contentsVersion)
	}
	if v == contentsVersion {
		return nil
	}
	_, err := c.writer.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS contents (
			id         TEXT NOT NULL UNIQUE,
			created_at INTEGER NOT NULL, -- unix milliseconds
			document   BLOB NOT NULL     -- JSON
		);
		CREATE INDEX IF NOT EXISTS contents_created ON contents (created_at);
		PRAGMA user_version = 1`)
	return err
}

// Insert adds contents, all or none. One whose id is there already is passed over.
func (c *Contents) Insert(ctx context.Context, rows []ContentRow) error {
	tx, err := c.writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("insert contents: %w", err)
	}
	defer tx.Rollback() // no effect after Commit
	for i := range rows {
		r := &rows[i]
		if _, err := tx.ExecContext(ctx, `INSERT INTO contents (id, created_at, document) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, r.At.UnixMilli(), r.Document); err != nil {
			return fmt.Errorf("insert contents: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("insert contents: %w", err)
	}
	return nil
}

// Content reads the document of a generation; ErrNotFound.
func (c *Contents) Content(ctx context.Context, id string) ([]byte, error) {
	var doc []byte
	err := c.reader.QueryRowContext(ctx, `SELECT document FROM contents WHERE id = ?`, id).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read content: %w", ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	return doc, nil
}

// Forget deletes up to limit contents that are of before an instant, or else some of the oldest, while the file uses more
// than maxBytes (0 = no bound). It returns how many. Their bytes are then in no file any more, unless somebody reads at that
// moment: the next call sees to it. One caller at a time.
func (c *Contents) Forget(ctx context.Context, before time.Time, maxBytes int64, limit int) (n int, err error) {
	if n, err = c.delete(ctx, before.UnixMilli(), limit); err != nil {
		return n, err
	}
	if maxBytes > 0 && n == 0 {
		used, err := c.used(ctx)
		if err != nil {
			return n, err
		}
		if used > maxBytes {
			if n, err = c.delete(ctx, math.MaxInt64, max(limit/8, 1)); err != nil {
				return n, err
			}
		}
	}
	if n > 0 {
		c.clean = false
	}
	if c.clean {
		return n, nil
	}
	return n, c.wipe(ctx)
}

// wipe gives free pages back and empties the write-ahead log, which has the old pages.
func (c *Contents) wipe(ctx context.Context) error {
	rows, err := c.writer.QueryContext(ctx, `PRAGMA incremental_vacuum`)
	if err != nil {
		return fmt.Errorf("shrink contents: %w", err)
	}
	for rows.Next() { // a page each
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("shrink contents: %w", err)
	}
	var busy, inLog, moved int
	if err := c.writer.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &inLog, &moved); err != nil {
		return fmt.Errorf("empty the log of contents: %w", err)
	}
	c.clean = busy == 0
	return nil
}

func (c *Contents) delete(ctx context.Context, before int64, limit int) (int, error) {
	r, err := c.writer.ExecContext(ctx, `DELETE FROM contents WHERE rowid IN
		(SELECT rowid FROM contents WHERE created_at < ? ORDER BY created_at LIMIT ?)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete contents: %w", err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("delete contents: %w", err)
	}
	return int(n), nil
}

// used is how many bytes of the file hold something.
func (c *Contents) used(ctx context.Context) (int64, error) {
	var pages, free, size int64
	for pragma, v := range map[string]*int64{"page_count": &pages, "freelist_count": &free, "page_size": &size} {
		if err := c.writer.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(v); err != nil {
			return 0, fmt.Errorf("read size of contents: %w", err)
		}
	}
	return (pages - free) * size, nil
}

// Close closes the file.
func (c *Contents) Close() error {
	var errs []error
	for _, db := range []*sql.DB{c.reader, c.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
