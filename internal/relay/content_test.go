package relay

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/content"
)

// keepContents makes a world keep prompts and answers.
func (w *world) keepContents(t testing.TB) *content.Log {
	t.Helper()
	red, err := content.NewRedactor(nil, true, "")
	if err != nil {
		t.Fatal(err)
	}
	l := content.Open(context.Background(), content.Options{Path: filepath.Join(t.TempDir(), "content.db")}, content.Retention{MaxAge: time.Hour})
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	w.relay.opt.Content, w.relay.contents = &content.Rules{MaxBytes: 64 << 10, Redactor: red}, l
	return l
}

// kept is what is kept of an answer's generation.
func kept(t *testing.T, l *content.Log, a answer) string {
	t.Helper()
	b, err := l.Content(t.Context(), a.header.Get("X-Generation-Id"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestContent_OfTheAttemptThatAnswered(t *testing.T) {
	// The first upstream begins to answer and breaks off before anything was passed on.
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"from the first"}}],"error":{"message":"oh","code":500}}`+"\n\n")
	})
	w := newWorld(t, setup{upstream: cut})
	l := w.keepContents(t)
	a := w.post(t, chat(`,"stream":true`))
	got := kept(t, l, a)
	if a.status != 200 || strings.Contains(got, "from the first") || !strings.Contains(got, `"completion":"`) || !strings.Contains(got, `"error":null`) {
		t.Errorf("%d %s", a.status, got)
	}
}

func TestContent_OnlyWithARecord(t *testing.T) {
	w := newWorld(t, setup{})
	l := w.keepContents(t)
	without := 0
	for range 2*missesPerSecond + 1 { // of such requests the first few of a second are recorded
		a := w.post(t, `{"model":"no/such","messages":[{"role":"user","content":"hi"}]}`)
		_, err := w.ledger.Generation(t.Context(), a.header.Get("X-Generation-Id"))
		if got := kept(t, l, a); (err != nil) != strings.Contains(got, "not found") {
			t.Errorf("%v, but %s", err, got)
		}
		if err != nil {
			without++
		}
	}
	if without == 0 {
		t.Error("every one is recorded")
	}
	if err := w.journal.Close(); err != nil { // from here on nothing can be recorded
		t.Fatal(err)
	}
	a := w.post(t, chat(""))
	if got := kept(t, l, a); a.status != 503 || !strings.Contains(got, "not found") {
		t.Errorf("%d %s", a.status, got)
	}
}

func TestContent_NotOfAKeyThatForbidsIt(t *testing.T) {
	w := newWorld(t, setup{})
	l := w.keepContents(t)
	w.key = &hearth.Key{ID: "key-2", NoContent: true}
	if got := kept(t, l, w.post(t, chat(""))); !strings.Contains(got, "not found") {
		t.Error(got)
	}
}

// BenchmarkContent is BenchmarkChat's 4 KB with prompts and answers kept, and without.
func BenchmarkContent(b *testing.B) {
	body := []byte(`{"model":"` + model + `","messages":[{"role":"user","content":"` + strings.Repeat("lorem ", 4<<10/6) + `"}]}`)
	for _, on := range []bool{false, true} {
		b.Run("kept="+strconv.FormatBool(on), func(b *testing.B) {
			w := newWorld(b, setup{upstream: http.HandlerFunc(quick)})
			if on {
				w.keepContents(b)
			}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := http.Post(w.url, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 100 || resp.StatusCode != 200 {
					b.Fatal(resp.StatusCode, n, err)
				}
				resp.Body.Close()
			}
		})
	}
}

// TestContent_OffCostsNothing: what keeps prompts and answers is asked for each request, and allocates nothing when it is
// off.
func TestContent_OffCostsNothing(t *testing.T) {
	w := newWorld(t, setup{})
	x := &exchange{key: w.key}
	n := testing.AllocsPerRun(100, func() {
		w.relay.keepContent(x)
		x.kept.again()
		x.kept.failed(nil)
		x.kept.offer(true)
	})
	if n != 0 || x.kept != nil {
		t.Errorf("%v allocations, %v", n, x.kept)
	}
}
