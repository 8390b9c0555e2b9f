package main

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestRecordsAudit(t *testing.T) {
	h := newHouse(t)
	job := h.key(t, "nightly job")
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, seoul)
	said := answered("gen-2", job, "acme", "c/d", at.Add(time.Second))
	said.Usage.Cost = "0.000147"
	h.record(t, answered("gen-1", job, "local-gpu", "a/b", at), said)
	out := h.must(t, "records", "audit")
	want := `2 records and 2 sums of days checked: all as they should be

ENDPOINT  RECORDS  BILLED AS REPORTED  REPORTED      BY ITS PRICE LIST  DIFFERENCE
acme:c/d  1        0                   0.15435 KRW   0.147              +5 %
`
	if d := cmp.Diff(strings.Join(strings.Fields(want), " "), strings.Join(strings.Fields(out), " ")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	wrong := answered("gen-3", job, "local-gpu", "a/b", at.Add(24*time.Hour))
	wrong.Bill.Cost++
	h.record(t, wrong)
	code, out, errs := h.hearth("records", "audit")
	if code != 1 || errs != "hearth: 1 difference\n" || !strings.HasPrefix(out, "record gen-3: cost 0.045000001 KRW, computed 0.045\n3 records and 3 sums of days checked: 1 difference\n") {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
	if code, out, _ := h.hearth("records", "audit", "--to", "2026-11-30"); code != 0 || !strings.HasPrefix(out, "2 records and 2 sums") {
		t.Errorf("%d %s", code, out)
	}
	code, out, _ = h.hearth("records", "audit", "--json", "--from", "2026-12-01")
	wantJSON := `{"difference":{"what":"record gen-3","says":"cost 0.045000001 KRW, computed 0.045","id":"gen-3"}}
{"audit":{"records":1,"findings":1,"sums":1,"reported":[]}}
`
	if code != 1 || out != wantJSON {
		t.Errorf("%d %s", code, out)
	}
	for _, c := range [][]string{{"--from", "2026-11-30T00:00:00Z"}, {"--to", "today"}, {"--key", "nobody"}} {
		if code, _, errs := h.hearth(append([]string{"records", "audit"}, c...)...); code != 1 || errs == "" {
			t.Errorf("%v: %d %q", c, code, errs)
		}
	}
}

func TestReport(t *testing.T) {
	h := newHouse(t)
	job, other := h.key(t, "nightly job"), h.key(t, "other")
	at := time.Date(2026, 11, 30, 23, 0, 0, 0, seoul)
	slow := answered("gen-3", job, "acme", "c/d", at)
	slow.Attempts = append([]hearth.Attempt{{Slug: hearth.LocalSlug, Skip: hearth.SkipLoading}}, slow.Attempts...)
	slow.Title, slow.User = "evil\x1b[2J", "kim"
	h.record(t, answered("gen-1", job, "local-gpu", "a/b", at), answered("gen-2", other, "local-gpu", "a/b", at.Add(time.Second)), slow,
		answered("gen-4", other, "local-gpu", "a/b", at.Add(time.Hour)), // December
		&hearth.Generation{ID: "gen-5", KeyID: job, CreatedAt: at, HTTP: 503, Error: "model_loading", Bill: hearth.Bill{Currency: "KRW"}})
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	want := `2026-11, in KRW

Own slots gave 2 of 3 answers (67 %), 2,200 of 3,300 tokens, for 0.0900.
External providers gave 1, for 0.147.
Together 0.237 KRW. Nobody answered 1 request.

KEY                                            LOCAL  TOKENS IN  OUT  COST    EXTERNAL  TOKENS IN  OUT  COST   UNANSWERED
nightly job (` + job + `)  1      1,000      100  0.0450  1         1,000      100  0.147  1
other (` + other + `)        1      1,000      100  0.0450  0         0          0    0.00   0

USER          LOCAL  TOKENS IN  OUT  COST    EXTERNAL  TOKENS IN  OUT  COST   UNANSWERED
kim           0      0          0    0.00    1         1,000      100  0.147  0
(none given)  2      2,000      200  0.0900  0         0          0    0.00   1

APP           LOCAL  TOKENS IN  OUT  COST    EXTERNAL  TOKENS IN  OUT  COST   UNANSWERED
evil?[2J      0      0          0    0.00    1         1,000      100  0.147  0
(none given)  2      2,000      200  0.0900  0         0          0    0.00   1

WHY ANSWERS CAME FROM OUTSIDE                     ANSWERS  TOKENS IN  OUT  COST
2. The slot is asleep and cannot wake up in time  1        1,000      100  0.147
   slot_loading                                   1

Outside, 2 answers of own slots would have cost 0.220 KRW at list prices; here they cost 0.0900.
`
	if got := h.must(t, "report", "--month", "2026-11"); words(got) != words(want) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	if got := h.must(t, "report", "--month", "2026-10"); got != "there are no records of 2026-10\n" {
		t.Errorf("%q", got)
	}
	if got, want := h.must(t, "report"), h.must(t, "report", "--month", time.Now().In(seoul).Format("2006-01")); got != want {
		t.Errorf("without a month:\n%s\nof this one:\n%s", got, want)
	}
	rows, err := csv.NewReader(strings.NewReader(h.must(t, "report", "--month", "2026-11", "--csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	wantRows := [][]string{
		{"month", "currency", "what", "name", "local_requests", "local_prompt_tokens", "local_completion_tokens", "local_cost",
			"external_requests", "external_prompt_tokens", "external_completion_tokens", "external_cost", "unanswered", "unbilled"},
		{"2026-11", "KRW", "total", "", "2", "2000", "200", "0.09", "1", "1000", "100", "0.147", "1", "0"},
		{"2026-11", "KRW", "key", "nightly job (" + job + ")", "1", "1000", "100", "0.045", "1", "1000", "100", "0.147", "1", "0"},
		{"2026-11", "KRW", "key", "other (" + other + ")", "1", "1000", "100", "0.045", "0", "0", "0", "0", "0", "0"},
		{"2026-11", "KRW", "user", "kim", "0", "0", "0", "0", "1", "1000", "100", "0.147", "0", "0"},
		{"2026-11", "KRW", "user", "", "2", "2000", "200", "0.09", "0", "0", "0", "0", "1", "0"},
		{"2026-11", "KRW", "app", "evil\x1b[2J", "0", "0", "0", "0", "1", "1000", "100", "0.147", "0", "0"},
		{"2026-11", "KRW", "app", "", "2", "2000", "200", "0.09", "0", "0", "0", "0", "1", "0"},
		{"2026-11", "KRW", "cause", "slot", "", "", "", "", "1", "1000", "100", "0.147", "", ""},
		{"2026-11", "KRW", "local_as_billed", "", "2", "2000", "200", "0.09", "", "", "", "", "", ""},
		{"2026-11", "KRW", "local_if_outside", "", "", "", "", "", "2", "2000", "200", "0.22", "", ""},
		{"2026-11", "KRW", "local_with_no_outside", "", "0", "0", "0", "0", "", "", "", "", "", ""},
	}
	if d := cmp.Diff(wantRows, rows); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := h.must(t, "report", "--month", "2026-11", "--json"); !jsontext.Value(strings.TrimSpace(got)).IsValid() ||
		!strings.Contains(got, `"causes":[{"cause":"slot","requests":1,"prompt_tokens":1000,"completion_tokens":100,"cost":0.147,"details":{"slot_loading":1}}]`) {
		t.Error(got)
	}
	if code, _, errs := h.hearth("report", "--month", "November"); code != 1 || !strings.Contains(errs, "is not a month") {
		t.Errorf("%d %q", code, errs)
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[hearth.Nano]string{
		0: "0.00", 1: "0.000000001", 45_000_000: "0.0450", 999_999_999: "1.000", 1_234_500_000: "1.23", 1_235_000_000: "1.24", 1_225_000_000: "1.22",
		1_234_567_891_000_000: "1,234,567.89", -1_500_000_000: "-1.50", 123_456_000: "0.123",
	} {
		if got := money(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
