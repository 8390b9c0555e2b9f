package app_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

// Keys that could not be handed out are forgotten: the next start is the first one again.
func TestFirstKeysAreHandedOutOrForgotten(t *testing.T) {
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte("currency: KRW\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if _, err := app.Open(t.Context(), cfg, app.Options{FirstKeys: func(string, string) error { return full }}); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	var admin, user string
	open := func() *app.App {
		a, err := app.Open(t.Context(), cfg, app.Options{FirstKeys: func(a, u string) error { admin, user = a, u; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := open()
	keys, err := a.Accounts.List(t.Context())
	if err != nil || len(keys) != 2 || admin == "" || user == "" {
		t.Errorf("%d keys, %v; handed out %q and %q", len(keys), err, admin, user)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin = ""
	a = open()
	defer a.Close(t.Context())
	if admin != "" {
		t.Error("a second start made keys again")
	}
}

// A listener that fails ends the gateway, but not the requests that are under way.
func TestServe_ListenerFails(t *testing.T) {
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte("currency: KRW\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var user string
	a, err := app.Open(t.Context(), cfg, app.Options{FirstKeys: func(_, u string) error { user = u; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Serve(t.Context(), ln, nil) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"model":"a/b","messages":[{"role":"user","content":"hi"}]}`
	fmt.Fprintf(c, "POST /api/v1/chain HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", user, len(body))
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100") { // the body is being read
		t.Fatalf("%q, %v", line, err)
	}
	ln.Close()
	select {
	case err := <-done:
		t.Errorf("the gateway ended before a request that was under way: %v", err)
	case <-time.After(100 * time.Millisecond):
		fmt.Fprint(c, body)
		if rest, err := io.ReadAll(r); err != nil || !strings.Contains(string(rest), "model_not_found") {
			t.Errorf("%q, %v", rest, err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	}
}
