package app

import (
	"context"
	"fmt"

	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/store"
)

// Keys are the API keys of a configuration's database, for commands. A gateway may be running on it: it sees changes
// within a second.
type Keys struct {
	*account.Accounts
	store *store.Store
}

// OpenKeys opens the keys of a configuration.
func OpenKeys(ctx context.Context, cfg *config.Config) (*Keys, error) {
	st, err := OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	acc, err := account.Open(ctx, st, cfg.KeyPrefix)
	if err != nil {
		_ = st.Close() // the first error is the one to tell
		return nil, err
	}
	return &Keys{acc, st}, nil
}

// Close closes the database.
func (k *Keys) Close() error {
	k.Accounts.Close()
	if err := k.store.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}
