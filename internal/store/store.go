// Package store keeps keys, generations and spend in an SQLite file. Several processes may have it open at once.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
)

//go:embed migrations/sqlite/*.sql
var migrations embed.FS

// ErrNotFound is returned when there is no such row.
var ErrNotFound = errors.New("not found")

const (
	// busyTimeout is how long a statement waits for another process's transaction.
	busyTimeout = 5 * time.Second
	readers     = 4
	// keepWAL is the size in bytes to which a write-ahead log is cut after a checkpoint.
	keepWAL = 16 << 20
)

// Store is an open database file. Its methods may be called from many goroutines.
type Store struct {
	path   string
	file   os.FileInfo // as it was opened
	writer *sql.DB     // one connection
	reader *sql.DB     // a few connections that cannot write
	salt   []byte

	insertOne, insertChunk *sql.Stmt // of the writer; they live as long as it
}

// Open opens the database at path, creates it (and its directory) with mode 0600 (0700) if it is not there, and
// brings its tables up to date. The caller must Close it.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	s := &Store{path: path}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(explain(path, err), s.Close())
	}
	if s.file, err = os.Stat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), s.Close())
	}
	return s, nil
}

// Present is an error if the database's file is no longer where it was opened: it was moved away, deleted or replaced.
// What is written then goes into a file that nobody finds again.
func (s *Store) Present() error {
	now, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the database %s is gone: put it back or start again; records stay in the journal until then", s.path)
	case err != nil:
		return fmt.Errorf("look for the database: %w", err)
	case !os.SameFile(now, s.file):
		return fmt.Errorf("the database %s was replaced by another file: start again; records stay in the journal until then", s.path)
	}
	return nil
}

func prepareFile(path string) error {
	const remedy = "give the user that runs hearth write permission there, or configure another path"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create the database's directory: %w (%s)", err, remedy)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open database: %w (%s)", err, remedy)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("open database: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("open database %s: not a regular file (configure the path of a file)", path)
	case info.Mode().Perm()&0o077 != 0:
		// The files SQLite puts beside it take over its mode.
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("database %s can be read by other users and its mode cannot be changed: %w", path, err)
		}
	}
	return nil
}

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.writer, err = sql.Open("sqlite", dsn(s.path, "wal_autocheckpoint(0)")); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	s.writer.SetMaxIdleConns(1)
	if err := retryBusy(ctx, func() error { return s.migrate(ctx) }); err != nil {
		return err
	}
	if s.insertOne, err = s.writer.PrepareContext(ctx, insertRows(1)); err != nil {
		return err
	}
	if s.insertChunk, err = s.writer.PrepareContext(ctx, insertRows(chunk)); err != nil {
		return err
	}
	if s.reader, err = sql.Open("sqlite", dsn(s.path, "query_only(1)")); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(readers)
	s.reader.SetMaxIdleConns(readers)
	return s.readSalt(ctx)
}

// dsn names the file and what every connection to it is set to.
func dsn(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}}
	// Large pages: records are about a kilobyte and come in batches, so that a quarter of the writes to the log is
	// enough. The quotes put these first, in this order: the driver runs pragmas in alphabetical order, and what the pages of
	// a file are can only be set before its journal mode.
	q["_pragma"] = append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), // first: the next ones may meet a lock
		`"main".page_size(16384)`, `[main].auto_vacuum(INCREMENTAL)`, "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-4096)",
		fmt.Sprintf("journal_size_limit(%d)", keepWAL),
	}, pragmas...)
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// migrate brings the tables up to date. Another process may be doing the same: the loser of the race looks again.
func (s *Store) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.writer, dir,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	const tries = 5
	for i := 1; ; i++ {
		current, target, err := p.GetVersions(ctx)
		if err == nil && current > target {
			return fmt.Errorf("its tables have version %d, this hearth knows %d: start a newer hearth, or restore the backup made before the upgrade", current, target)
		}
		if err == nil {
			if current == target {
				return nil
			}
			_, err = p.Up(ctx)
		}
		if err == nil || i == tries || ctx.Err() != nil {
			return err
		}
	}
}

// readSalt reads the installation's salt, or draws one.
func (s *Store) readSalt(ctx context.Context) error {
	salt := make([]byte, 32)
	if _, err := rand.Read(salt); err != nil {
		return fmt.Errorf("draw salt: %w", err)
	}
	err := s.reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'salt'`).Scan(&s.salt)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if _, err := s.writer.ExecContext(ctx,
		`INSERT INTO meta (name, value) VALUES ('salt', ?) ON CONFLICT DO NOTHING`, salt); err != nil {
		return err
	}
	return s.reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'salt'`).Scan(&s.salt)
}

// Salt is 32 random bytes drawn when the database was made; the caller must not change them.
func (s *Store) Salt() []byte { return s.salt }

// Checkpoint moves the write-ahead log into the database file, without holding up the writer. True: everything
// committed before the call would survive a power cut.
func (s *Store) Checkpoint(ctx context.Context) (bool, error) {
	var busy, inLog, moved int
	err := s.reader.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &inLog, &moved)
	if err != nil {
		return false, fmt.Errorf("checkpoint: %w", err)
	}
	return busy == 0 && inLog == moved, nil
}

// Close closes the file.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// retryBusy tries again where SQLite answers "busy" at once instead of waiting: while the file is turned to
// write-ahead logging by another process.
func retryBusy(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(busyTimeout)
	for {
		err := f()
		if code(err) != codeBusy || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Primary result codes of SQLite, https://sqlite.org/rescode.html.
const (
	codeBusy     = 5
	codeReadOnly = 8
	codeIOErr    = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeConflict = 19
	codeNotADB   = 26
)

// code is the primary result code of an SQLite error, 0 if err is none.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// explain adds what the operator can do about err.
func explain(path string, err error) error {
	remedy := ""
	switch code(err) {
	case codeBusy:
		remedy = "another process holds a transaction on it; end that process"
	case codeReadOnly, codeCantOpen:
		remedy = "give the user that runs hearth write permission for the file and its directory"
	case codeIOErr:
		remedy = "the disk failed; see the system log"
	case codeFull:
		remedy = "make space on the disk"
	case codeCorrupt, codeNotADB:
		remedy = "the file is damaged or no SQLite database; restore a backup, or move the file away to begin an empty one: what the journal still holds is recorded again, keys must be made anew"
	}
	if remedy == "" {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	return fmt.Errorf("open database %s: %w (%s)", path, err, remedy)
}
