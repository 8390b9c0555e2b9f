package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"myip.co.kr/hearth"
)

// Spend is what a key spent on one model of one provider in one day.
type Spend struct {
	KeyID            string
	Day              string // YYYY-MM-DD
	Model, Provider  string
	Currency         string
	Cost             hearth.Nano
	Requests         int64
	PromptTokens     int64
	CompletionTokens int64
	ReasoningTokens  int64 // of CompletionTokens
}

type spendKey struct{ key, day, model, provider, currency string }

// Tables of sums.
const (
	tableSpend   = "spend"
	tableDeleted = "deleted"
)

// addSpend adds rows to the sums of a table. Requests that cost nothing and that no endpoint answered count too: their model
// is empty.
func addSpend(ctx context.Context, tx *sql.Tx, table string, rows []Row) error {
	sums := make(map[spendKey]Spend)
	for i := range rows {
		r := &rows[i]
		k := spendKey{r.KeyID, r.day(), r.Model, r.Provider, r.Currency}
		sum := sums[k]
		sum.Cost = hearth.Nano(addUpTo(int64(sum.Cost), int64(r.Cost)))
		sum.Requests++
		sum.PromptTokens = addUpTo(sum.PromptTokens, r.PromptTokens)
		sum.CompletionTokens = addUpTo(sum.CompletionTokens, r.CompletionTokens)
		sum.ReasoningTokens = addUpTo(sum.ReasoningTokens, r.ReasoningTokens)
		sums[k] = sum
	}
	for k, v := range sums {
		_, err := tx.ExecContext(ctx, `INSERT INTO `+table+` (key_id, day, model, provider, currency,
				cost_nano, requests, prompt_tokens, completion_tokens, reasoning_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
				cost_nano = min(cost_nano, 9223372036854775807 - excluded.cost_nano) + excluded.cost_nano,
				prompt_tokens = min(prompt_tokens, 9223372036854775807 - excluded.prompt_tokens) + excluded.prompt_tokens,
				completion_tokens = min(completion_tokens, 9223372036854775807 - excluded.completion_tokens) + excluded.completion_tokens,
				reasoning_tokens = min(reasoning_tokens, 9223372036854775807 - excluded.reasoning_tokens) + excluded.reasoning_tokens`,
			k.key, k.day, k.model, k.provider, k.currency, int64(v.Cost), v.Requests, v.PromptTokens, v.CompletionTokens, v.ReasoningTokens)
		if err != nil {
			return fmt.Errorf("add spend: %w", err)
		}
	}
	return nil
}

// addUpTo adds b to a sum. A negative b counts as 0 and the sum stops at the largest int64: one absurd record must
// neither make a sum negative nor keep all later ones from being applied.
func addUpTo(a, b int64) int64 {
	if b <= 0 {
		return a
	}
	return min(a, math.MaxInt64-b) + b
}

// Spend reads the sums of a key from one day to another (YYYY-MM-DD, both included), ordered by day.
func (s *Store) Spend(ctx context.Context, keyID, from, to string) ([]Spend, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT `+spendColumns+` FROM spend WHERE key_id = ? AND day BETWEEN ? AND ?
		ORDER BY day, model, provider, currency`, keyID, from, to)
	if err != nil {
		return nil, fmt.Errorf("read spend: %w", err)
	}
	return scanSpend(rows)
}

// External says whether a provider's slug is that of a third party: neither our own slots, nor nobody.
func External(slug string) bool { return slug != "" && slug != hearth.LocalSlug }

// DaySpend is what a key spent on one model of one provider in one day.
type DaySpend struct {
	KeyID, Currency string
	Day             string // YYYY-MM-DD
	External        bool   // at an external provider
	Cost            hearth.Nano
}

// EachDay gives fn what every key spent, from one date to another (YYYY-MM-DD, both included), in no order. Several may be
// of one key and day.
func (s *Store) EachDay(ctx context.Context, from, to string, fn func(DaySpend) error) error {
	rows, err := s.reader.QueryContext(ctx, `SELECT key_id, day, provider, currency, cost_nano FROM spend
		WHERE day BETWEEN ? AND ? AND cost_nano > 0`, from, to)
	if err != nil {
		return fmt.Errorf("read spend: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d DaySpend
		var provider string
		var cost int64
		if err := rows.Scan(&d.KeyID, &d.Day, &provider, &d.Currency, &cost); err != nil {
			return fmt.Errorf("read spend: %w", err)
		}
		d.External, d.Cost = External(provider), hearth.Nano(cost)
		if err := fn(d); err != nil {
			return fmt.Errorf("read spend: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read spend: %w", err)
	}
	return nil
}
