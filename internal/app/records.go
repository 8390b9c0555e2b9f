package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/store"
)

// Records are the records of a configuration's database, for commands. A gateway may be running on it: what it finished
// within the last second may not be there yet.
type Records struct {
	store   *store.Store
	catalog *hearth.Catalog
	zone    *time.Location
	keys    []hearth.Key
	prefix  string // of keys
}

// OpenRecords opens the records. It makes no database.
func OpenRecords(ctx context.Context, cfg *config.Config) (*Records, error) {
	if _, err := os.Stat(databasePath(cfg)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there are no records: no gateway has run with the data_dir %s yet", cfg.DataDir)
	}
	r := &Records{prefix: cfg.KeyPrefix}
	var err error
	if r.catalog, err = cfg.Catalog(); err != nil {
		return nil, err
	}
	if r.zone, err = cfg.Location(); err != nil {
		return nil, err
	}
	if r.store, err = OpenStore(ctx, cfg); err != nil {
		return nil, err
	}
	if r.keys, err = r.store.Keys(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close closes the database.
func (r *Records) Close() error {
	if err := r.store.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// Wanted says in words which records are wanted. Empty words are all.
type Wanted struct {
	From, To string // a day (2026-11-01; To with all of it) in the configured zone, or an instant (RFC 3339; To not included)
	Key      string // id, name or label
	Model    string // id or alias
}

// filter finds what is wanted.
func (r *Records) filter(w Wanted) (f store.Filter, err error) {
	if f.From, err = r.instant("from", w.From, false); err != nil {
		return f, err
	}
	if f.To, err = r.instant("to", w.To, true); err != nil {
		return f, err
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return f, hearth.Invalid("to", "the time ends before it begins")
	}
	if w.Key != "" {
		k, err := account.Pick(r.keys, w.Key, r.prefix)
		switch {
		case err == nil:
			f.KeyID = k.ID
		case strings.HasPrefix(w.Key, "key-"): // one that is no more
			f.KeyID = w.Key
		default:
			return f, err
		}
	}
	if f.Model = w.Model; w.Model != "" {
		if m := r.catalog.Resolve(w.Model); m != nil { // else one that the configuration had before
			f.Model = m.ID
		}
	}
	return f, nil
}

// instant reads a day or an instant. Of a day it is the beginning, or the end.
func (r *Records) instant(field, text string, end bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, r.zone)
	if err != nil {
		return t, hearth.Invalid(field, "%.40q is neither a day, such as 2026-11-30, nor an instant, such as 2026-11-30T09:00:00+09:00", text)
	}
	if end {
		y, m, d := t.Date()
		t = time.Date(y, m, d+1, 0, 0, 0, 0, r.zone)
	}
	return t, nil
}

// Count is how many rows of the table Each will go through.
func (r *Records) Count(ctx context.Context, w Wanted) (int, error) {
	f, err := r.filter(w)
	if err != nil {
		return 0, err
	}
	return r.store.Count(ctx, f)
}

// Each gives fn the wanted records by time, as JSON and read. One that cannot be read is an error. tick is told how many
// rows were gone through.
func (r *Records) Each(ctx context.Context, w Wanted, fn func(raw []byte, g *hearth.Generation) error, tick func(rows int)) error {
	f, err := r.filter(w)
	if err != nil {
		return err
	}
	return ledger.Each(ctx, r.store, f, func(s *store.Stored, g *hearth.Generation, err error) error {
		if err != nil {
			return err
		}
		return fn(s.Record, g)
	}, tick)
}

// Record finds a record by its id. Of one that is not there the error says so.
func (r *Records) Record(ctx context.Context, id string) (*hearth.Generation, error) {
	g, err := ledger.Read(ctx, r.store, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, hearth.Errorf(hearth.ErrNotFound, "there is no record of a generation %.60q in the database; what a gateway has finished within the last second is not there yet", id)
	}
	return g, err
}

// Finding is something that an audit found to be wrong, Audited what it went through.
type (
	Finding = ledger.Finding
	Audited = ledger.Audited
)

// Audit checks the bills of the wanted records, their rows and the sums of days: see ledger.Audit. From and To must be days:
// sums are of whole ones.
func (r *Records) Audit(ctx context.Context, w Wanted, found func(Finding), tick func(rows int)) (Audited, error) {
	f, err := r.days(w)
	if err != nil {
		return Audited{}, err
	}
	return ledger.Audit(ctx, r.store, f, found, tick)
}

// CountDays is how many rows of the table Audit will go through.
func (r *Records) CountDays(ctx context.Context, w Wanted) (int, error) {
	f, err := r.days(w)
	if err != nil {
		return 0, err
	}
	return r.store.Count(ctx, f)
}

// days is filter for whole days.
func (r *Records) days(w Wanted) (store.Filter, error) {
	for field, text := range map[string]string{"from": w.From, "to": w.To} {
		if _, err := time.Parse(time.DateOnly, text); text != "" && err != nil {
			return store.Filter{}, hearth.Invalid(field, "%.40q is not a day, such as 2026-11-30", text)
		}
	}
	f, err := r.filter(w)
	f.From, f.To, f.FirstDay, f.LastDay = time.Time{}, time.Time{}, w.From, w.To
	return f, err
}

// Report is what one month was in one currency; see ledger.Report. So are its parts.
type (
	Report       = ledger.Report
	ReportLine   = ledger.Line
	ReportTokens = ledger.Tokens
)

// Month is the present month in the configured zone, as YYYY-MM.
func (r *Records) Month() string { return time.Now().In(r.zone).Format("2006-01") }

// CountMonth is how many rows of the table Reports will go through.
func (r *Records) CountMonth(ctx context.Context, month string) (int, error) {
	f, err := ledger.MonthFilter(month)
	if err != nil {
		return 0, err
	}
	return r.store.Count(ctx, f)
}

// Reports are the reports of a month (YYYY-MM), one for each currency.
func (r *Records) Reports(ctx context.Context, month string, tick func(rows int)) ([]Report, error) {
	return ledger.Reports(ctx, r.store, month, r.catalog, tick)
}

// KeyName is what a key is called, "" if it is no more.
func (r *Records) KeyName(id string) string {
	for i := range r.keys {
		if r.keys[i].ID == id {
			return r.keys[i].Name
		}
	}
	return ""
}
