package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// TestDocs_Words checks that docs/chain.md says of every word that explain or a record may hold what it means.
func TestDocs_Words(t *testing.T) {
	page, err := os.ReadFile("../../docs/chain.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []hearth.Stage{hearth.StageUnknown, hearth.StageKey, hearth.StageConditions, hearth.StageCapability, hearth.StageHealth,
		hearth.StageCredits, hearth.StageCut} {
		if !strings.Contains(string(page), "| `"+string(s)+"` |") {
			t.Errorf("stage %s has no row", s)
		}
	}
	for _, s := range []hearth.SkipReason{hearth.SkipLoading, hearth.SkipBusy, hearth.SkipFailed, hearth.SkipQueueFull, hearth.SkipCooldown,
		hearth.SkipRateLimited, hearth.SkipContext, hearth.SkipOverBudget} {
		if !strings.Contains(string(page), "`"+string(s)+"`") {
			t.Errorf("the word %s is not explained", s)
		}
	}
}

// TestDocs_Shown: where an error points to is a page of the gateway, with a place for that error.
func TestDocs_Shown(t *testing.T) {
	s := New(Options{}, Parts{Log: slog.New(slog.DiscardHandler)})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w
	}
	pointed := 0
	for typ := range allTypes {
		var doc struct {
			Error struct {
				Availability struct {
					DocsURL string `json:"docs_url"`
				} `json:"availability"`
			} `json:"error"`
		}
		if err := json.Unmarshal(answerTo(hearth.Errorf(typ, "why")).Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		path, anchor, _ := strings.Cut(doc.Error.Availability.DocsURL, "#")
		if path == "" {
			path, anchor = "/docs/errors", string(typ)
		} else {
			pointed++
		}
		w := get(path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || anchor != string(typ) ||
			!strings.Contains(w.Body.String(), `<h2 id="`+anchor+`">`) {
			t.Errorf("%s points to %q, which is %d", typ, doc.Error.Availability.DocsURL, w.Code)
		}
	}
	if pointed < 5 {
		t.Errorf("%d errors point to the page", pointed)
	}
	for _, path := range []string{"/docs/configuration", "/docs/..%2ferrors.md", "/docs/errors.md", "/docs/"} {
		if w := get(path); w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
	}
}
