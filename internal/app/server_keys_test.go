package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// What OpenRouter's schema says is always there.
const ownedKeyFields = "hash name label disabled limit limit_remaining limit_reset include_byok_in_limit usage usage_daily usage_weekly usage_monthly byok_usage byok_usage_daily byok_usage_weekly byok_usage_monthly created_at updated_at creator_user_id workspace_id"

type keyAnswer struct {
	Data map[string]jsontext.Value `json:"data"`
	Key  string                    `json:"key"`
}

// keys sends a request about keys with the admin key and reads the answer.
func (w *world) keys(t *testing.T, method, path, body string, status int) (a keyAnswer) {
	t.Helper()
	r := w.call(method, "/api/v1/keys"+path, body, "Authorization: Bearer "+w.admin)
	if r.status != status {
		t.Fatalf("%s /keys%s %s: %d %s", method, path, body, r.status, r.body)
	}
	if status < 300 {
		if err := json.Unmarshal(r.body, &a); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		required(t, method+" /keys", a.Data, ownedKeyFields)
	}
	return a
}

// says checks fields of a key.
func (a keyAnswer) says(t *testing.T, what string, want map[string]string) {
	t.Helper()
	for field, v := range want {
		if string(a.Data[field]) != v {
			t.Errorf("%s: %s is %s, want %s", what, field, a.Data[field], v)
		}
	}
}

// keyNames lists names of keys in the order of an answer.
func (w *world) keyNames(t *testing.T, query string) (names []string) {
	t.Helper()
	r := w.call("GET", "/api/v1/keys"+query, "", "Authorization: Bearer "+w.admin)
	var list struct {
		Data []map[string]any `json:"data"`
	}
	if err := json.Unmarshal(r.body, &list); err != nil || r.status != 200 {
		t.Fatalf("%d %s %v", r.status, r.body, err)
	}
	for _, k := range list.Data {
		required(t, "a key of the list", k, ownedKeyFields)
		names = append(names, fmt.Sprint(k["name"]))
	}
	return names
}

// A key made over the API works at once, is changed and is gone: no request in between waits for anything.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	made := w.keys(t, "POST", "", `{"name":"app 하나","limit":12.5,"limit_reset":"monthly","expires_at":"2099-12-31T23:59:59Z","creator_user_id":"user_1",
		"include_byok_in_limit":false,"models":["gpt-4o-mini"],"providers":["acme","local-gpu"],"external_limit":5,"shown_currency":"USD","something_new":{"a":1}}`, 201)
	hash := strings.Trim(string(made.Data["hash"]), `"`)
	if sum := sha256.Sum256([]byte(made.Key)); hex.EncodeToString(sum[:]) != hash {
		t.Errorf("the hash %s is not that of %s", hash, made.Key)
	}
	want := map[string]string{
		"name": `"app 하나"`, "label": `"` + made.Key[:11] + "…" + made.Key[len(made.Key)-3:] + `"`, "disabled": "false", "limit": "12.5", "limit_remaining": "12.5",
		"limit_reset": `"monthly"`, "include_byok_in_limit": "false", "usage": "0", "updated_at": "null", "expires_at": `"2099-12-31T23:59:59Z"`,
		"creator_user_id": `"user_1"`, "models": `["` + gemma + `"]`, "providers": `["acme","local-gpu"]`, "external_limit": "5", "currency": `"KRW"`,
		"shown_currency": `"USD"`, "is_management_key": "false", "local_only": "false", "workspace_id": `"00000000-0000-0000-0000-000000000000"`,
	}
	made.says(t, "made", want)
	if created, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(made.Data["created_at"])); err != nil || time.Since(created) > time.Minute {
		t.Errorf("created_at %s: %v", made.Data["created_at"], err)
	}
	w.keys(t, "GET", "/"+hash, "", 200).says(t, "read", want)
	if r := w.call("GET", "/api/v1/keys", "", "Authorization: Bearer "+w.admin); strings.Contains(string(r.body), made.Key) {
		t.Error("the list shows the key")
	}
	chat := func(want int) {
		t.Helper()
		r := w.call("POST", "/api/v1/chat/completions", ask(gemma, `,"provider":{"only":["acme"]},"max_tokens":20`), "Authorization: Bearer "+made.Key)
		if r.status != want {
			t.Errorf("a request: %d %s, want %d", r.status, r.body, want)
		}
	}
	chat(200)
	if k := w.keys(t, "GET", "/"+hash, "", 200); string(k.Data["usage"]) == "0" || string(k.Data["limit_remaining"]) == "12.5" {
		t.Errorf("after a request: %s used, %s left", k.Data["usage"], k.Data["limit_remaining"])
	}
	if k := w.get(t, "/key", made.Key); string(k["currency"]) != `"USD"` || string(k["expires_at"]) != `"2099-12-31T23:59:59Z"` || string(k["creator_user_id"]) != `"user_1"` {
		t.Errorf("the key itself sees %v", k)
	}

	// Only what is named changes.
	changed := w.keys(t, "PATCH", "/"+hash, `{"limit":null}`, 200)
	want["limit"], want["limit_remaining"] = "null", "null"
	delete(want, "usage")
	delete(want, "updated_at")
	changed.says(t, "without a limit", want)
	if string(changed.Data["updated_at"]) == "null" {
		t.Error("it has not changed")
	}
	if same := w.keys(t, "PATCH", "/"+hash, `{}`, 200); string(same.Data["updated_at"]) != string(changed.Data["updated_at"]) {
		t.Error("a change of nothing is a change")
	}
	chat(200)
	w.keys(t, "PATCH", "/"+hash, `{"disabled":true,"name":"old"}`, 200).says(t, "disabled", map[string]string{"disabled": "true", "name": `"old"`})
	chat(401)
	if slices.Contains(w.keyNames(t, ""), "old") || !slices.Contains(w.keyNames(t, "?include_disabled=true"), "old") {
		t.Error("a disabled key is listed when asked for, and only then")
	}
	w.keys(t, "PATCH", "/"+hash, `{"disabled":false,"models":null,"providers":[],"local_only":true,"content":"never","class":"batch","limit_reset":null,"expires_at":null,"external_limit":null,"shown_currency":null,"requests_per_minute":7,"tokens_per_minute":9000,"kappa":0.050,"explore":false}`, 200).says(t, "opened",
		map[string]string{"disabled": "false", "models": "[]", "providers": "[]", "local_only": "true", "content": `"never"`, "class": `"batch"`, "limit_reset": "null", "expires_at": "null", "external_limit": "null", "shown_currency": "null", "name": `"old"`, "requests_per_minute": "7", "tokens_per_minute": "9000", "kappa": "0.05", "explore": "false"})
	w.keys(t, "PATCH", "/"+hash, `{"kappa":null,"explore":true}`, 200).says(t, "as the model has it", map[string]string{"kappa": "null", "explore": "true"})
	if k := w.get(t, "/key", made.Key); !strings.HasPrefix(string(k["rate_limit"]), `{"requests":7,"tokens":9000,"interval":"1m","note":`) {
		t.Errorf("the key itself sees the limits %s", k["rate_limit"])
	}
	w.keys(t, "PATCH", "/"+hash, `{"requests_per_minute":null}`, 200).says(t, "with tokens only", map[string]string{"requests_per_minute": "null", "tokens_per_minute": "9000"})
	chat(404)

	// A key that was used is kept out of sight, for what was recorded of it; one that was not leaves nothing.
	unused := w.keys(t, "POST", "", `{"name":"unused"}`, 201)
	for _, k := range []string{hash, strings.Trim(string(unused.Data["hash"]), `"`)} {
		if r := w.call("DELETE", "/api/v1/keys/"+k, "", "Authorization: Bearer "+w.admin); r.status != 200 || string(r.body) != `{"deleted":true}` {
			t.Errorf("deleted: %d %s", r.status, r.body)
		}
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			w.keys(t, method, "/"+k, "{}", 404)
		}
	}
	chat(401)
	if names := w.keyNames(t, "?include_disabled=true"); slices.Contains(names, "old") || slices.Contains(names, "unused") {
		t.Errorf("listed: %q", names)
	}
	if a := w.call("GET", "/api/v1/activity?api_key_hash="+hash, "", "Authorization: Bearer "+w.admin); a.status != 200 {
		t.Errorf("the activity of a deleted key: %d %s", a.status, a.body)
	}
	kept, err := w.app.Accounts.List(t.Context())
	if err != nil || len(kept) != 3 || !kept[2].Deleted || kept[2].Name != "old" {
		t.Errorf("kept: %+v, %v", kept, err)
	}
}

// A deleted key's limit can no longer be spent: it is not granted to anybody.
func TestKeys_DeletedCredits(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	made := w.keys(t, "POST", "", `{"name":"prepaid","limit":7}`, 201)
	if c := w.get(t, "/credits", w.admin); string(c["total_credits"]) != "7" {
		t.Errorf("credits %v", c)
	}
	w.get(t, "/key", made.Key) // it was used
	if r := w.call("DELETE", "/api/v1/keys/"+strings.Trim(string(made.Data["hash"]), `"`), "", "Authorization: Bearer "+w.admin); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if c := w.get(t, "/credits", w.admin); string(c["total_credits"]) != "0" {
		t.Errorf("credits %v", c)
	}
}

func TestKeys_List(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	var names []string
	for i := range 103 {
		names = append(names, fmt.Sprintf("key %03d", i))
		w.key(t, hearth.Key{Name: names[i]})
	}
	all := append([]string{"first user key", "first admin key"}, names...)
	for query, want := range map[string][]string{
		"": all[:100], "?offset=0": all[:100], "?offset=100": all[100:], "?offset=104": all[104:], "?offset=105": nil, "?offset=999999999": nil, "?offset=": all[:100],
		"?workspace_id=0df9e665-d932-5740-b2c7-b52af166bc11": nil, "?workspace_id=00000000-0000-0000-0000-000000000000": all[:100], "?include_disabled=false": all[:100],
	} {
		if got := w.keyNames(t, query); !slices.Equal(got, want) {
			t.Errorf("%q: %q", query, got)
		}
	}
	for _, query := range []string{"?offset=-1", "?offset=x", "?offset=1.5", "?offset=99999999999999999999", "?include_disabled=perhaps"} {
		if r := w.call("GET", "/api/v1/keys"+query, "", "Authorization: Bearer "+w.admin); r.status != 400 {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}

// Limits are read and shown in the currency of the key that asks, or in the one that the body names.
func TestKeys_Limit(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "", "exchange_rates: {USD: 1390}", "exchange_rates: {USD: 1390, EUR: 1499.123456789012, XXX: 0.00000001}")
	dollars := w.key(t, hearth.Key{Name: "dollars", Admin: true, Currency: "USD"})
	for _, tc := range []struct {
		key, body   string
		nano        hearth.Nano // of the limit
		shown, says string
	}{
		{w.admin, `"limit":5`, 5_000_000_000, "5", ""},
		{w.admin, `"limit":5e0`, 5_000_000_000, "5", ""},
		{w.admin, `"limit":0.000000001`, 1, "0.000000001", ""},
		{w.admin, `"limit":5.00`, 5_000_000_000, "5", ""},
		{w.admin, `"limit":9223372036.854775807`, 9223372036854775807, "9223372036.854775807", ""},
		{w.admin, `"limit":0.0000000001`, 0, "", "finer than a billionth of the billing currency, KRW"},
		{w.admin, `"limit":1.0000000001`, 0, "", "finer than a billionth"},
		{w.admin, `"limit":9223372036.854775808`, 0, "", "more than can be counted"},
		{w.admin, `"limit":1e30`, 0, "", "more than can be counted"},
		{w.admin, `"limit":1e999999999`, 0, "", "must be an amount in KRW"},
		{w.admin, `"limit":1e-999999999`, 0, "", "must be an amount in KRW"},
		{w.admin, `"limit":0.` + strings.Repeat("0", 70) + `1`, 0, "", "must be an amount in KRW"},
		{w.admin, `"limit":0`, 0, "", "more than 0"},
		{w.admin, `"limit":-1`, 0, "", "more than 0"},
		{w.admin, `"limit":"5"`, 0, "", "must be an amount in KRW"},
		{w.admin, `"limit":true`, 0, "", "must be an amount"},
		{dollars, `"limit":5`, 6_950_000_000_000, "5", ""},
		{dollars, `"limit":0.01`, 13_900_000_000, "0.01", ""},
		{dollars, `"limit":0.0000000001`, 139, "0.0000000001", ""},
		{dollars, `"limit":0.0000000000001`, 0, "", "finer than a billionth of the billing currency, KRW"},
		{dollars, `"limit":1.00000000000001`, 0, "", "finer than a billionth"},
		{dollars, `"limit":6635519.7`, 0, "", "more than can be counted"},
		{dollars, `"limit":6635519`, 9_223_371_410_000_000_000, "6635519", ""},
		{dollars, `"limit":1390,"currency":"KRW"`, 1_390_000_000_000, "1", ""},
		{w.admin, `"limit":2,"currency":"USD"`, 2_780_000_000_000, "2780", ""},
		{w.admin, `"limit":1,"currency":"EUR"`, 1_499_123_456_789, "1499.123456789", ""},       // …789.012 of the rate is rounded
		{w.admin, `"limit":0.5,"currency":"EUR"`, 749_561_728_395, "749.561728395", ""},        // …394.506
		{w.admin, `"limit":0.000000000001,"currency":"EUR"`, 1, "0.000000001", ""},             // as finely as amounts are shown
		{w.admin, `"limit":0.002156530382,"currency":"EUR"`, 3_232_905_281, "3.232905281", ""}, // …280.93
		{w.admin, `"limit":1.0000000000001,"currency":"EUR"`, 0, "", "finer than"},             // the amount is
		{w.admin, `"limit":0.000000001,"currency":"XXX"`, 0, "", "finer than a billionth"},     // nothing would be left
		{w.admin, `"limit":1,"currency":"CHF"`, 0, "", `there is no exchange rate from \"CHF\" to KRW`},
		{w.admin, `"limit":1,"currency":5`, 0, "", "currency must be a string"},
	} {
		body := `{"name":"x",` + tc.body + `,"external_limit":` + strings.TrimPrefix(strings.SplitN(tc.body, ",", 2)[0], `"limit":`) + `}`
		r := w.call("POST", "/api/v1/keys", body, "Authorization: Bearer "+tc.key)
		if tc.says != "" {
			if r.status != 400 || !strings.Contains(string(r.body), tc.says) {
				t.Errorf("%s: %d %s, want %s", body, r.status, r.body, tc.says)
			}
			continue
		}
		var a keyAnswer
		if err := json.Unmarshal(r.body, &a); err != nil || r.status != 201 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
			continue
		}
		a.says(t, body, map[string]string{"limit": tc.shown, "external_limit": tc.shown})
		list, err := w.app.Accounts.List(t.Context())
		if k := list[len(list)-1]; err != nil || k.Limit != tc.nano || k.ExternalLimit != tc.nano {
			t.Errorf("%s: kept as %s and %s, want %s", body, k.Limit, k.ExternalLimit, tc.nano)
		}
	}
	if r := w.call("GET", "/api/v1/keys", "", "Authorization: Bearer "+dollars); strings.Contains(string(r.body), `"currency":"KRW"`) || !strings.Contains(string(r.body), `"limit":0.01,`) {
		t.Errorf("listed for who sees dollars: %s", r.body)
	}
}

func TestKeys_Refused(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	hash := strings.Trim(string(w.keys(t, "POST", "", `{"name":"x"}`, 201).Data["hash"]), `"`)
	for body, says := range map[string]string{
		``: "must be a JSON object", `null`: "must be a JSON object", `[]`: "must be a JSON object", `"name"`: "must be a JSON object", `{"name":"a"`: "must be a JSON object",
		`{"name":"a"} {}`: "must be a JSON object", `{"name":"a","name":"b"}`: "must be a JSON object", "{\"name\":\"\xff\"}": "must be a JSON object",
		`{"name":"a","x":{"y":1,"y":2}}`: "must be a JSON object",
		`{"name":5}`:                     "name must be a string", `{"name":null}`: "a key needs a name", `{"name":""}`: "a key needs a name", `{"name":"a\nb"}`: "printable",
		`{"name":"a","Limit":1}`: "limit must be written in small letters", `{"name":"a","LOCAL_ONLY":true}`: "local_only must be written in small letters",
		`{"name":"a","disabled":null}`: "disabled must be true or false", `{"name":"a","local_only":"yes"}`: "local_only must be true or false", `{"name":"a","content":true}`: "content must be never or allowed", `{"name":"a","class":"fast"}`: "class must be interactive or batch",
		`{"name":"a","requests_per_minute":0}`: "requests_per_minute must be an integer from 1 on", `{"name":"a","requests_per_minute":1.5}`: "must be an integer", `{"name":"a","tokens_per_minute":"9"}`: "tokens_per_minute must be an integer",
		`{"name":"a","tokens_per_minute":-1}`: "must be an integer", `{"name":"a","requests_per_minute":1000001}`: "up to 1000000", `{"name":"a","tokens_per_minute":1e99}`: "must be an integer", `{"name":"a","RequestS_per_minute":1}`: "small letters",
		`{"name":"a","kappa":-1}`: "kappa must be a number from 0.001 to 100", `{"name":"a","kappa":0}`: "kappa must be a number", `{"name":"a","kappa":"1"}`: "kappa must be a number", `{"name":"a","kappa":100.001}`: "kappa must be",
		`{"name":"a","kappa":0.0001}`: "up to three decimals", `{"name":"a","kappa":1e99}`: "kappa must be", `{"name":"a","kappa":"NaN"}`: "kappa must be", `{"name":"a","Kappa":1}`: "small letters", `{"name":"a","explore":"off"}`: "explore must be true or false",
		`{"name":"a","include_byok_in_limit":1}`: "include_byok_in_limit must be",
		`{"name":"a","limit_reset":"yearly"}`:    "limit_reset must be daily, weekly, monthly, or null", `{"name":"a","limit_reset":""}`: "limit_reset must be", `{"name":"a","limit_reset":1}`: "limit_reset must be",
		`{"name":"a","expires_at":"2099-12-31T23:59:59+09:00"}`: "expires_at must be a time in UTC", `{"name":"a","expires_at":"2099-12-31"}`: "expires_at must be a time in UTC",
		`{"name":"a","expires_at":"2099-12-31T23:59Z"}`: "expires_at must be a time in UTC", `{"name":"a","expires_at":4102444799}`: "expires_at must be a time in UTC",
		`{"name":"a","expires_at":""}`: "expires_at must be a time in UTC", `{"name":"a","expires_at":"0001-01-01T00:00:00Z"}`: "expires_at must be a time in UTC",
		`{"name":"a","expires_at":"2001-12-31T23:59:59Z"}`: "must expire in the future",
		`{"name":"a","models":"gpt"}`:                      "models must be a list of strings", `{"name":"a","models":[1]}`: "models must be a list of strings", `{"name":"a","models":{}}`: "models must be a list",
		`{"name":"a","models":["no/such"]}`: `the configuration has no model \"no/such\"`, `{"name":"a","providers":["acmee"]}`: "did you mean acme?",
		`{"name":"a","shown_currency":"CHF"}`: `there is no exchange rate from \"CHF\" to KRW`, `{"name":"a","shown_currency":"usd"}`: "no exchange rate", `{"name":"a","shown_currency":"` + strings.Repeat("X", 9999) + `"}`: "no exchange rate",
		`{"name":"a","workspace_id":"0df9e665-d932-5740-b2c7-b52af166bc11"}`: "one workspace", `{"name":"a","workspace_id":7}`: "one workspace",
		`{"name":"a","local_only":true,"providers":["acme"]}`: "could use nothing",
	} {
		for _, where := range []string{"POST ", "PATCH /" + hash} {
			method, path, _ := strings.Cut(where, " ")
			r := w.call(method, "/api/v1/keys"+path, body, "Authorization: Bearer "+w.admin)
			e := r.fault(t)
			if r.status != 400 || !strings.Contains(string(r.body), says) || len(e.Error.Message) > 500 {
				t.Errorf("%s %.200s: %d %s, want %s", method, body, r.status, r.body, says)
			}
		}
	}
	for body, says := range map[string]string{`{}`: "needs a name", `{"name":"a","creator_user_id":5}`: "creator_user_id must be a string", `{"name":"a","creator_user_id":"` + strings.Repeat("x", 101) + `"}`: `"param":"creator_user_id"`} {
		if r := w.call("POST", "/api/v1/keys", body, "Authorization: Bearer "+w.admin); r.status != 400 || !strings.Contains(string(r.body), says) {
			t.Errorf("%.200s: %d %s, want %s", body, r.status, r.body, says)
		}
	}
	if r := w.call("POST", "/api/v1/keys", `{"name":"`+strings.Repeat("x", 1<<20)+`"}`, "Authorization: Bearer "+w.admin); r.status != 413 {
		t.Errorf("a megabyte: %d %s", r.status, r.body)
	}
	for _, path := range []string{"/0", "/" + strings.Repeat("0", 64), "/" + strings.ToUpper(hash), "/%00", "/x%2Fy"} {
		w.keys(t, "GET", path, "", 404)
	}
	if names := w.keyNames(t, "?include_disabled=true"); len(names) != 3 {
		t.Errorf("something was made: %q", names)
	}
	w.keys(t, "GET", "/"+hash, "", 200).says(t, "unharmed", map[string]string{"name": `"x"`, "limit": "null", "updated_at": "null", "models": "[]"})
}

// The routes are the operator's, and nobody locks himself out with them.
func TestKeys_Who(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "cors_origins: ['https://page.example']\n")
	sum := sha256.Sum256([]byte(w.admin))
	own := "/" + hex.EncodeToString(sum[:])
	for _, where := range []string{"GET ", "POST ", "GET " + own, "PATCH " + own, "DELETE " + own} {
		method, path, _ := strings.Cut(where, " ")
		if r := w.call(method, "/api/v1/keys"+path, `{"name":"x"}`, "Authorization: Bearer "+w.user); r.status != 403 {
			t.Errorf("%s with a user's key: %d %s", where, r.status, r.body)
		}
		if r := w.call(method, "/api/v1/keys"+path, `{"name":"x"}`); r.status != 401 {
			t.Errorf("%s without a key: %d %s", where, r.status, r.body)
		}
		if r := w.call(method, "/v1/keys"+path, `{"name":"x"}`, "Authorization: Bearer "+w.user); r.status != 403 {
			t.Errorf("%s under /v1: %d %s", where, r.status, r.body)
		}
	}
	w.keys(t, "PATCH", own, `{"disabled":true}`, 409)
	w.keys(t, "DELETE", own, "", 409)
	w.keys(t, "PATCH", own, `{"disabled":false,"name":"mine"}`, 200).says(t, "own", map[string]string{"name": `"mine"`, "is_management_key": "true"})
	other := w.key(t, hearth.Key{Name: "other", Admin: true})
	sum = sha256.Sum256([]byte(other))
	w.keys(t, "PATCH", "/"+hex.EncodeToString(sum[:]), `{"disabled":true}`, 200)
	r := w.call("POST", "/api/v1/keys", `{"name":"x"}`, "Authorization: Bearer "+w.admin)
	if r.status != http.StatusCreated || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", r.status, r.header)
	}
	var a keyAnswer
	if err := json.Unmarshal(r.body, &a); err != nil {
		t.Fatal(err)
	}
	if r := w.call("POST", "/api/v1/keys", `{"name":"y"}`, "Authorization: Bearer "+a.Key); r.status != 403 {
		t.Errorf("a key of the API makes keys: %d %s", r.status, r.body)
	}
	if log := w.log.String(); strings.Contains(log, a.Key) || !strings.Contains(log, "a key was made") {
		t.Error("the log shows the key, or nothing of it")
	}
	page := w.call("OPTIONS", "/api/v1/keys/x", "", "Origin: https://page.example", "Access-Control-Request-Method: DELETE")
	if m := page.header.Get("Access-Control-Allow-Methods"); page.status != 204 || !strings.Contains(m, "DELETE") || !strings.Contains(m, "PATCH") {
		t.Errorf("a preflight: %d %q", page.status, m)
	}
}
