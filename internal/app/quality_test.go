package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// What was said of endpoints is there after a restart, and told to the new router; what the configuration says is not kept.
func TestQuality_Kept(t *testing.T) {
	dir, s := t.TempDir(), &snapshot{catalog: benched(t)}
	s.router = routing.NewRouter(s.catalog, routing.Options{}, time.Now())
	s.catalog.Endpoints[4].Flagged = "it lies"
	open := func() *quality {
		t.Helper()
		q, err := openQuality(dir, func() *snapshot { return s })
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := open()
	if err := q.Set("beta:x/a", "slow-witted"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Import([]byte(benchHead+"x/a,acme,1,0.1\nx/a,b,2,0.1\nx/a,c,2,0.1\n"), false); err != nil {
		t.Fatal(err)
	}
	s.router = routing.NewRouter(s.catalog, routing.Options{}, time.Now())
	q = open()
	q.tell(s)
	s.router.Refresh(time.Now())
	for i, want := range []string{"", "benchmark: ", "benchmark: ", "slow-witted", "it lies"} {
		e := s.catalog.Endpoints[i]
		if got := q.Why(e); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", e.ID, got)
		}
		if f, ok := s.router.Forecast(&routing.Ask{In: 1}, i, time.Now()); ok && f.Free != (want == "") {
			t.Errorf("%s: the router says free %v", e.ID, f.Free)
		}
	}
	var by []string
	for _, f := range q.List() {
		by = append(by, f.By)
	}
	if got := strings.Join(by, " "); got != "benchmark benchmark operator configuration" {
		t.Errorf("by %s", got)
	}
	if err := q.Set("beta:x/b", ""); err == nil {
		t.Error("the configuration's flag was taken back")
	}
	if err := q.Set("local-gpu/gpu:x/a", "x"); err == nil {
		t.Error("an own slot was flagged")
	}
	if err := q.Set("beta:x/a", ""); err != nil || open().Why(s.catalog.Endpoints[3]) != "" {
		t.Errorf("a flag that was taken back: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "quality.json")); err != nil || strings.Contains(string(b), "it lies") {
		t.Errorf("%s %v", b, err)
	}
}

// A file that cannot be read is an error that says so, and a change that cannot be kept does not hold.
func TestQuality_Damaged(t *testing.T) {
	dir, s := t.TempDir(), &snapshot{catalog: benched(t)}
	file := filepath.Join(dir, "quality.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openQuality(dir, nil); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("%v", err)
	}
	q := &quality{path: filepath.Join(dir, "none", "quality.json"), now: func() *snapshot { return s }}
	var e *hearth.Error
	if err := q.Set("beta:x/a", "x"); !errors.As(err, &e) || e.Type != hearth.ErrInternal || q.Why(s.catalog.Endpoints[3]) != "" {
		t.Errorf("%v, then %q", err, q.Why(s.catalog.Endpoints[3]))
	}
}

// An endpoint whose tool calls the router has found to be broken is in the list, until somebody has flagged it for all.
func TestQuality_ListsBrokenTools(t *testing.T) {
	s, now := &snapshot{catalog: benched(t)}, time.Now()
	s.router = routing.NewRouter(s.catalog, routing.Options{}, now.Add(-time.Minute))
	q, err := openQuality(t.TempDir(), func() *snapshot { return s })
	if err != nil {
		t.Fatal(err)
	}
	ask := routing.Ask{In: 100, Tools: true}
	for range 40 {
		for i := 1; i <= 3; i++ {
			res := routing.Result{In: 100, Out: 10, Calls: 1}
			if i == 2 {
				res.BadCalls = 1
			}
			try := s.router.Begin(&ask, i, routing.Share, now)
			try.Done(res, now.Add(time.Second))
		}
	}
	s.router.Refresh(now.Add(time.Second))
	list := q.List()
	if len(list) != 1 || list[0].Endpoint != "acme/int4:x/a" || list[0].By != "gateway" || !strings.Contains(list[0].Reason, "tool calls are broken") {
		t.Fatalf("%+v", list)
	}
	if q.Why(s.catalog.Endpoints[2]) != "" {
		t.Error("a flag for requests with tools is shown as one for all")
	}
	if err := q.Set("acme/int4:x/a", "it lies"); err != nil {
		t.Fatal(err)
	}
	if list := q.List(); len(list) != 1 || list[0].By != "operator" {
		t.Errorf("%+v", list)
	}
}
