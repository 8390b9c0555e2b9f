package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth/internal/slot"
)

const (
	memoryFile = "measured.json"
	memoryMost = 16 << 20
	// memoryEvery is how often what was measured is written down: that much a crash forgets.
	memoryEvery = 5 * time.Minute
)

// memory reads what an earlier gateway of the data directory has measured of its slots. It is worth no failed start: what
// cannot be read is measured anew.
func (a *App) memory() (m slot.Memory) {
	f, err := os.Open(filepath.Join(a.config().DataDir, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer f.Close()
		err = json.UnmarshalRead(io.LimitReader(f, memoryMost), &m)
	}
	if err != nil {
		a.log.Warn("what was measured of slots cannot be read and is measured anew", "err", err)
		return nil
	}
	return m
}

// remember writes down what is measured of slots, every now and then and before they are closed.
func (a *App) remember() {
	stop, done := make(chan struct{}), make(chan struct{})
	path := filepath.Join(a.config().DataDir, memoryFile)
	var last []byte
	write := func() {
		b, err := json.Marshal(a.fleet.Memory(), json.Deterministic(true), jsontext.Multiline(false))
		if err == nil && len(b) > len("{}") && !bytes.Equal(b, last) {
			if err = replace(path, b); err == nil {
				last = b
			}
		}
		if err != nil {
			a.log.Warn("what was measured of slots could not be written down", "err", err)
		}
	}
	go func() {
		defer close(done)
		t := time.NewTicker(memoryEvery)
		defer t.Stop()
		for {
			select {
			case <-stop:
				write()
				return
			case <-t.C:
				write()
			}
		}
	}()
	a.push(func(context.Context) error {
		close(stop)
		<-done
		return nil
	})
}
