package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// orders keeps what operators ordered in a file, so that a restart does not forget that a GPU was taken away.
type orders struct {
	path string

	mu   sync.Mutex
	last []byte // what is in the file
}

// openOrders reads the file of a data directory. One that cannot be read is an error: to go on without it might use a GPU
// that its owner has taken back.
func openOrders(dataDir string) (*orders, slot.State, error) {
	const most = 1 << 20
	o := &orders{path: filepath.Join(dataDir, "operator.json")}
	var s slot.State
	f, err := os.Open(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, s, nil
	}
	if err != nil {
		return nil, s, fmt.Errorf("read operators' orders: %w", err)
	}
	defer f.Close()
	if o.last, err = io.ReadAll(io.LimitReader(f, most)); err != nil {
		return nil, s, fmt.Errorf("read operators' orders: %w", err)
	}
	if err := json.Unmarshal(o.last, &s); err != nil {
		return nil, s, fmt.Errorf("%s, in which operators' orders are kept, is damaged (%w): repair it, or remove it to forget which slots are disabled, drained or paused", o.path, err)
	}
	return o, s, nil
}

// obey has the fleet carry out an order and writes down what holds from then on.
func (o *orders) obey(ctx context.Context, f *slot.Fleet, order slot.Order) error {
	if err := f.Order(ctx, order); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	b, err := json.Marshal(f.Operator(), json.Deterministic(true), jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err == nil && !bytes.Equal(b, o.last) {
		if err = replace(o.path, b); err == nil {
			o.last = b
		}
	}
	if err != nil {
		return &hearth.Error{Type: hearth.ErrInternal, Message: "the order holds, but could not be written down: a restart will forget it", Err: err}
	}
	return nil
}

// order carries out an operator's order, for good.
func (a *App) order(ctx context.Context, o slot.Order) error { return a.orders.obey(ctx, a.fleet, o) }

// replace puts a file in the place of another in one step, on the disk too.
func replace(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-") // readable for the owner only
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // not every file system can; the file itself is safe
		_ = d.Close()
	}
	return nil
}
