package app

import (
	"testing"
	"time"

	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/content"
)

func TestContentOfConfig(t *testing.T) {
	for text, want := range map[string]content.Retention{
		"":                                       {MaxAge: 7 * 24 * time.Hour, MaxBytes: 1 << 30},
		"max_age: 48h":                           {MaxAge: 48 * time.Hour, MaxBytes: 1 << 30},
		"max_age: 30d":                           {MaxAge: 7 * 24 * time.Hour, MaxBytes: 1 << 30},
		"content: {max_age: 1h, max_size: 2MiB}": {MaxAge: time.Hour, MaxBytes: 2 << 20},
	} {
		cfg, err := config.Parse("x", []byte("currency: KRW\nrecords: {"+text+"}"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := contentRetention(cfg); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
		if r, err := contentRules(cfg); r != nil || err != nil {
			t.Errorf("%q: rules %+v, %v", text, r, err)
		}
	}
	cfg, err := config.Parse("x", []byte("key_prefix: acme-\nrecords: {content: {log: on, redact: ['FALCON'], max_bytes: 2KiB}}"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := contentRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Redactor.Text("acme-01234567 FALCON a@b.co"); got != "[redacted:api-key] [redacted] [redacted:email]" || r.MaxBytes != 2<<10 {
		t.Errorf("%q, %d bytes", got, r.MaxBytes)
	}
}
