package app_test

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/store"
)

// get reads a route with a key and returns its data, as it was written.
func (w *world) get(t *testing.T, path, key string) map[string]jsontext.Value {
	t.Helper()
	r := w.call("GET", "/api/v1"+path, "", "Authorization: Bearer "+key)
	var body struct {
		Data map[string]jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil || r.status != 200 {
		t.Fatalf("GET %s: %d %s %v", path, r.status, r.body, err)
	}
	return body.Data
}

// What OpenRouter's schema says is always there.
const (
	keyFields      = "label limit usage usage_daily usage_weekly usage_monthly byok_usage byok_usage_daily byok_usage_weekly byok_usage_monthly is_free_tier is_management_key is_provisioning_key limit_remaining limit_reset include_byok_in_limit creator_user_id rate_limit"
	activityFields = "date model model_permaslug endpoint_id provider_name usage byok_usage_inference requests prompt_tokens completion_tokens reasoning_tokens"
)

func required[V any](t *testing.T, what string, got map[string]V, fields string) {
	t.Helper()
	for _, f := range strings.Fields(fields) {
		if _, ok := got[f]; !ok {
			t.Errorf("%s has no %s: %v", what, f, slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	plain := w.key(t, hearth.Key{Name: "limited", Limit: 1_000_000_000, LimitReset: hearth.Daily, ExternalLimit: 500_000_000})
	for _, path := range []string{"/key", "/auth/key"} {
		k := w.get(t, path, w.user)
		required(t, path, k, keyFields)
		for field, want := range map[string]string{"usage": "0", "limit": "null", "limit_remaining": "null", "limit_reset": "null", "is_management_key": "false", "currency": `"KRW"`, "external_limit": "null"} {
			if string(k[field]) != want {
				t.Errorf("%s of an unused key: %s is %s, want %s", path, field, k[field], want)
			}
		}
	}
	if k := w.get(t, "/key", w.admin); string(k["is_management_key"]) != "true" {
		t.Errorf("the admin key: %v", k)
	}
	r := w.call("POST", "/api/v1/chat/completions", ask(qwen, `,"provider":{"only":["acme"]},"max_tokens":20`), "Authorization: Bearer "+plain)
	var answer struct {
		Usage struct {
			Cost hearth.Nano `json:"cost"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(r.body, &answer); err != nil || r.status != 200 || answer.Usage.Cost <= 0 {
		t.Fatalf("%d %s %v", r.status, r.body, err)
	}
	k, cost := w.get(t, "/key", plain), answer.Usage.Cost
	for field, want := range map[string]string{
		"usage": cost.String(), "usage_daily": cost.String(), "usage_weekly": cost.String(), "usage_monthly": cost.String(), "external_usage": cost.String(),
		"limit": "1", "limit_remaining": (1_000_000_000 - cost).String(), "limit_reset": `"daily"`,
		"external_limit": "0.5", "external_limit_remaining": (500_000_000 - cost).String(), "byok_usage": "0",
	} {
		if string(k[field]) != want {
			t.Errorf("%s is %s, want %s", field, k[field], want)
		}
	}
	if c := w.get(t, "/credits", w.admin); string(c["total_usage"]) != cost.String() || string(c["total_credits"]) != cost.String() || string(c["currency"]) != `"KRW"` {
		t.Errorf("credits are %v", c)
	}
	w.key(t, hearth.Key{Name: "prepaid", Limit: 2_000_000_000})
	if c := w.get(t, "/credits", w.admin); string(c["total_credits"]) != (2_000_000_000 + cost).String() {
		t.Errorf("credits are %v", c)
	}
	for _, path := range []string{"/credits", "/activity"} {
		if r := w.call("GET", "/api/v1"+path, "", "Authorization: Bearer "+w.user); r.status != 403 {
			t.Errorf("%s for a user's key: %d %s", path, r.status, r.body)
		}
	}
	if r := w.call("GET", "/api/v1/key", ""); r.status != 401 {
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
}

func TestActivity(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "timezone: Asia/Seoul\n")
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	today := time.Now().In(seoul)
	day := func(ago int) string { return today.AddDate(0, 0, -ago).Format(time.DateOnly) }
	keys, err := w.app.Accounts.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), w.cfg.DataDir+"/hearth.db") // records of days gone by
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows []store.Row
	for i, x := range []struct {
		ago             int
		key             int
		model, provider string
		reasoning       int64
	}{{0, 0, gemma, "local-gpu", 1}, {1, 0, gemma, "local-gpu", 2}, {1, 1, gemma, "local-gpu", 3}, {1, 1, qwen, "acme", 4}, {1, 0, "", "", 5}, {30, 0, gemma, "gone", 6}, {31, 0, gemma, "local-gpu", 7}} {
		g := hearth.Generation{
			ID: "gen-old-" + string(rune('a'+i)), KeyID: keys[x.key].ID, CreatedAt: today.AddDate(0, 0, -x.ago), Model: x.model, Slug: x.provider,
			Usage: hearth.Usage{PromptTokens: 100, CompletionTokens: 10, ReasoningTokens: x.reasoning, Reported: true}, Bill: hearth.Bill{Cost: 1_500_000_000, Currency: "KRW"},
		}
		record, err := json.Marshal(struct{ ID string }{g.ID})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, store.NewRow(uint64(i+1), &g, record))
	}
	if _, err := db.Apply(t.Context(), "another-journal", uint64(len(rows)), rows); err != nil {
		t.Fatal(err)
	}
	read := func(query string) (lines []string) {
		t.Helper()
		r := w.call("GET", "/api/v1/activity"+query, "", "Authorization: Bearer "+w.admin)
		var body struct {
			Data []map[string]any `json:"data"`
		}
		if err := json.Unmarshal(r.body, &body); err != nil || r.status != 200 {
			t.Fatalf("%d %s %v", r.status, r.body, err)
		}
		for _, a := range body.Data {
			required(t, "activity", a, activityFields)
			b, err := json.Marshal([]any{a["date"], a["model"], a["provider_name"], a["usage"], a["requests"], a["prompt_tokens"], a["completion_tokens"], a["reasoning_tokens"]})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(b))
		}
		return lines
	}
	line := func(ago int, rest string) string { return `["` + day(ago) + `",` + rest + `]` }
	both := line(1, `"`+gemma+`","MyIP Local GPU",3,2,200,20,5`)
	if d := slices.Compare(read(""), []string{both, line(1, `"`+qwen+`","Acme AI",1.5,1,100,10,4`), line(30, `"`+gemma+`","gone",1.5,1,100,10,6`)}); d != 0 {
		t.Errorf("activity is %q", read(""))
	}
	if got := read("?date=" + day(30)); len(got) != 1 || !strings.Contains(got[0], "gone") {
		t.Errorf("of one day: %q", got)
	}
	if got := read("?api_key_hash=" + keys[1].Hash.String()); len(got) != 2 || !strings.Contains(got[0], `1.5,1,100,10,3]`) {
		t.Errorf("of one key: %q", got)
	}
	for query, status := range map[string]int{"?date=" + day(0): 400, "?date=" + day(31): 400, "?date=yesterday": 400, "?date=2026-1-1": 400, "?api_key_hash=" + strings.Repeat("0", 64): 404, "?api_key_hash=zz": 404} {
		if r := w.call("GET", "/api/v1/activity"+query, "", "Authorization: Bearer "+w.admin); r.status != status {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}

// Every amount a caller sees is in the currency of the configuration, or in the key's; max_price is read in it.
func TestShownCurrency(t *testing.T) {
	w := startWorld(t, "api: {currency: USD}\n")
	won := w.key(t, hearth.Key{Name: "won", Currency: "KRW", Limit: 1_000_000_000_000})
	type answer struct {
		Usage struct {
			Cost    jsontext.Value `json:"cost"`
			Details struct {
				Currency string         `json:"currency"`
				Prompt   jsontext.Value `json:"upstream_inference_prompt_cost"`
				Rate     jsontext.Value `json:"exchange_rate"`
			} `json:"cost_details"`
		} `json:"usage"`
	}
	asked := func(key, more string) (a answer, id string) {
		t.Helper()
		r := w.call("POST", "/api/v1/chat/completions", ask(qwen, more), "Authorization: Bearer "+key)
		if err := json.Unmarshal(r.body, &a); err != nil || r.status != 200 {
			t.Fatalf("%d %s %v", r.status, r.body, err)
		}
		return a, r.header.Get("X-MyIP-Generation-Id")
	}
	dollars, id := asked(w.user, "")
	krw, _ := asked(won, "")
	cost := func(v jsontext.Value) decimal.Decimal { return decimal.RequireFromString(string(v)) }
	if off := cost(krw.Usage.Cost).Div(decimal.NewFromInt(1390)).Sub(cost(dollars.Usage.Cost)).Abs(); dollars.Usage.Details.Currency != "USD" || krw.Usage.Details.Currency != "KRW" ||
		off.GreaterThan(decimal.New(1, -12)) || cost(dollars.Usage.Cost).IsZero() || string(dollars.Usage.Details.Rate) != "1390" {
		t.Errorf("in dollars %+v, in won %+v", dollars.Usage, krw.Usage)
	}
	if g := w.get(t, "/generation?id="+id, w.user); string(g["usage"]) != string(dollars.Usage.Cost) || string(g["currency"]) != `"USD"` || string(g["total_cost"]) != string(dollars.Usage.Cost) {
		t.Errorf("the record says %s %s, the answer said %s", g["usage"], g["currency"], dollars.Usage.Cost)
	}
	if k := w.get(t, "/key", w.user); string(k["usage"]) != string(dollars.Usage.Cost) || string(k["currency"]) != `"USD"` {
		t.Errorf("the key: %s %s", k["usage"], k["currency"])
	}
	if k := w.get(t, "/key", won); string(k["usage"]) != string(krw.Usage.Cost) || string(k["limit"]) != "1000" {
		t.Errorf("the key in won: %s of %s", k["usage"], k["limit"])
	}
	for key, want := range map[string]string{w.user: `"prompt":"0.00000021"`, won: `"prompt":"0.0002919"`, "": `"prompt":"0.00000021"`} { // 0.20 USD and 5 per cent
		headers := []string{"Authorization: Bearer " + key}
		if key == "" {
			headers = nil
		}
		for _, path := range []string{"/models", "/models/" + qwen + "/endpoints"} {
			if r := w.call("GET", "/api/v1"+path, "", headers...); !strings.Contains(string(r.body), want) {
				t.Errorf("%s: no %s in %s", path, want, r.body)
			}
		}
	}
	// 0.21 dollars are allowed, 0.2 are not; and so many won.
	const acme = `,"provider":{"only":["acme"],"max_price":{"prompt":`
	asked(w.user, acme+`0.21}}`)
	asked(won, acme+`291.9}}`)
	for key, c := range map[string]struct{ most, costs string }{w.user: {"0.2", "0.21 USD"}, won: {"291.8", "291.9 KRW"}} {
		most := c.most
		if r := w.call("POST", "/api/v1/chat/completions", ask(qwen, acme+most+`}}`), "Authorization: Bearer "+key); r.status != 404 {
			t.Errorf("max_price %s: %d %s", most, r.status, r.body)
		}
		r := w.call("POST", "/api/v1/chain", ask(qwen, acme+most+`}}`), "Authorization: Bearer "+key)
		if !strings.Contains(string(r.body), "costs "+c.costs+" per 1M prompt tokens, more than provider.max_price.prompt") {
			t.Errorf("explained: %s", r.body)
		}
	}
	if r := w.call("POST", "/api/v1/chain", ask(qwen, ""), "Authorization: Bearer "+w.user); !strings.Contains(string(r.body), `"prompt":"0.21","completion":"0.63","currency":"USD"`) {
		t.Errorf("the chain's costs: %s", r.body)
	}
}

// A key whose currency has no rate any more sees the billing currency, and the log says so once.
func TestShownCurrency_RateGone(t *testing.T) {
	t.Parallel()
	const with, without = "exchange_rates: {USD: 1390, JPY: 9.2}", "exchange_rates: {USD: 1390}"
	w := startWorld(t, "", without, with)
	w.text = strings.Replace(w.text, with, without, 1) // what the edits below begin with
	yen := w.key(t, hearth.Key{Name: "yen", Currency: "JPY", Limit: 92_000_000_000})
	gone := w.key(t, hearth.Key{Name: "gone", Currency: "JPY"})
	sees := func(currency, limit string) {
		t.Helper()
		if k := w.get(t, "/key", yen); string(k["currency"]) != `"`+currency+`"` || string(k["limit"]) != limit {
			t.Errorf("sees %s %s, want %s %s", k["limit"], k["currency"], limit, currency)
		}
	}
	said := func(times int) {
		t.Helper()
		if n := strings.Count(w.log.String(), "no exchange rate: they see the billing currency"); n != times {
			t.Errorf("said %d times, want %d", n, times)
		}
	}
	sees("JPY", "10")
	said(0)
	w.reload()
	sees("KRW", "92")
	said(1)
	w.reload(without, without+"\nmargin: 6%", "margin: 5%\n", "")
	said(1)
	w.reload(without, with)
	sees("JPY", "10")
	w.reload()
	said(2)
	for _, name := range []string{"yen", "gone"} {
		if _, err := w.app.Accounts.Disable(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	w.reload(without, with)
	w.reload()
	said(2) // nobody is to see it
	if r := w.call("GET", "/api/v1/key", "", "Authorization: Bearer "+gone); r.status != 401 {
		t.Errorf("%d %s", r.status, r.body)
	}
	w.key(t, hearth.Key{Name: "late", Currency: "JPY"})
	w.end()
	cfg, err := w.edited()
	if err != nil {
		t.Fatal(err)
	}
	again := new(safeBuffer)
	a, err := app.Open(t.Context(), cfg, app.Options{Log: slog.New(slog.NewTextHandler(again, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(again.String(), "currency=JPY billing_currency=KRW") {
		t.Errorf("not said at the start: %s", again)
	}
}
