package main

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

// recordColumns are the columns of an export in CSV, in their order.
var recordColumns = []struct {
	name string
	of   func(*recordTable, *hearth.Generation) string
}{
	{"id", func(_ *recordTable, g *hearth.Generation) string { return g.ID }},
	{"created_at", func(_ *recordTable, g *hearth.Generation) string { return g.CreatedAt.Format(time.RFC3339Nano) }},
	{"key_id", func(_ *recordTable, g *hearth.Generation) string { return g.KeyID }},
	{"key", func(t *recordTable, g *hearth.Generation) string { return t.keys.KeyName(g.KeyID) }},
	{"requested", func(_ *recordTable, g *hearth.Generation) string { return strings.Join(g.Requested, " ") }},
	{"model", func(_ *recordTable, g *hearth.Generation) string { return g.Model }},
	{"provider", func(_ *recordTable, g *hearth.Generation) string { return g.Slug }},
	{"endpoint", func(_ *recordTable, g *hearth.Generation) string { return g.Endpoint }},
	{"streamed", func(_ *recordTable, g *hearth.Generation) string { return strconv.FormatBool(g.Streamed) }},
	{"http", func(_ *recordTable, g *hearth.Generation) string { return strconv.Itoa(g.HTTP) }},
	{"error", func(_ *recordTable, g *hearth.Generation) string { return g.Error }},
	{"cancelled", func(_ *recordTable, g *hearth.Generation) string { return strconv.FormatBool(g.Cancelled) }},
	{"finish_reason", func(_ *recordTable, g *hearth.Generation) string { return g.FinishReason }},
	{"usage_reported", func(_ *recordTable, g *hearth.Generation) string { return strconv.FormatBool(g.Usage.Reported) }},
	{"prompt_tokens", func(_ *recordTable, g *hearth.Generation) string { return number(g.Usage.PromptTokens) }},
	{"cached_tokens", func(_ *recordTable, g *hearth.Generation) string { return number(g.Usage.CachedTokens) }},
	{"cache_write_tokens", func(_ *recordTable, g *hearth.Generation) string { return number(g.Usage.CacheWriteTokens) }},
	{"completion_tokens", func(_ *recordTable, g *hearth.Generation) string { return number(g.Usage.CompletionTokens) }},
	{"reasoning_tokens", func(_ *recordTable, g *hearth.Generation) string { return number(g.Usage.ReasoningTokens) }},
	{"images", func(_ *recordTable, g *hearth.Generation) string { return strconv.Itoa(g.Images) }},
	{"unbilled", func(_ *recordTable, g *hearth.Generation) string { return strconv.Itoa(g.Unbilled) }},
	{"cost", func(_ *recordTable, g *hearth.Generation) string { return g.Bill.Cost.String() }},
	{"currency", func(_ *recordTable, g *hearth.Generation) string { return g.Bill.Currency }},
	{"upstream_cost", func(_ *recordTable, g *hearth.Generation) string { return exact(g.Bill.Upstream) }},
	{"upstream_currency", func(_ *recordTable, g *hearth.Generation) string { return g.Bill.ListIn }},
	{"rate", func(_ *recordTable, g *hearth.Generation) string { return exact(g.Bill.Rate) }},
	{"margin", func(_ *recordTable, g *hearth.Generation) string { return exact(g.Bill.Margin) }},
	{"tariff", func(_ *recordTable, g *hearth.Generation) string { return g.Bill.Tariff }},
	{"first_token_s", func(_ *recordTable, g *hearth.Generation) string { return seconds(g.FirstToken) }},
	{"duration_s", func(_ *recordTable, g *hearth.Generation) string { return seconds(g.Duration) }},
	{"attempts", func(_ *recordTable, g *hearth.Generation) string { return strconv.Itoa(len(g.Attempts)) }},
	{"referer", func(_ *recordTable, g *hearth.Generation) string { return g.Referer }},
	{"title", func(_ *recordTable, g *hearth.Generation) string { return g.Title }},
	{"user_agent", func(_ *recordTable, g *hearth.Generation) string { return g.UserAgent }},
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// exact is a decimal without an exponent.
func exact(d decimal.Decimal) string { return d.String() }

// seconds is a duration as a decimal number of seconds, exact.
func seconds(d time.Duration) string { return decimal.New(int64(d), -9).String() }

// recordTable writes records as CSV.
type recordTable struct {
	w     *csv.Writer
	keys  *app.Records
	cells []string
	err   error // of the header
}

func newRecordTable(w io.Writer, keys *app.Records) *recordTable {
	t := &recordTable{w: csv.NewWriter(w), keys: keys}
	for _, c := range recordColumns {
		t.cells = append(t.cells, c.name)
	}
	t.err = t.w.Write(t.cells)
	return t
}

func (t *recordTable) row(_ []byte, g *hearth.Generation) error {
	if t.err != nil {
		return t.err
	}
	for i, c := range recordColumns {
		t.cells[i] = cell(c.of(t, g))
	}
	return t.w.Write(t.cells)
}

func (t *recordTable) flush() error {
	t.w.Flush()
	return t.w.Error()
}

// cell keeps spreadsheets from taking a text that a caller chose for a formula. Numbers stay as they are.
func cell(text string) string {
	if text == "" || !strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return text
	}
	if _, err := decimal.NewFromString(text); err == nil {
		return text
	}
	return "'" + text
}
