package crash

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// result is what the client's notes and the records say of each other.
type result struct {
	served     int // answers whose last byte the client read
	lost       int // of them, and of streams that were cut, without a record
	doubled    int // ids with two records, and requests that the sums count too often
	mismatched int // records, and sums, that are not as they must be
	unseen     int // records of answers that the client did not read to the end
	complete   int // of them of complete answers
	cut        int // streams of which the client read the beginning only
}

func (c *client) notes() (whole map[string]note, begun map[string]note) {
	c.t.Helper()
	whole, begun = map[string]note{}, map[string]note{}
	files, err := filepath.Glob(filepath.Join(c.dir, "*"))
	if err != nil || len(files) != clientWorkers {
		c.t.Fatalf("%d files of notes, %v", len(files), err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			c.t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var n note
			if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
				c.t.Fatalf("%s: %v", name, err)
			}
			if n.Whole {
				if _, ok := whole[n.ID]; ok {
					c.t.Errorf("two answers have the id %s", n.ID)
				}
				whole[n.ID] = n
			} else {
				begun[n.ID] = n
			}
		}
		f.Close()
	}
	for id := range whole {
		delete(begun, id)
	}
	return whole, begun
}

// reconcile compares the client's notes with the records of a gateway that has ended.
func reconcile(t *testing.T, g *gateway, c *client) (r result) {
	t.Helper()
	wrong := func(count *int, format string, args ...any) {
		if *count++; *count <= 10 {
			t.Errorf(format, args...)
		}
	}
	s, err := store.Open(t.Context(), g.path("data/hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	whole, begun := c.notes()
	r.served, r.cut = len(whole), len(begun)
	seen := map[string]bool{}
	var key string
	sums := map[store.Spend]store.Spend{}
	if err := s.Each(t.Context(), store.Filter{}, func(v *store.Stored) error {
		if seen[v.ID] {
			wrong(&r.doubled, "%s has two records", v.ID)
		}
		seen[v.ID] = true
		add(sums, v)
		var got hearth.Generation
		if err := json.Unmarshal(v.Record, &got, json.ExperimentalSupportFormatTag(true)); err != nil {
			return fmt.Errorf("record %s: %w", v.ID, err)
		}
		if key == "" {
			key = got.KeyID
		}
		n, ok := whole[v.ID]
		if !ok {
			r.unseen++
			if n, ok = begun[v.ID]; ok {
				delete(begun, v.ID)
			}
		}
		complaint := check(&got, v, n, ok && n.Whole, key)
		if complaint == "" && !n.Whole && got.FinishReason == "stop" {
			r.complete++
		}
		if complaint != "" {
			wrong(&r.mismatched, "%s: %s\n%s", v.ID, complaint, v.Record)
		}
		return nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	for id := range whole {
		if !seen[id] {
			wrong(&r.lost, "the answer %s was read to its last byte and has no record", id)
		}
	}
	if *durability == "process" { // with power the beginning is noted behind the first piece's back
		for id := range begun {
			wrong(&r.lost, "the beginning of %s was read and there is no record of it", id)
		}
	}
	compareSums(t, s, sums, &r, wrong)
	return r
}

// check says what is wrong with the record of an answer. n is what the client noted of it; whole: to the last byte.
func check(got *hearth.Generation, v *store.Stored, n note, whole bool, key string) string {
	if int64(v.Cost) != int64(got.Bill.Cost) || v.Currency != got.Bill.Currency || got.KeyID != key {
		return "the row and the record in it differ"
	}
	finished := got.FinishReason == "stop" && got.Error == "" && !got.Cancelled
	if !finished {
		if whole {
			return "the answer was complete, its record is not"
		}
		if !got.Cancelled && got.Error == "" {
			return "an answer without an end is not marked"
		}
		return ""
	}
	if n.ID == "" {
		return "" // the client got nothing of it: there is nothing to compare with
	}
	want := usageOf(n.Number)
	if u := (usage{got.Usage.PromptTokens, got.Usage.CachedTokens, got.Usage.CompletionTokens, got.Usage.ReasoningTokens}); u != want {
		return fmt.Sprintf("tokens %+v, want %+v", u, want)
	}
	if cost := costOf(n.Model, want); int64(got.Bill.Cost) != cost || got.Model != n.Model {
		return fmt.Sprintf("costs %d, must cost %d", got.Bill.Cost, cost)
	}
	if whole && !sameAmount(n.Cost, int64(got.Bill.Cost)) {
		return fmt.Sprintf("the caller was told %s, the record says %d", n.Cost, got.Bill.Cost)
	}
	return ""
}

// sameAmount says whether a number in an answer is so many nano-units, to the last digit.
func sameAmount(text jsontext.Value, nano int64) bool {
	r, ok := new(big.Rat).SetString(string(text))
	return ok && r.Cmp(big.NewRat(nano, 1e9)) == 0
}

// add adds a record to the sums that the table of sums must have.
func add(sums map[store.Spend]store.Spend, v *store.Stored) {
	k := store.Spend{KeyID: v.KeyID, Day: v.Day, Model: v.Model, Provider: v.Provider, Currency: v.Currency}
	sum, ok := sums[k]
	if !ok {
		sum = k
	}
	sum.Cost += v.Cost
	sum.Requests++
	sum.PromptTokens += v.PromptTokens
	sum.CompletionTokens += v.CompletionTokens
	sums[k] = sum
}

func compareSums(t *testing.T, s *store.Store, want map[store.Spend]store.Spend, r *result, wrong func(*int, string, ...any)) {
	t.Helper()
	got, err := s.Sums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range got.Spend {
		k := store.Spend{KeyID: sum.KeyID, Day: sum.Day, Model: sum.Model, Provider: sum.Provider, Currency: sum.Currency}
		if w := want[k]; sum.Requests > w.Requests {
			wrong(&r.doubled, "the sum %+v counts more than its records, %+v", sum, w)
		} else if sum != w {
			wrong(&r.mismatched, "the sum is %+v, its records give %+v", sum, w)
		}
		delete(want, k)
	}
	for _, w := range slices.Collect(maps.Values(want)) {
		wrong(&r.mismatched, "there is no sum for %+v", w)
	}
}

// unreserved looks whether the key can spend all that it has not spent: with hardly more than nothing left it is refused,
// with enough for one more question it is served.
func (g *gateway) unreserved() {
	g.t.Helper()
	const one = 300_000_000 // a question is held back for with less, and two with more
	for _, step := range []struct {
		left   int64
		status int
	}{{1, http.StatusPaymentRequired}, {one, http.StatusOK}} {
		var last, set int64
		within(g.t, fmt.Sprintf("with %d left the answer is %d", step.left, step.status), func() bool {
			if spent := g.spent(); spent != last || set == 0 { // the last records may be on their way
				last, set = spent, spent+step.left
				amount := big.NewRat(set, 1e9).FloatString(9)
				if out, err := g.command("keys", "set", "client", "--limit", amount).CombinedOutput(); err != nil {
					g.t.Fatalf("keys set: %v\n%s", err, out)
				}
			}
			status, _ := g.ask()
			return status == step.status
		})
	}
}

func (g *gateway) spent() (sum int64) {
	g.t.Helper()
	s, err := store.Open(g.t.Context(), g.path("data/hearth.db"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer s.Close()
	sums, err := s.Sums(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	for _, v := range sums.Spend {
		sum += int64(v.Cost)
	}
	return sum
}

// ask asks a question that is not noted.
func (g *gateway) ask() (status int, body string) {
	g.t.Helper()
	question := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "number 0"}]}`, models[0])
	req, err := http.NewRequest(http.MethodPost, "http://"+g.addr+"/api/v1/chat/completions", strings.NewReader(question))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
