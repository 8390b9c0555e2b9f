package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

type recordsCmd struct {
	Show   recordsShowCmd   `cmd:"" help:"Show the record of one request: its attempts, what they cost, and how endpoints were ordered."`
	Export recordsExportCmd `cmd:"" help:"Write the records of requests as JSON lines or CSV."`
	Audit  recordsAuditCmd  `cmd:"" help:"Compute every bill anew from its record, and compare."`
}

// wantedFlags choose records.
type wantedFlags struct {
	From  string `placeholder:"WHEN" help:"Requests that arrived at this time or later: a day in the configured time zone, such as 2026-11-01, or an instant, such as 2026-11-01T09:00:00+09:00."`
	To    string `placeholder:"WHEN" help:"Requests that arrived up to the end of this day, or before this instant."`
	Key   string `placeholder:"KEY" help:"Requests with this key: its id, name or label."`
	Model string `placeholder:"MODEL" help:"Requests that this model answered: its id or an alias."`
}

func (f wantedFlags) wanted() app.Wanted {
	return app.Wanted{From: f.From, To: f.To, Key: f.Key, Model: f.Model}
}

type recordsExportCmd struct {
	configFlag
	wantedFlags
	Format string `default:"jsonl" enum:"jsonl,csv" placeholder:"FORMAT" help:"jsonl: each record whole, one a line. csv: a table of the most important columns, with a header (default: ${default})."`
	Output string `short:"o" placeholder:"FILE" help:"Write to a file instead of standard output. It is there only when it is complete."`
}

// Help is the long help of the command.
func (recordsExportCmd) Help() string {
	return `Reads the database, by the time at which requests arrived; a gateway may be running on it. What it has finished within
the last second may not be there yet.

  hearth records export --from 2026-11-01 --to 2026-11-30 --format csv > november.csv
  hearth records export --key "nightly job" | jq 'select(.http >= 500)'

In JSON durations are in nanoseconds and amounts decimal numbers in the billing currency. In CSV a text that a
spreadsheet would take for a formula begins with an apostrophe.`
}

// Run writes the records.
func (c *recordsExportCmd) Run(ctx context.Context, std streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.records(ctx, func(r *app.Records) error {
		n, err := r.Count(ctx, c.wanted())
		if err != nil {
			return err
		}
		if c.Output == "" {
			return c.write(ctx, r, std.out, progressOf(std.err, std.out, "exporting", n))
		}
		return intoFile(c.Output, func(w io.Writer) error {
			return c.write(ctx, r, w, progressOf(std.err, w, "exporting", n))
		})
	})
}

func (c *recordsExportCmd) write(ctx context.Context, r *app.Records, out io.Writer, p progress) error {
	w := bufio.NewWriterSize(out, 64<<10)
	line := func(raw []byte, _ *hearth.Generation) error {
		if _, err := w.Write(raw); err != nil {
			return err
		}
		return w.WriteByte('\n')
	}
	end := w.Flush
	if c.Format == "csv" {
		t := newRecordTable(w, r)
		line, end = t.row, func() error { return errors.Join(t.flush(), w.Flush()) }
	}
	defer p.end()
	if err := r.Each(ctx, c.wanted(), line, p.tick); err != nil {
		return errors.Join(err, end())
	}
	return end()
}

// records opens the records of the configuration.
func (f configFlag) records(ctx context.Context, do func(*app.Records) error) error {
	cfg, err := f.loadQuietly()
	if err != nil {
		return err
	}
	r, err := app.OpenRecords(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
}

// intoFile has a file written, readable for its owner alone, and puts it in its place when it is complete.
func intoFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error before is the one to tell
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
