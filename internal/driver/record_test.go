package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestRecord(t *testing.T) {
	d := driversIn(t, t.TempDir())
	r := record{ID: d.id, Slot: "s", PID: 2, Start: 3, Boot: "b", Line: "l", Port: 4, Key: "k", Log: 5, Begun: 6}
	if err := d.save(r); err != nil {
		t.Fatal(err)
	}
	got, ok := d.load("s")
	if diff := cmp.Diff(r, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if left, err := filepath.Glob(filepath.Join(d.o.Dir, "*.new")); len(left) > 0 || err != nil {
		t.Errorf("left are %q, %v", left, err)
	}
	bad := map[string]func(*record){
		"of another slot": func(r *record) { r.Slot = "other" },
		"of a copy":       func(r *record) { r.ID = "other" },
		"of init":         func(r *record) { r.PID = 1 },
		"of no process":   func(r *record) { r.PID = 0 },
		"of a group":      func(r *record) { r.PID = -5 },
	}
	for name, change := range bad {
		b := r
		change(&b)
		if err := d.save(b); err != nil {
			t.Fatal(err)
		}
		if b.Slot != "s" {
			if err := os.Rename(d.file(b.Slot, ".json"), d.file("s", ".json")); err != nil {
				t.Fatal(err)
			}
		}
		if got, ok := d.load("s"); ok {
			t.Errorf("a record %s is taken: %+v", name, got)
		}
	}
	for range 2 {
		if err := d.forget("s"); err != nil {
			t.Error(err)
		}
	}
	if _, ok := d.load("s"); ok {
		t.Error("it is still there")
	}
}

func TestLine(t *testing.T) {
	slotOf := func() *hearth.Slot {
		return &hearth.Slot{
			Command: []string{"a", "b"}, Env: map[string]hearth.Secret{"K": "v", "L": "w"}, Model: &hearth.Model{ID: "m"},
			Node: &hearth.Node{Name: "n"},
		}
	}
	same := line(slotOf())
	for range 20 { // whatever the order of a map
		if line(slotOf()) != same {
			t.Fatal("one slot has two lines")
		}
	}
	for name, change := range map[string]func(*hearth.Slot){
		"argument": func(s *hearth.Slot) { s.Command[1] = "c" }, "arguments joined": func(s *hearth.Slot) { s.Command = []string{"ab"} },
		"argument shifted": func(s *hearth.Slot) { s.Command = []string{"ab", ""} }, "value": func(s *hearth.Slot) { s.Env["K"] = "x" },
		"variable": func(s *hearth.Slot) { delete(s.Env, "K") }, "directory": func(s *hearth.Slot) { s.Dir = "/" },
		"model": func(s *hearth.Slot) { s.Model.ID = "o" }, "port": func(s *hearth.Slot) { s.Port = 5 },
		"name of the model": func(s *hearth.Slot) { s.UpstreamModel = "u" },
	} {
		s := slotOf()
		if change(s); line(s) == same {
			t.Errorf("another %s gives the same line", name)
		}
	}
	s := slotOf()
	s.Queue, s.IdleSleep, s.Probe = 3, 5, "/x"
	if line(s) != same {
		t.Error("what does not change the process changes the line")
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "7")
	if line(s) == same {
		t.Error("another device gives the same line")
	}
}

func TestDirID(t *testing.T) {
	dir := t.TempDir()
	id := func(dir string) string {
		t.Helper()
		id, err := dirID(dir)
		if err != nil || len(id) < 20 {
			t.Fatalf("%q, %v", id, err)
		}
		return id
	}
	one := id(filepath.Join(dir))
	if id(dir) != one {
		t.Error("a directory has two ids")
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if id(copied) == one {
		t.Error("a copy has the id of its original")
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err == nil && id(moved) != one { // another file system is another place
		t.Error("a directory that was moved has lost its id")
	}
	if err := os.WriteFile(filepath.Join(moved, "id"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id(moved) == "x" {
		t.Error("a broken id counts")
	}
	if _, err := dirID(filepath.Join(dir, "none")); err == nil {
		t.Error("no directory has an id")
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	one, two := driversIn(t, t.TempDir()), driversIn(t, t.TempDir())
	one.o.LockDir, two.o.LockDir = filepath.Join(dir, "made"), filepath.Join(dir, "made")
	gpu := &hearth.Node{Name: "gpu/1"}
	release, err := one.Lock(gpu)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "made", "gpu%2F1.lock")
	for range 2 {
		if _, err := two.Lock(gpu); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v does not name %s", err, path)
		}
	}
	if free, err := two.Lock(&hearth.Node{Name: "gpu"}); err != nil {
		t.Error(err)
	} else {
		free()
	}
	release()
	again, err := two.Lock(gpu)
	if err != nil {
		t.Fatal(err)
	}
	// A lock whose file was removed keeps nobody out, and is not mistaken for one that does.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next, err := one.Lock(gpu)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := two.Lock(gpu); err == nil {
		t.Error("the new file's lock does not hold")
	}
	next()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", path); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Lock(gpu); err == nil || errors.Is(err, errHeld) {
		t.Errorf("somebody's link is followed: %v", err)
	}
	t.Run("an engine does not hold its gateway's lock", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		s := shell("exec sleep 1000")
		release, err := d.Lock(s.Node)
		if err != nil {
			t.Fatal(err)
		}
		startWith(t, d, s)
		release()
		if release, err = d.Lock(s.Node); err != nil {
			t.Fatal(err)
		}
		release()
	})
}
