package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/market"
)

// routedRecord is a record of a request that was drawn between two providers.
func routedRecord(n int, key, model, chosen string) *hearth.Generation {
	a := hearth.RoutedTerms{Endpoint: "acme:" + model, Share: 0.4, Price: 1, List: 1, Wait: 0.4, Decode: 0.6, TTFT: 1, Rest: 6, Tries: 1, State: "closed"}
	b := hearth.RoutedTerms{Endpoint: "cheap:" + model, Share: 0.6, Price: 0.8, List: 0.8, Wait: 0.5, Decode: 0.7, TTFT: 1.25, Rest: 7, Tries: 1, State: "closed"}
	share := map[string]float64{"acme": 0.4, "cheap": 0.6}[chosen]
	at := time.Date(2026, 11, 1, 0, 3*n, 0, 0, time.UTC)
	return &hearth.Generation{
		ID: fmt.Sprintf("gen-%026d", n), KeyID: key, CreatedAt: at, APIType: "completions", Requested: []string{model}, Model: model, Slug: chosen, Provider: chosen,
		Endpoint: chosen + ":" + model, Streamed: true, HTTP: 200, FirstToken: time.Second, Duration: 7 * time.Second, Generating: 7 * time.Second,
		Usage:    hearth.Usage{PromptTokens: 500, CompletionTokens: 100, Reported: true},
		Bill:     hearth.Bill{Cost: hearth.Nano(1e9 + int64(n)), Currency: "KRW", List: &hearth.Price{}, ListIn: "KRW"},
		Attempts: []hearth.Attempt{{Model: model, Slug: chosen, Endpoint: chosen + ":" + model, Status: 200, Latency: time.Second, Verdict: hearth.Served}},
		Routing:  []hearth.Routed{{Model: model, Endpoint: chosen + ":" + model, Reason: "share", Share: share, Kappa: 1, Candidates: []hearth.RoutedTerms{a, b}}},
	}
}

func TestSimulateFromRecords(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key, other := h.key(t, "ann"), h.key(t, "bob")
	var list []*hearth.Generation
	for n := range 60 {
		g := routedRecord(n, []string{key, other}[n%2], []string{"a/b", "a/b", "c/d"}[n%3], []string{"acme", "cheap", "cheap", "acme", "cheap"}[n%5])
		if n%10 == 9 {
			g.Routing = nil
		}
		list = append(list, g)
	}
	h.record(t, list...)
	file := filepath.Join(h.dir, "day.jsonl")
	h.must(t, "records", "export", "-o", file)
	replay := func(args ...string) (out market.Replayed) {
		t.Helper()
		code, text, errs := trade(append([]string{"--json"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: %s", args, errs)
		}
		if err := json.Unmarshal([]byte(text), &out, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Run("from a file, the database and by the configuration", func(t *testing.T) {
		for _, source := range []string{file, filepath.Join(h.dir, "data"), h.config} {
			out := replay("--from-records", source)
			if out.Requests != 60 || out.Replayed != 54 || out.Carried["not_ordered"] != 6 || out.Currency != "KRW" || len(out.Models) != 2 || len(out.Policies) != 5 {
				t.Errorf("%s: %+v", source, out)
			}
		}
	})
	t.Run("some of them", func(t *testing.T) {
		for _, source := range []string{file, h.config} {
			if out := replay("--from-records", source, "--key", key, "--model", "c/d", "--policy", "price"); out.Requests != 10 || len(out.Models) != 1 {
				t.Errorf("%s: %+v", source, out)
			}
			if out := replay("--from-records", source, "--from", "2026-11-01T00:30:00Z", "--to", "2026-11-01T01:00:00Z"); out.Requests != 10 {
				t.Errorf("%s: %+v", source, out.Requests)
			}
		}
		if out := replay("--from-records", file, "--to", "2026-11-01"); out.Requests != 60 {
			t.Errorf("the day itself is not in it: %d", out.Requests)
		}
	})
	t.Run("as a table", func(t *testing.T) {
		code, out, errs := trade("--from-records", file)
		for _, want := range []string{
			"2026-11-01 00:00 to 2026-11-01 02:57 UTC: 60 requests, 54 of them drawn by routing cost and replayed. Amounts are in KRW.",
			"As they were in every line: 6 ordered by the caller, or by price.", "all models, 54 of 60", "a/b, 36 of 40", "as it was", "  routing-cost@1.5\n", "  cheap:a/b\n",
		} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%d %s: %q is not in\n%s", code, errs, want, out)
			}
		}
	})
	t.Run("a market and a workload of it", func(t *testing.T) {
		m, w := filepath.Join(h.dir, "m.csv"), filepath.Join(h.dir, "w.csv")
		replay("--from-records", file, "--model", "a/b", "--write-market", m, "--write-workload", w)
		text, err := os.ReadFile(w)
		if err != nil || strings.Count(string(text), "\n") != 37 {
			t.Errorf("%v: %s", err, text)
		}
		text, err = os.ReadFile(m)
		if want := "name,input,output,cache,ttft,tok/s,uptime\nacme:a/b,0,0,0,"; err != nil || !strings.HasPrefix(string(text), want) || strings.Count(string(text), "\n") != 3 {
			t.Errorf("%v: %s", err, text)
		}
		if code, _, errs := trade("--market", m, "--workload", w, "--seed", "1"); code != 0 {
			t.Error(errs)
		}
	})
}

func TestSimulateFromRecords_Refused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad, csv := filepath.Join(dir, "bad.jsonl"), filepath.Join(dir, "day.csv")
	for name, text := range map[string]string{bad: "\n{\"id\":1}\n", csv: "id,created_at\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from-records", bad}, "--from-records: " + bad + ": line 2 is no record: "},
		{[]string{"--from-records", csv}, "line 1 is no JSON object; hearth records export writes what is read here, without --format csv"},
		{[]string{"--from-records", dir}, "is no data_dir of a gateway: it has no hearth.db"},
		{[]string{"--from-records", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"--from-records", "-"}, "of 0 records none says how its endpoint was drawn"},
		{[]string{"--from-records", bad, "--policy", "least-latency"}, "--policy: records cannot be replayed under \"least-latency\"; they can be under price, inverse-square, routing-cost"},
		{[]string{"--from-records", bad, "--kappa", "0.1"}, "--kappa is for a market that is played, and does not go with --from-records; write --policy routing-cost@0.1"},
		{[]string{"--from-records", bad, "--gates"}, "--gates is for a market that is played"},
		{[]string{"--from-records", bad, "--from", "yesterday"}, "--from: \"yesterday\" is neither a day"},
		{[]string{"--model", "a/b"}, "--model is for the records of a gateway; name them with --from-records"},
	} {
		if code, out, errs := trade(c.args...); code == 0 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %s%s\nwant %s", c.args, code, out, errs, c.want)
		}
	}
}
