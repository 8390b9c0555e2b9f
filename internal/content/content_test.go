package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"myip.co.kr/hearth/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a Log in a directory of its own.
type place struct {
	*Log
	dir   string
	rules *Rules
	said  *bytes.Buffer
}

func open(t *testing.T, dir string, memory int64, r Retention) *place {
	t.Helper()
	said := new(bytes.Buffer)
	p := &place{dir: dir, rules: &Rules{MaxBytes: 4 << 10, Redactor: redactor(t)}, said: said}
	p.Log = Open(t.Context(), Options{Path: filepath.Join(dir, "content.db"), Memory: memory, Log: slog.New(slog.NewTextHandler(said, nil))}, r)
	return p
}

func (p *place) close(t *testing.T) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// keep keeps a text as prompt and answer; false = it was dropped.
func (p *place) keep(id, text string) bool {
	d := p.Begin(p.rules, id, time.Now(), fmt.Appendf(nil, `[{"content":%q}]`, text))
	if d == nil {
		return false
	}
	d.Offer(Answer{Completion: []byte(text)[:d.Room(len(text))]})
	return true
}

func (p *place) text(t *testing.T, id string) string {
	t.Helper()
	b, err := p.Content(t.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files says in how many files of the directory a text is.
func (p *place) files(t *testing.T, text string) (n int) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(p.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(text)) {
			n++
		}
	}
	return n
}

var week = Retention{MaxAge: 7 * 24 * time.Hour}

func TestLog(t *testing.T) {
	t.Run("a content is there at once, and after a restart", func(t *testing.T) {
		dir := t.TempDir()
		p := open(t, dir, 0, week)
		for i := range 3 * batch {
			id := fmt.Sprintf("gen-%d", i)
			if !p.keep(id, "hello "+id) || !strings.Contains(p.text(t, id), `"completion":"hello `+id+`"`) {
				t.Fatalf("%s: %s", id, p.text(t, id))
			}
		}
		if p.text(t, "gen-none") != "" {
			t.Error("something is kept of nobody")
		}
		p.close(t)
		if n := p.held.Load(); n != 0 {
			t.Errorf("%d bytes of memory were not given back", n)
		}
		p = open(t, dir, 0, week)
		defer p.close(t)
		if got := p.text(t, "gen-7"); !strings.Contains(got, "hello gen-7") {
			t.Errorf("after a restart: %s", got)
		}
		info, err := os.Stat(filepath.Join(dir, "content.db"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
	})
	t.Run("nothing kept makes no file", func(t *testing.T) {
		p := open(t, t.TempDir(), 0, week)
		p.text(t, "gen-1")
		p.close(t)
		if _, err := os.Stat(filepath.Join(p.dir, "content.db")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a nil one keeps nothing", func(t *testing.T) {
		var l *Log
		if d := l.Begin(new(Rules), "x", day, nil); d != nil || l.Dropped() != 0 || l.Close(t.Context()) != nil {
			t.Error("it does something")
		}
		if _, err := l.Content(t.Context(), "x"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
	t.Run("what was discarded is not kept", func(t *testing.T) {
		p := open(t, t.TempDir(), 0, week)
		d := p.Begin(p.rules, "gen-1", day, []byte(`["x"]`))
		d.Room(100)
		d.Discard()
		d.Discard()
		if p.text(t, "gen-1") != "" || p.held.Load() != 0 || p.Dropped() != 0 {
			t.Errorf("%s, %d bytes held, %d dropped", p.text(t, "gen-1"), p.held.Load(), p.Dropped())
		}
		p.close(t)
	})
}

func TestLog_MemoryIsBounded(t *testing.T) {
	t.Run("prompts", func(t *testing.T) {
		p := open(t, t.TempDir(), 10*overhead, week)
		var held []*Draft
		for range 20 {
			if d := p.Begin(p.rules, "gen", day, []byte(`["x"]`)); d != nil {
				held = append(held, d)
			}
		}
		if len(held) != 9 || p.Dropped() != 11 {
			t.Errorf("%d are held, %d were dropped", len(held), p.Dropped())
		}
		for _, d := range held {
			d.Discard()
		}
		if !p.keep("gen-1", "x") && p.held.Load() != 0 {
			t.Error("memory was not given back")
		}
		p.close(t)
		if !strings.Contains(p.said.String(), "were dropped") {
			t.Errorf("the log says nothing: %s", p.said)
		}
	})
	t.Run("answers", func(t *testing.T) {
		p := open(t, t.TempDir(), 3*overhead, week)
		d := p.Begin(p.rules, "gen-1", day, []byte(`["x"]`))
		if n := d.Room(5); n != 0 {
			t.Errorf("room for %d bytes", n)
		}
		d.Offer(Answer{})
		if p.Dropped() != 1 || p.text(t, "gen-1") != "" || p.held.Load() != 0 {
			t.Errorf("%d dropped, %d held", p.Dropped(), p.held.Load())
		}
		p.close(t)
	})
	t.Run("a prompt is kept up to the bound, and no half of a secret there", func(t *testing.T) {
		p := open(t, t.TempDir(), 0, week)
		defer p.close(t)
		for at := range 40 {
			fill := strings.Repeat("word ", p.rules.MaxBytes/5+1)[:p.rules.MaxBytes-60+at]
			id := fmt.Sprintf("gen-%d", at)
			if !p.keep(id, fill+" sk-myip-SECRETSECRETSECRETSECRET "+strings.Repeat("word ", 3000)) {
				t.Fatal("dropped")
			}
			got := p.text(t, id)
			if strings.Contains(got, "SECRET") || strings.Count(got, fill[:len(fill)-40]) != 2 || !strings.Contains(got, `"truncated":true`) {
				t.Fatalf("at %d: %s", at, got)
			}
		}
	})
	t.Run("an answer has the room that the rules give", func(t *testing.T) {
		p := open(t, t.TempDir(), 0, week)
		d := p.Begin(p.rules, "gen-1", day, []byte(`["x"]`))
		for range 2 { // attempts
			sum := 0
			for range 200 {
				sum += d.Room(100)
			}
			if want := p.rules.MaxBytes + margin; sum != want {
				t.Errorf("room for %d bytes, want %d", sum, want)
			}
			d.Again()
		}
		d.Discard()
		p.close(t)
	})
	t.Run("many at once", func(t *testing.T) {
		p := open(t, t.TempDir(), 40*overhead, week)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { p.keep(fmt.Sprintf("gen-%d", i), "hello") })
		}
		wg.Wait()
		p.close(t)
		p2 := open(t, p.dir, 0, week)
		kept := int64(0)
		for i := range 200 {
			if p2.text(t, fmt.Sprintf("gen-%d", i)) != "" {
				kept++
			}
		}
		p2.close(t)
		if kept+p.Dropped() != 200 || kept == 0 || p.held.Load() != 0 {
			t.Errorf("%d kept, %d dropped, %d bytes held", kept, p.Dropped(), p.held.Load())
		}
	})
}

func TestLog_FileCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "content.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := open(t, dir, 0, week)
	const drafts = 3 * batch
	for i := range drafts {
		if !p.keep(fmt.Sprintf("gen-%d", i), "hello") {
			t.Error("refused") // whoever offers it need not know
		}
	}
	p.close(t)
	if p.Dropped() != drafts || strings.Count(p.said.String(), "could not be kept") != 1 || strings.Contains(p.said.String(), "hello") {
		t.Errorf("%d dropped; the log: %s", p.Dropped(), p.said)
	}
}

func TestLog_AfterClose(t *testing.T) {
	p := open(t, t.TempDir(), 0, week)
	d := p.Begin(p.rules, "gen-1", day, []byte(`["x"]`))
	p.close(t)
	d.Offer(Answer{})
	if p.Dropped() != 1 || p.held.Load() != 0 {
		t.Errorf("%d dropped, %d held", p.Dropped(), p.held.Load())
	}
	p.close(t)
}

func TestLog_MaxAge(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir, 0, week)
		for i := range retainRows + 10 {
			p.keep(fmt.Sprintf("old-%d", i), "UNMISTAKABLE words")
		}
		<-time.After(6 * 24 * time.Hour)
		p.keep("new", "other words")
		synctest.Wait()
		if p.text(t, "old-0") == "" || p.files(t, "UNMISTAKABLE") == 0 {
			t.Fatal("deleted too early")
		}
		<-time.After(24*time.Hour + 2*retainEvery)
		synctest.Wait()
		if got := p.text(t, "old-0") + p.text(t, "old-209"); got != "" {
			t.Errorf("still there: %s", got)
		}
		if p.text(t, "new") == "" {
			t.Error("the newer one is gone")
		}
		if n := p.files(t, "UNMISTAKABLE"); n != 0 {
			t.Errorf("the bytes are still in %d files", n)
		}
		p.Retain(Retention{MaxAge: time.Hour}) // holds at once
		synctest.Wait()
		if p.text(t, "new") != "" {
			t.Error("the retention of a newer configuration does not hold")
		}
		p.close(t)
	})
}

func TestLog_MaxBytes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir, 0, Retention{MaxAge: week.MaxAge, MaxBytes: 1 << 20})
		for i := range 1000 {
			p.keep(fmt.Sprintf("gen-%d", i), strings.Repeat("word ", 700))
			if i%batch == 0 {
				<-time.After(10 * time.Second)
			}
		}
		synctest.Wait()
		<-time.After(2 * retainEvery)
		synctest.Wait()
		info, err := os.Stat(filepath.Join(dir, "content.db"))
		if err != nil || info.Size() > 5<<18 {
			t.Errorf("%d bytes, %v", info.Size(), err)
		}
		if p.text(t, "gen-0") != "" || p.text(t, "gen-999") == "" {
			t.Error("not the oldest were deleted")
		}
		p.close(t)
	})
}

func BenchmarkLog(b *testing.B) {
	red, err := NewRedactor(nil, true, "sk-myip-")
	if err != nil {
		b.Fatal(err)
	}
	l := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "content.db"), Memory: 1 << 40}, week)
	defer l.Close(context.Background())
	rules, prompt := &Rules{MaxBytes: 64 << 10, Redactor: red}, fmt.Appendf(nil, `[{"role":"user","content":%q}]`, strings.Repeat("word ", 800))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		d := l.Begin(rules, fmt.Sprint(i), day, prompt)
		d.Offer(Answer{Completion: prompt[20:d.Room(len(prompt)-20)]})
		i++
	}
}
