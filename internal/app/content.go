package app

import (
	"context"
	"path/filepath"
	"time"

	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/content"
)

// contentRules say whose prompts and answers a configuration keeps; nil = nobody's.
func contentRules(cfg *config.Config) (*content.Rules, error) {
	c := &cfg.Records.Content
	if c.Log != "on" {
		return nil, nil
	}
	r, err := content.NewRedactor(c.Redact, c.RedactDefaults, cfg.KeyPrefix)
	if err != nil {
		return nil, err
	}
	return &content.Rules{Keys: c.Keys, MaxBytes: int(c.MaxBytes), Redactor: r}, nil
}

// contentRetention is how long a configuration keeps prompts and answers: not longer than records. It holds for what was kept
// before too, when nothing is kept any more.
func contentRetention(cfg *config.Config) content.Retention {
	r := content.Retention{MaxAge: cfg.Records.Content.MaxAge, MaxBytes: int64(cfg.Records.Content.MaxSize)}
	if age := cfg.Records.MaxAge; age > 0 {
		r.MaxAge = min(r.MaxAge, age)
	}
	return r
}

// closeContents is how long prompts and answers that wait to be written hold up the end of the process.
const closeContents = 5 * time.Second

// openContents opens the place of prompts and answers. Where there never was one, and none is wanted, no file is made.
func (a *App) openContents(ctx context.Context) {
	cfg := a.config()
	a.contents = content.Open(ctx, content.Options{Path: filepath.Join(cfg.DataDir, "content.db"), Log: a.log}, contentRetention(cfg))
	a.push(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, closeContents)
		defer cancel()
		return a.contents.Close(ctx)
	})
}
