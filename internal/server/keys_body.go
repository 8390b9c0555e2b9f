package server

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// keyBody is what a request says of a key. A member that is not there is nil. Members that are not known are passed over,
// as OpenRouter does; those that differ from a known one in case alone are refused, for they are mistakes that would widen
// what the key may do.
type keyBody struct {
	Name          jsontext.Value `json:"name"`
	Disabled      jsontext.Value `json:"disabled"`
	Limit         jsontext.Value `json:"limit"`
	LimitReset    jsontext.Value `json:"limit_reset"`
	BYOK          jsontext.Value `json:"include_byok_in_limit"` // checked only: there are no such keys here
	ExpiresAt     jsontext.Value `json:"expires_at"`
	Creator       jsontext.Value `json:"creator_user_id"` // of a new key
	Workspace     jsontext.Value `json:"workspace_id"`
	ExternalLimit jsontext.Value `json:"external_limit"`
	Currency      jsontext.Value `json:"currency"` // of the limits in this body
	ShownCurrency jsontext.Value `json:"shown_currency"`
	LocalOnly     jsontext.Value `json:"local_only"`
	Content       jsontext.Value `json:"content"`
	Class         jsontext.Value `json:"class"`
	Requests      jsontext.Value `json:"requests_per_minute"`
	Tokens        jsontext.Value `json:"tokens_per_minute"`
	Models        jsontext.Value `json:"models"`
	Providers     jsontext.Value `json:"providers"`
	Kappa         jsontext.Value `json:"kappa"`
	Explore       jsontext.Value `json:"explore"`
}

// maxKeyBody bounds the body of a request about a key: two full lists of names fit.
const maxKeyBody = 128 << 10

func readKeyBody(w http.ResponseWriter, r *http.Request) (b keyBody, err error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxKeyBody))
	if err != nil {
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			return b, hearth.Errorf(hearth.ErrPayloadTooLarge, "what is said of a key may have up to %d bytes", maxKeyBody)
		}
		return b, hearth.Errorf(hearth.ErrInvalidRequest, "the body ended before it was complete")
	}
	const remedy = `the body must be a JSON object, such as {"name": "laptop", "limit": 5}, with each member once`
	var members map[string]jsontext.Value
	if jsontext.Value(raw).Kind() != '{' || json.Unmarshal(raw, &members) != nil || json.Unmarshal(raw, &b) != nil {
		return b, hearth.Errorf(hearth.ErrInvalidRequest, remedy)
	}
	for f := range reflect.TypeFor[keyBody]().Fields() {
		known := f.Tag.Get("json")
		for name := range members {
			if name != known && strings.EqualFold(name, known) {
				return b, hearth.Invalid(known, "%s must be written in small letters", known)
			}
		}
	}
	return b, nil
}

// change is what the body says, with limits in a currency unless it names another.
func (b *keyBody) change(cat *hearth.Catalog, in hearth.Money) (c hearth.KeyChange, err error) {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	c.Name, err = optional(b.Name, "name", text)
	note(err)
	c.Disabled, err = optional(b.Disabled, "disabled", yes)
	note(err)
	_, err = optional(b.BYOK, "include_byok_in_limit", yes)
	note(err)
	c.LocalOnly, err = optional(b.LocalOnly, "local_only", yes)
	note(err)
	c.NoContent, err = optional(b.Content, "content", never)
	note(err)
	c.Class, err = optional(b.Class, "class", class)
	note(err)
	c.RequestsPerMinute, err = optional(b.Requests, "requests_per_minute", perMinute)
	note(err)
	c.TokensPerMinute, err = optional(b.Tokens, "tokens_per_minute", perMinute)
	note(err)
	c.Kappa, err = optional(b.Kappa, "kappa", kappa)
	note(err)
	c.NoExplore, err = optional(b.Explore, "explore", not)
	note(err)
	c.LimitReset, err = optional(b.LimitReset, "limit_reset", period)
	note(err)
	c.ExpiresAt, err = optional(b.ExpiresAt, "expires_at", instant)
	note(err)
	c.Models, err = optional(b.Models, "models", names)
	note(err)
	c.Providers, err = optional(b.Providers, "providers", names)
	note(err)
	c.Currency, err = optional(b.ShownCurrency, "shown_currency", func(param string, v jsontext.Value) (string, error) { return currency(cat, param, v) })
	note(err)
	if place, err := optional(b.Workspace, "workspace_id", text); err != nil || place != nil && *place != workspace {
		note(hearth.Invalid("workspace_id", "there is one workspace here, %s", workspace))
	}
	named, err := optional(b.Currency, "currency", func(param string, v jsontext.Value) (string, error) { return currency(cat, param, v) })
	note(err)
	if named != nil && *named != "" {
		in, _ = cat.In(*named)
	}
	limit := func(param string, v jsontext.Value) (hearth.Nano, error) { return limitIn(in, cat.Currency, param, v) }
	c.Limit, err = optional(b.Limit, "limit", limit)
	note(err)
	c.ExternalLimit, err = optional(b.ExternalLimit, "external_limit", limit)
	note(err)
	for _, err := range errs {
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// never reads whether prompts and answers may not be kept.
func never(param string, v jsontext.Value) (bool, error) {
	switch string(v) {
	case `"` + contentNever + `"`:
		return true, nil
	case `"` + contentAllowed + `"`, "null":
		return false, nil
	}
	return false, hearth.Invalid(param, "%s must be %s or %s", param, contentNever, contentAllowed)
}

// class reads the class of a key; null is interactive.
func class(param string, v jsontext.Value) (hearth.Class, error) {
	switch string(v) {
	case `"` + string(hearth.Batch) + `"`:
		return hearth.Batch, nil
	case `"` + hearth.Interactive.String() + `"`, "null":
		return hearth.Interactive, nil
	}
	return "", hearth.Invalid(param, "%s must be %s or %s", param, hearth.Interactive, hearth.Batch)
}

// kappa reads what a key's time is worth; null is none of its own.
func kappa(param string, v jsontext.Value) (hearth.Kappa, error) {
	if v.Kind() == 'n' {
		return 0, nil
	}
	k, err := hearth.ParseKappa(string(v)) // a string has its quotes, a negative number its sign: neither can be read
	if err != nil || k == 0 {
		return 0, hearth.Invalid(param, "%s must be a number from 0.001 to %s with up to three decimals, such as 0.85, or null for what the model has", param, hearth.KappaMost)
	}
	return k, nil
}

// not reads whether something may not be; null is that it may.
func not(param string, v jsontext.Value) (bool, error) {
	if v.Kind() == 'n' {
		return false, nil
	}
	may, err := yes(param, v)
	return !may, err
}

// perMinute reads how many of something a key may use in a minute; null is no limit.
func perMinute(param string, v jsontext.Value) (n int64, err error) {
	if v.Kind() == 'n' {
		return 0, nil
	}
	if v.Kind() != '0' || json.Unmarshal(v, &n) != nil || n < 1 {
		return 0, hearth.Invalid(param, "%s must be an integer from 1 on, or null for no limit", param)
	}
	return n, nil
}

// optional reads a member of a body, nil if it is not there.
func optional[T any](v jsontext.Value, param string, read func(string, jsontext.Value) (T, error)) (*T, error) {
	if v == nil {
		return nil, nil
	}
	x, err := read(param, v)
	if err != nil {
		return nil, err
	}
	return &x, nil
}

// text reads a string; null is "".
func text(param string, v jsontext.Value) (s string, err error) {
	if v.Kind() != 'n' && (v.Kind() != '"' || json.Unmarshal(v, &s) != nil) {
		return "", hearth.Invalid(param, "%s must be a string", param)
	}
	return s, nil
}

func yes(param string, v jsontext.Value) (bool, error) {
	if k := v.Kind(); k != 't' && k != 'f' {
		return false, hearth.Invalid(param, "%s must be true or false", param)
	}
	return v.Kind() == 't', nil
}

// names reads a list of strings; null is none, which means all.
func names(param string, v jsontext.Value) (list []string, err error) {
	if k := v.Kind(); k != 'n' && k != '[' || json.Unmarshal(v, &list) != nil {
		return nil, hearth.Invalid(param, "%s must be a list of strings, or null for all", param)
	}
	return list, nil
}

func period(param string, v jsontext.Value) (hearth.Period, error) {
	s, err := text(param, v)
	switch p := hearth.Period(s); {
	case err != nil:
	case v.Kind() == 'n':
		return hearth.Forever, nil
	case p == hearth.Daily || p == hearth.Weekly || p == hearth.Monthly:
		return p, nil
	}
	return "", hearth.Invalid(param, "%s must be daily, weekly, monthly, or null for never", param)
}

// instant reads a time in UTC; null is never.
func instant(param string, v jsontext.Value) (time.Time, error) {
	s, err := text(param, v)
	if err == nil && v.Kind() == 'n' {
		return time.Time{}, nil
	}
	t, parseErr := time.Parse(time.RFC3339, s)
	if _, offset := t.Zone(); err != nil || parseErr != nil || offset != 0 || t.IsZero() {
		return time.Time{}, hearth.Invalid(param, "%s must be a time in UTC with its seconds, such as 2027-12-31T23:59:59Z, or null for never", param)
	}
	return t, nil
}

// currency reads the code of one that has an exchange rate; null is the configured one.
func currency(cat *hearth.Catalog, param string, v jsontext.Value) (string, error) {
	s, err := text(param, v)
	if err != nil || v.Kind() == 'n' {
		return "", err
	}
	if _, ok := cat.In(s); !ok {
		return "", hearth.Invalid(param, "there is no exchange rate from \"%s\" to %s: add it to exchange_rates or exchange_sources in the configuration", plain(s, 40), cat.Currency)
	}
	return s, nil
}

// limitIn reads an amount of money in a currency and converts it to the billing currency, exactly. null is no limit. Where
// the rate alone makes it finer than 10⁻⁹ of the billing currency it is rounded once, half to even; what is written more finely
// than amounts in the currency are shown is refused.
func limitIn(in hearth.Money, billing, param string, v jsontext.Value) (hearth.Nano, error) {
	if v.Kind() == 'n' {
		return 0, nil
	}
	const maxText, maxExp, decimals = 64, 32, 12 // of what is shown in another currency than the billing one
	d, err := decimal.NewFromString(string(v))
	if v.Kind() != '0' || len(v) > maxText || err != nil || d.Exponent() > maxExp || d.Exponent() < -maxExp {
		return 0, hearth.Invalid(param, "%s must be an amount in %s as a number, such as 5 or 2.50, or null for no limit", param, in.Currency)
	}
	if !d.IsPositive() {
		return 0, hearth.Invalid(param, "%s must be more than 0; null is no limit, and disabled: true ends all use of a key", param)
	}
	billed := d
	if !in.Rate.IsZero() {
		billed = d.Mul(in.Rate)
	}
	n, err := hearth.NanoFromDecimal(billed)
	if err != nil {
		return 0, hearth.Invalid(param, "%s is more than can be counted", param)
	}
	if n == 0 || !n.Decimal().Equal(billed) && (in.Rate.IsZero() || !d.Equal(d.Truncate(decimals))) {
		return 0, hearth.Invalid(param, "%s is finer than a billionth of the billing currency, %s", param, billing)
	}
	return n, nil
}

// wire gives the fields at fault in an error the names they have in a body.
func wire(err error) error {
	var e *hearth.Error
	if !errors.As(err, &e) {
		return err
	}
	if name, ok := map[string]string{"owner": "creator_user_id", "currency": "shown_currency"}[e.Param]; ok {
		c := *e
		c.Param = name
		return &c
	}
	return err
}
