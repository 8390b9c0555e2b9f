package fx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

// kept is one rate in the file.
type kept struct {
	Value   decimal.Decimal `json:"value"`
	Fetched time.Time       `json:"fetched"`
	From    string          `json:"from"` // Source.place
}

func (b *Book) load() error {
	if b.file == "" {
		return nil
	}
	body, err := os.ReadFile(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list map[string]kept
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(b.file), err)
	}
	for currency, k := range list {
		if k.Value.IsPositive() && !k.Fetched.IsZero() {
			b.rates[currency] = rate{value: k.Value, fetched: k.Fetched, tried: k.Fetched, from: k.From}
		}
	}
	return nil
}

// save writes the fetched values: to another file first, which then takes the place of the one before.
func (b *Book) save() error {
	if b.file == "" {
		return nil
	}
	b.mu.Lock()
	list := make(map[string]kept, len(b.rates))
	for currency := range b.sources {
		if r := b.rates[currency]; !r.fetched.IsZero() {
			list[currency] = kept{Value: r.value, Fetched: r.fetched, From: r.from}
		}
	}
	b.mu.Unlock()
	body, err := json.Marshal(list, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		return err
	}
	temp := b.file + ".new"
	if err := os.WriteFile(temp, append(body, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, b.file)
}
