package driver

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// maxRecord bounds a record that is read.
const maxRecord = 64 << 10

// record is what the next gateway must know of a process to take it over.
type record struct {
	ID    string `json:"id"` // of the directory: a copied record says nothing
	Slot  string `json:"slot"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks from boot
	Boot  string `json:"boot"`
	Line  string `json:"line"` // fingerprint of what was started
	Port  int    `json:"port"`
	Key   string `json:"key"`   // the API key of this start, "" = none
	Log   int64  `json:"log"`   // where its output begins
	Begun int64  `json:"begun"` // unix milliseconds
}

func (r record) leader() proc { return proc{pid: r.PID, start: r.Start, group: r.PID} }

// file is the path of one of a slot's files.
func (d *Drivers) file(name, ext string) string { return filepath.Join(d.o.Dir, fileName(name)+ext) }

// save writes a record so that a gateway that is killed leaves the old one or the new one.
func (d *Drivers) save(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record the engine: %w", err)
	}
	return replaceFile(d.file(r.Slot, ".json"), b)
}

// replaceFile writes a file that only this user can read, whole or not at all. It does not wait for the disk: what is
// written here is of processes, and means nothing any more after a crash of the machine, whatever the file holds then.
func replaceFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make a record: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write a record: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// load reads the record of a slot. A record that is not there or cannot be understood is none.
func (d *Drivers) load(name string) (r record, ok bool) {
	f, err := os.Open(d.file(name, ".json"))
	if err != nil {
		return r, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil || json.Unmarshal(b, &r) != nil || r.ID != d.id || r.Slot != name || r.PID <= 1 {
		return record{}, false
	}
	return r, true
}

// forget removes the record of a slot.
func (d *Drivers) forget(name string) error {
	if err := os.Remove(d.file(name, ".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of an engine: %w", err)
	}
	return nil
}

// line is a fingerprint of everything that makes a started process what it is, except what is made up for each start.
func line(s *hearth.Slot) string {
	h := sha256.New()
	put := func(texts ...string) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(texts))) // a hash takes everything
		for _, t := range texts {
			_ = binary.Write(h, binary.BigEndian, uint64(len(t)))
			_, _ = io.WriteString(h, t)
		}
	}
	env := environment(s.Env, strings.NewReplacer())
	slices.Sort(env)
	put(s.Command...)
	put(env...)
	put(s.Dir, s.Model.ID, s.UpstreamModel, fmt.Sprint(s.Port))
	return hex.EncodeToString(h.Sum(nil))
}
