package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestContent(t *testing.T) {
	parse := func(t *testing.T, text string) (*Config, error) {
		t.Helper()
		return Parse("x", []byte("currency: USD\n"+text), nil, nil)
	}
	t.Run("is off", func(t *testing.T) {
		cfg, err := parse(t, "")
		if err != nil {
			t.Fatal(err)
		}
		want := Content{Log: "off", MaxBytes: 64 << 10, MaxAge: 7 * 24 * time.Hour, MaxSize: 1 << 30, RedactDefaults: true}
		if d := cmp.Diff(want, cfg.Records.Content); d != "" {
			t.Error(d)
		}
	})
	t.Run("is on", func(t *testing.T) {
		cfg, err := parse(t, `records: {content: {log: on, keys: [a, key-1], max_bytes: 1KiB, max_age: 36h, max_size: 2GiB, redact: ['P-\d+'], redact_defaults: false}}`)
		if err != nil {
			t.Fatal(err)
		}
		want := Content{Log: "on", Keys: []string{"a", "key-1"}, MaxBytes: 1 << 10, MaxAge: 36 * time.Hour, MaxSize: 2 << 30, Redact: []string{`P-\d+`}}
		if d := cmp.Diff(want, cfg.Records.Content); d != "" {
			t.Error(d)
		}
	})
	t.Run("so many regular expressions", func(t *testing.T) {
		for _, n := range []int{maxPatterns, maxPatterns + 1} {
			_, err := parse(t, fmt.Sprintf("records: {content: {redact: [%s]}}", strings.Repeat("'a', ", n)))
			if (err == nil) != (n == maxPatterns) {
				t.Errorf("%d: %v", n, err)
			}
		}
	})
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing to say when it is off", "records: {content: {redact_defaults: false}}", nil},
		{"nothing redacted", "records: {content: {log: on, redact_defaults: false}}", []string{"records.content.redact_defaults"}},
		{"kept longer than records", "records: {max_age: 48h, content: {log: on}}", []string{"records.content.max_age"}},
		{"kept as long as records", "records: {max_age: 7d, content: {log: on}}", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, err := parse(t, tc.text+"\nproviders: [{slug: p, base_url: 'https://p.example/v1', models: [{model: x/a}]}]")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range cfg.Warnings() {
				if strings.HasPrefix(w.Path, "records") {
					got = append(got, w.Path)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
