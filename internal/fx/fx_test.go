package fx

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"myip.co.kr/hearth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func TestFetch(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		body    string
		pointer string
		invert  bool
		want    string // the rate
		says    string // or what the error says
	}{
		"a member":                  {200, `{"base":"USD","rates":{"EUR":0.91,"KRW":1389.52}}`, "/rates/KRW", false, "1389.52", ""},
		"a text":                    {200, `{"rates":{"KRW":"1389.520"}}`, "/rates/KRW", false, "1389.52", ""},
		"in a list":                 {200, `[{"c":"KRW"},{"c":"USD","r":[1,1400.25]}]`, "/1/r/1", false, "1400.25", ""},
		"the whole answer":          {200, "1389.5\n", "", false, "1389.5", ""},
		"a name with a slash":       {200, `{"USD/KRW":{"~x":3}}`, "/USD~1KRW/~0x", false, "3", ""},
		"the other way round":       {200, `{"r":0.0008}`, "/r", true, "1250", ""},
		"without an end":            {200, `{"r":3}`, "/r", true, "0.333333333333333333", ""},
		"with an exponent":          {200, `{"r":1.3e3}`, "/r", false, "1300", ""},
		"a name like the value":     {200, `{"r":{"r":"x"},"q":{"r":5}}`, "/q/r", false, "5", ""},
		"nothing there":             {200, `{"rates":{}}`, "/rates/KRW", false, "", "nothing stands at /rates/KRW"},
		"an object there":           {200, `{"rates":{"KRW":1}}`, "/rates", false, "", "no number"},
		"null":                      {200, `{"r":null}`, "/r", false, "", "no number"},
		"zero":                      {200, `{"r":0}`, "/r", false, "", "it is 0"},
		"negative":                  {200, `{"r":-1}`, "/r", false, "", "it is -1"},
		"a word":                    {200, `{"r":"much"}`, "/r", false, "", "not a rate"},
		"too many digits":           {200, `{"r":1` + strings.Repeat("0", 60) + `}`, "/r", false, "", "digits"},
		"a huge exponent":           {200, `{"r":1e99999999}`, "/r", false, "", "not a rate"},
		"a tiny one":                {200, `{"r":1e-99999999}`, "/r", false, "", "not a rate"},
		"inverted to nothing":       {200, `{"r":1e18}`, "/r", true, "0.000000000000000001", ""},
		"not JSON":                  {200, `<html>`, "/r", false, "", "not JSON"},
		"not JSON behind the value": {200, `{"r":1`, "/r", false, "1", ""},
		"empty":                     {200, ``, "/r", false, "", "nothing stands"},
		"an error":                  {503, `{"r":1}`, "/r", false, "", "503"},
		"endless":                   {200, `{"x":"` + strings.Repeat("x", maxBody) + `"}`, "/r", false, "", "longer than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			defer srv.Close()
			value, err := fetch(t.Context(), newClient(), Source{URL: srv.URL, Pointer: tc.pointer, Invert: tc.invert, Headers: map[string]hearth.Secret{"X-Token": "s"}})
			if tc.says == "" && (err != nil || !value.Equal(dec(tc.want))) {
				t.Errorf("%s, %v, want %s", value, err, tc.want)
			}
			if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%s, %v, want an error that says %q", value, err, tc.says)
			}
			if got.Get("X-Token") != "s" {
				t.Error("the header was not sent")
			}
		})
	}
}

func TestFetch_Hides(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/?to=1", http.StatusFound))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, url := range []string{srv.URL + "/?key=hunter2", gone.URL + "/?key=hunter2", "http://127.0.0.1:1\x7f/?key=hunter2"} {
		if _, err := fetch(t.Context(), newClient(), Source{URL: url, Pointer: "/r"}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// market answers with a rate over pipes, so that the time of a bubble passes.
type market struct {
	mu    sync.Mutex
	first func() // called by the next question, before it is answered
	rate  string // "" = it fails
	asked int
}

func (m *market) set(rate string) {
	m.mu.Lock()
	m.rate = rate
	m.mu.Unlock()
}

func (m *market) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

func (m *market) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if m.first != nil {
		m.first()
		m.first = nil
	}
	if m.rate == "" {
		return nil, errors.New("the market is closed")
	}
	if r.URL.Path == "/slow" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(strings.NewReader(`{"r":` + m.rate + `}`))}, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func bookOf(m *market, file string, sources ...Source) *Book {
	b := Open(file, quiet())
	b.client = &http.Client{Transport: m, Timeout: fetchLimit}
	b.Follow(sources)
	return b
}

func dollar() Source {
	return Source{Currency: "USD", URL: "http://market/", Pointer: "/r", Every: time.Hour, MaxAge: 24 * time.Hour, MaxJump: dec("0.1"), Start: dec("900")}
}

func value(b *Book) string {
	r := b.Rates(time.Now())[0]
	s := r.Value.String()
	if r.Stale {
		s += " stale"
	}
	return s
}

func TestBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &market{rate: "1000"}
		b := bookOf(m, "", dollar())
		if b.Fetch(t.Context()); value(b) != "1000" {
			t.Fatal(value(b))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		changes := 0
		go b.Run(ctx, func() { mu.Lock(); changes++; mu.Unlock() })
		after := func(d time.Duration, want string, times, asked int) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := value(b); got != want || changes != times || m.count() != asked {
				t.Errorf("%s after %d changes and %d questions, want %s after %d and %d", got, changes, m.count(), want, times, asked)
			}
		}
		after(time.Hour-1, "1000", 0, 1)
		after(1, "1000", 0, 2) // the same again is no change
		m.set("1050.5")
		after(time.Hour, "1050.5", 1, 3)
		m.set("1200") // more than a tenth
		after(time.Hour, "1050.5", 1, 4)
		after(5*time.Second, "1050.5", 1, 5) // and it is asked again soon,
		after(10*time.Second-1, "1050.5", 1, 5)
		after(1, "1050.5", 1, 6) // then later
		m.set("1100")
		after(20*time.Second, "1100", 2, 7)
		m.set("")
		// Once the hour is over it fails and is asked after 5, 10, 20, 40 s and then each minute.
		after(24*time.Hour, "1100", 2, 7+1+4+(23*3600-75)/60)
		after(1, "1100 stale", 3, 7+1+4+(23*3600-75)/60)
		m.set("1300") // in a second day it may go twice as far
		after(time.Minute, "1300", 4, 8+1+4+(23*3600-75)/60)
		after(58*time.Minute, "1300", 4, 8+1+4+(23*3600-75)/60)

		s := dollar()
		s.Every = 10 * time.Minute
		b.Follow([]Source{s})
		m.set("1310")
		after(1, "1310", 5, 9+1+4+(23*3600-75)/60) // the new interval is over already
		s.URL, s.Start = "http://elsewhere/", dec("600")
		b.Follow([]Source{s})
		after(0, "600 stale", 6, 10+1+4+(23*3600-75)/60) // nothing of another source counts, and 1310 is more than twice what is configured
		m.set("1200")
		after(5*time.Second, "1200", 7, 11+1+4+(23*3600-75)/60)
	})
}

func TestBook_Stale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &market{}
		s := dollar()
		b := bookOf(m, "", s)
		if b.Fetch(t.Context()); value(b) != "900 stale" || !strings.Contains(b.Rates(time.Now())[0].Failed, "closed") {
			t.Errorf("never fetched: %s, %s", value(b), b.Rates(time.Now())[0].Failed)
		}
		for rate, want := range map[string]string{"449": "900 stale", "450": "450", "1800": "1800", "1801": "900 stale"} {
			m.set(rate)
			b = bookOf(m, "", s)
			b.Fetch(t.Context())
			if value(b) != want {
				t.Errorf("the first value %s makes it %s, want %s", rate, value(b), want)
			}
		}
		s.MaxJump = dec("0")
		if b = bookOf(m, "", s); value(b) != "900 stale" {
			t.Error(value(b))
		}
		m.set("90000")
		if b.Fetch(t.Context()); value(b) != "90000" {
			t.Errorf("without a bound on jumps: %s", value(b))
		}
		s.AllowStale = true
		if b = bookOf(m, "", s); value(b) != "900" {
			t.Errorf("stale: allow: %s", value(b))
		}
		s.AllowStale, s.MaxAge = false, 0
		if b = bookOf(m, "", s); value(b) != "900" {
			t.Errorf("without a bound: %s", value(b))
		}
		s.URL = "http://market/slow"
		began := time.Now()
		b = bookOf(m, "", s)
		if b.Fetch(t.Context()); time.Since(began) != fetchLimit {
			t.Errorf("a market that hangs holds the start up for %s", time.Since(began))
		}
	})
}

func TestBook_Restart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rates.json")
	m := &market{rate: "1000"}
	secret := dollar()
	secret.URL += "?key=hunter2"
	bookOf(m, file, secret).Fetch(t.Context())
	body, err := os.ReadFile(file)
	if info, _ := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(body), "hunter2") {
		t.Errorf("%v, %s", err, body)
	}
	m.set("")
	again := bookOf(m, file, secret)
	if again.Fetch(t.Context()); value(again) != "1000" || m.count() != 1 {
		t.Errorf("%s, asked %d times", value(again), m.count())
	}
	other := secret
	other.Pointer = "/q"
	if b := bookOf(m, file, other); value(b) != "900 stale" {
		t.Errorf("another source's value is used: %s", value(b))
	}
	for _, broken := range []string{"{", `{"USD":{"value":"-5","fetched":"2026-01-01T00:00:00Z"}}`, `{"USD":{"value":"x"}}`, "[]"} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		m.set("1001")
		b := bookOf(m, file, secret)
		if b.Fetch(t.Context()); value(b) != "1001" {
			t.Errorf("%s: %s", broken, value(b))
		}
	}
}

func TestBook_OvertakenByAnotherSource(t *testing.T) {
	m := &market{rate: "1000"}
	b := bookOf(m, "", dollar())
	other := dollar()
	other.Pointer, other.Start = "/q", dec("5")
	m.first = func() { b.Follow([]Source{other}) }
	if b.Fetch(t.Context()); value(b) != "5 stale" {
		t.Errorf("%s: the answer of the source before is taken for this one's", value(b))
	}
}

// A clock that is set back by years neither keeps the rate from being fetched nor lets it grow old unseen.
func TestBook_Clock(t *testing.T) {
	s := dollar()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := rate{value: dec("1"), fetched: now.AddDate(3, 0, 0), tried: now.AddDate(3, 0, 0)}
	if d := s.due(r, now); d != time.Hour {
		t.Errorf("due in %s", d)
	}
	if s.stale(r, now) {
		t.Error("a value of the future is not old")
	}
}

func TestNet(t *testing.T) { // the real client over a real socket gives up on a server that says nothing
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := fetch(ctx, newClient(), Source{URL: "http://" + l.Addr().String(), Pointer: "/r"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
