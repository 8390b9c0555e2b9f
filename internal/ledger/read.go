package ledger

import (
	"context"
	"fmt"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// Each gives fn every record of a store that a filter chooses, as store.Store.Each does. A record that cannot be read comes
// as an error beside what stands in its row; it ends nothing unless fn returns it.
func Each(ctx context.Context, s *store.Store, f store.Filter, fn func(*store.Stored, *hearth.Generation, error) error, tick func(rows int)) error {
	return s.Each(ctx, f, func(r *store.Stored) error {
		g, err := decode(r.Record)
		if err != nil {
			g, err = nil, fmt.Errorf("read record %s: %w", r.ID, err)
		}
		return fn(r, g, err)
	}, tick)
}

// Read finds a record of a store by its id. The error is store.ErrNotFound if there is none.
func Read(ctx context.Context, s *store.Store, id string) (*hearth.Generation, error) {
	record, err := s.Record(ctx, id)
	if err != nil {
		return nil, err
	}
	g, err := decode(record)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", id, err)
	}
	return g, nil
}
