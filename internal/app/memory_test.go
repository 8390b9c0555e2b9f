package app_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"myip.co.kr/hearth/internal/app"
)

// TestMeasured: what is measured of slots outlives the gateway, and a file that is damaged is no reason not to start.
func TestMeasured(t *testing.T) {
	w := startWorld(t, "")
	if r := w.chat(ask(gemma, "")); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	w.end()
	path := filepath.Join(w.cfg.DataDir, "measured.json")
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), `"gemma":{"model":"`+gemma+`"`) || !strings.Contains(string(b), `"load_ms":[`) || !strings.Contains(string(b), `"service_ms":[`) {
		t.Fatalf("%s, %v", b, err)
	}
	open := func() (n int) {
		a, err := app.Open(t.Context(), w.cfg, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/api/v1/slots", nil)
		r.Header.Set("Authorization", "Bearer "+w.admin)
		rec := httptest.NewRecorder()
		if a.Server.ServeHTTP(rec, r); rec.Code != 200 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		n = len(regexp.MustCompile(`"load":\{"p50_seconds":[0-9.]*[1-9]`).FindAll(rec.Body.Bytes(), -1)) // however long it took
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return n
	}
	if n := open(); n != 1 {
		t.Errorf("%d loads are known", n)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(b) {
		t.Errorf("%s, %v", after, err)
	}
	if err := os.WriteFile(path, []byte(`{"gemma":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := open(); n != 0 {
		t.Errorf("%d loads are known", n)
	}
}
