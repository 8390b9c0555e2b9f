package app_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

// TestServer_SlotEvents: a client that follows the slots sees an engine come up, and the gateway's end is not held up by it.
func TestServer_SlotEvents(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/api/v1/slots/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.admin)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func(prefix string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
		return ""
	}
	if name, all := next("event: "), next("data: "); name != "slots" || strings.Count(all, `"state":"asleep"`) != 3 {
		t.Errorf("%s %s", name, all)
	}
	if r := w.call("POST", "/api/v1/slots/gemma/wake", "", "Authorization: Bearer "+w.admin); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for _, to := range []string{"starting", "ready"} {
		if name, step := next("event: "), next("data: "); name != "slot" || !strings.Contains(step, `"slot":"gemma"`) || !strings.Contains(step, `"to":"`+to+`"`) {
			t.Errorf("%s %s", name, step)
		}
	}
	began := time.Now()
	go w.end()
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			t.Errorf("in the end: %s", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
	w.end()
	if took := time.Since(began); took > w.cfg.Shutdown.Grace || strings.Contains(w.log.String(), "grace is over") {
		t.Errorf("the shutdown waited for it: %s", took)
	}
}

// TestServer_Socket: on the admin socket the operator needs no key, and everybody's routes ask for one as ever.
func TestServer_Socket(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	c, err := app.DialAdmin(t.Context(), w.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := c.Do(t.Context(), "GET", "/slots", nil)
	if err != nil || strings.Count(string(b), `"slot":`) != 3 {
		t.Errorf("%s %v", b, err)
	}
	_, err = c.Do(t.Context(), "POST", "/chat/completions", []byte(ask(gemma, "")))
	if e := (*hearth.Error)(nil); !asError(err, &e) || e.Type != hearth.ErrUnauthorized || e.HTTPStatus() != 401 {
		t.Errorf("chat without a key: %v", err)
	}
	_, err = c.Do(t.Context(), "GET", "/slots/nobody", nil)
	if e := (*hearth.Error)(nil); !asError(err, &e) || e.Type != hearth.ErrNotFound {
		t.Errorf("%v", err)
	}
}

// TestServer_SocketEnds: with the gateway ends what is said on its admin socket, and nobody is answered there any more.
func TestServer_SocketEnds(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	c, err := app.DialAdmin(t.Context(), w.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events, err := c.Open(t.Context(), "GET", "/slots/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	if _, err := c.Do(t.Context(), "GET", "/slots", nil); err != nil { // a connection that stays open
		t.Fatal(err)
	}
	w.end()
	if _, err := io.ReadAll(events); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
	if b, err := c.Do(t.Context(), "GET", "/slots", nil); err == nil {
		t.Errorf("it still answers: %s", b)
	}
	if _, err := app.DialAdmin(t.Context(), w.cfg.DataDir); !errors.Is(err, app.ErrNotRunning) {
		t.Errorf("afterwards: %v", err)
	}
	if l := w.log.String(); strings.Contains(l, "admin socket was closed early") {
		t.Error(l)
	}
}

// TestKeys_OfARunningGateway: what commands do to keys, the gateway does itself, so that it holds at once; and it is the
// gateway's configuration that counts.
func TestKeys_OfARunningGateway(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	k, err := app.OpenKeys(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	want := hearth.Key{Name: "프로그램", Admin: true, Models: []string{gemma}, Providers: []string{"acme"}, LocalOnly: false, EarlyHeaders: 20 * time.Second, Limit: 2_500_000_001,
		LimitReset: hearth.Weekly, ExternalLimit: 1_000_000_001, Currency: "USD", Owner: "주인", ExpiresAt: time.Date(2099, 1, 2, 3, 4, 5, 6_000_000, time.UTC)}
	plain, made, err := k.Create(t.Context(), hearth.Key{
		Name: "프로그램", Admin: true, Models: []string{"gpt-4o-mini"}, Providers: []string{"acme"}, EarlyHeaders: 20 * time.Second, Limit: 2_500_000_001,
		LimitReset: hearth.Weekly, ExternalLimit: 1_000_000_001, Currency: "USD", Owner: "주인", ExpiresAt: want.ExpiresAt,
	})
	if err != nil {
		t.Fatal(err)
	}
	want.ID, want.Label, want.CreatedAt = made.ID, made.Label, made.CreatedAt
	if d := cmp.Diff(want, made); d != "" || plain == "" || made.ID == "" || made.CreatedAt.IsZero() {
		t.Errorf("%q, (-want +got):\n%s", plain, d)
	}
	status := func() int { return w.generation("gen-x", plain).status }
	if got := status(); got != 404 {
		t.Errorf("the new key: %d", got)
	}
	limit, off := hearth.Nano(7), hearth.NoEarlyHeaders
	want.Models, want.Limit, want.EarlyHeaders = []string{}, limit, off
	want.LimitReset, want.ExternalLimit, want.Currency = hearth.Monthly, 8, ""
	want.Name, want.Owner, want.ExpiresAt = "다른", "", want.ExpiresAt.Add(time.Second)
	made, err = k.Change(t.Context(), "프로그램", hearth.KeyChange{Name: &want.Name, Owner: &want.Owner, ExpiresAt: &want.ExpiresAt, Disabled: new(false), Models: &[]string{}, Limit: &limit, EarlyHeaders: &off,
		LimitReset: new(hearth.Monthly), ExternalLimit: new(hearth.Nano(8)), Currency: new("")})
	want.UpdatedAt = made.UpdatedAt
	if d := cmp.Diff(want, made); d != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	keys, err := k.List(t.Context())
	if err != nil || len(keys) != 3 {
		t.Fatalf("%+v %v", keys, err)
	}
	if d := cmp.Diff(want, keys[2]); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
	for _, wrong := range []error{
		func() error { _, err := k.Disable(t.Context(), "nobody"); return err }(),
		func() error { _, _, err := k.Create(t.Context(), hearth.Key{Name: "a\x1b"}); return err }(),
		func() error { _, _, err := k.Create(t.Context(), hearth.Key{Name: "a", Currency: "CHF"}); return err }(),
		func() error {
			_, err := k.Change(t.Context(), "다른", hearth.KeyChange{Providers: &[]string{"acmee"}})
			return err
		}(),
	} {
		if e := (*hearth.Error)(nil); !asError(wrong, &e) || e.Message == "" {
			t.Errorf("%v", wrong)
		}
	}
	if _, err := k.Disable(t.Context(), plain); err != nil { // by the key itself: what a finder of it has
		t.Fatal(err)
	}
	if got := status(); got != 401 {
		t.Errorf("a disabled key: %d, and the gateway did it itself", got)
	}
	if strings.Contains(w.log.String(), plain) {
		t.Error("the key is in the log")
	}
}

func asError(err error, to **hearth.Error) bool {
	e, ok := errors.AsType[*hearth.Error](err)
	*to = e
	return ok
}
