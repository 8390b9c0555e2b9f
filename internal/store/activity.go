package store

import (
	"context"
	"fmt"

	"myip.co.kr/hearth"
)

// Activity is what was used in one day of one model at one provider, by all keys together or by one.
type Activity struct {
	Day              string // YYYY-MM-DD
	Model, Provider  string // the provider's slug
	Currency         string
	Cost             hearth.Nano
	Requests         int64
	PromptTokens     int64
	CompletionTokens int64
	ReasoningTokens  int64
}

// Activity reads what was used from one day to another (YYYY-MM-DD, both included), the latest day first. keyID is the key
// whose use it is, "" = of all. Requests that nobody answered are not in it.
func (s *Store) Activity(ctx context.Context, keyID, from, to string) ([]Activity, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT day, model, provider, currency, cost_nano, requests, prompt_tokens,
		completion_tokens, reasoning_tokens FROM spend
		WHERE day BETWEEN ? AND ? AND model <> '' AND (? = '' OR key_id = ?)
		ORDER BY day DESC, model, provider, currency`, from, to, keyID, keyID)
	if err != nil {
		return nil, fmt.Errorf("read activity: %w", err)
	}
	defer rows.Close()
	var list []Activity
	for rows.Next() {
		var a Activity
		var cost int64
		if err := rows.Scan(&a.Day, &a.Model, &a.Provider, &a.Currency, &cost, &a.Requests, &a.PromptTokens, &a.CompletionTokens, &a.ReasoningTokens); err != nil {
			return nil, fmt.Errorf("read activity: %w", err)
		}
		a.Cost = hearth.Nano(cost)
		if n := len(list); n > 0 && list[n-1].sameKind(&a) { // another key's
			list[n-1].add(&a)
			continue
		}
		list = append(list, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read activity: %w", err)
	}
	return list, nil
}

func (a *Activity) sameKind(b *Activity) bool {
	return a.Day == b.Day && a.Model == b.Model && a.Provider == b.Provider && a.Currency == b.Currency
}

func (a *Activity) add(b *Activity) {
	a.Cost = hearth.Nano(addUpTo(int64(a.Cost), int64(b.Cost)))
	a.Requests = addUpTo(a.Requests, b.Requests)
	a.PromptTokens = addUpTo(a.PromptTokens, b.PromptTokens)
	a.CompletionTokens = addUpTo(a.CompletionTokens, b.CompletionTokens)
	a.ReasoningTokens = addUpTo(a.ReasoningTokens, b.ReasoningTokens)
}
