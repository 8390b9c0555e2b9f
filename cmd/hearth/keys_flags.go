package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
)

// policyFlags say what a key may use. A flag that is not given is nil.
type policyFlags struct {
	Models       *string `placeholder:"A,B" help:"Models the key may use, by id or alias; \"\" is all."`
	Providers    *string `placeholder:"A,B" help:"Providers the key may use, by slug or slug/variant; local-gpu is your own slots; \"\" is all."`
	LocalOnly    *bool   `negatable:"" help:"Requests with the key never leave the house."`
	EarlyHeaders *string `placeholder:"20s" help:"Begin the answer to a stream after so much waiting (see early_headers in the configuration); 0s is never, \"\" as the configuration says."`
	Limit        *string `placeholder:"AMOUNT" help:"What the key may spend, in the billing currency; 0 is no limit."`
	LimitReset   *string `placeholder:"PERIOD" help:"When its limits begin anew, in the configured time zone: daily, weekly (on Monday), monthly or never."`
	Currency     *string `placeholder:"CODE" help:"Currency in which the key sees amounts, such as USD; \"\" is the configured one."`
	Expires      *string `placeholder:"WHEN" help:"When the key expires: after 30d or 12h, at the start of a day such as 2027-01-31 in the configured time zone, at 2027-01-31T12:00:00Z, or never."`
	Owner        *string `placeholder:"WHO" help:"Whose the key is, for lists and for GET /keys."`
	Content      *string `placeholder:"WORD" help:"Whether prompts and answers may be kept where records.content is on: never, or allowed."`
	Class        *string `placeholder:"WORD" help:"Whose requests wait behind those of other keys for a slot: batch; or interactive."`
	External     *string `name:"external-limit" placeholder:"AMOUNT" help:"What the key may spend at external providers, in the same period; after that own slots go on. 0 is no limit."`
	RPM          *string `name:"rpm" placeholder:"N" help:"Requests that the key may send in a minute; 0 is no limit."`
	Kappa        *string `placeholder:"K" help:"What the key's time is worth where external endpoints are ordered by cost (see routing.kappa in the configuration): attended (2), batch (0.1), a decimal up to 100, or default: as the model says, for the class batch 0.1."`
	Explore      *string `placeholder:"WORD" help:"Whether requests of the key may try external endpoints for the sake of knowing them: off, or on."`
	TPM          *string `name:"tpm" placeholder:"N" help:"Tokens, of prompts and answers, that the key may use in a minute; 0 is no limit."`
}

// change reads the flags, those of time as at an instant in the configured zone.
func (f policyFlags) change(now time.Time) (c hearth.KeyChange, err error) {
	c = hearth.KeyChange{Models: names(f.Models), Providers: names(f.Providers), LocalOnly: f.LocalOnly, Currency: f.Currency, Owner: f.Owner}
	if c.NoContent, err = never(f.Content); err != nil {
		return c, err
	}
	if c.Class, err = class(f.Class); err != nil {
		return c, err
	}
	if c.ExpiresAt, err = expiry(f.Expires, now); err != nil {
		return c, err
	}
	if c.EarlyHeaders, err = wait(f.EarlyHeaders); err != nil {
		return c, err
	}
	if c.Limit, err = limit("--limit", f.Limit); err != nil {
		return c, err
	}
	if c.ExternalLimit, err = limit("--external-limit", f.External); err != nil {
		return c, err
	}
	if c.RequestsPerMinute, err = perMinute("--rpm", f.RPM); err != nil {
		return c, err
	}
	if c.TokensPerMinute, err = perMinute("--tpm", f.TPM); err != nil {
		return c, err
	}
	if c.Kappa, err = kappa(f.Kappa); err != nil {
		return c, err
	}
	if c.NoExplore, err = off(f.Explore); err != nil {
		return c, err
	}
	c.LimitReset, err = period(f.LimitReset)
	return c, err
}

// period reads the name of a period; an empty text is never.
func period(text *string) (*hearth.Period, error) {
	if text == nil {
		return nil, nil
	}
	p := hearth.Period(strings.TrimSpace(*text))
	switch p {
	case hearth.Daily, hearth.Weekly, hearth.Monthly, hearth.Forever:
	case "never":
		p = hearth.Forever
	default:
		return nil, errors.New("--limit-reset must be daily, weekly, monthly or never")
	}
	return &p, nil
}

// expiry reads when a key is to expire; the zero time is never.
func expiry(text *string, now time.Time) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}
	word := strings.TrimSpace(*text)
	if word == "never" {
		return new(time.Time), nil
	}
	if days, ok := strings.CutSuffix(word, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return new(now.Add(time.Duration(n) * 24 * time.Hour)), nil
		}
	}
	if d, err := time.ParseDuration(word); err == nil && d > 0 {
		return new(now.Add(d)), nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, word, now.Location()); err == nil {
		return &at, nil
	}
	if at, err := time.Parse(time.RFC3339, word); err == nil {
		return &at, nil
	}
	return nil, errors.New("--expires must be a time from now such as 30d or 12h, a day such as 2027-01-31, a time such as 2027-01-31T12:00:00Z, or never")
}

// limit reads the amount of a flag; nil if it is not given.
func limit(flag string, text *string) (*hearth.Nano, error) {
	if text == nil {
		return nil, nil
	}
	n, err := amount(*text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", flag, err)
	}
	return &n, nil
}

// perMinute reads how many of something a key may use in a minute; nil if it is not given. An empty text is an error, as that of
// an amount.
func perMinute(flag string, text *string) (*int64, error) {
	if text == nil {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(*text), 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%s must be a whole number such as 60; 0 is no limit", flag)
	}
	return &n, nil
}

// wait reads the early headers of a key: 0s is never, as in the configuration, and an empty text the configuration's own.
func wait(text *string) (*time.Duration, error) {
	if text == nil {
		return nil, nil
	}
	if strings.TrimSpace(*text) == "" {
		return new(time.Duration), nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(*text))
	if err != nil || d < 0 {
		return nil, errors.New(`--early-headers must be a duration with its unit, such as 20s; 0s is never, "" as the configuration says`)
	}
	if d == 0 {
		d = hearth.NoEarlyHeaders
	}
	return &d, nil
}

// never reads whether prompts and answers may not be kept; nil if it is not said.
func never(text *string) (*bool, error) {
	if text == nil {
		return nil, nil
	}
	switch strings.TrimSpace(*text) {
	case "never":
		return new(true), nil
	case "allowed", "":
		return new(false), nil
	}
	return nil, errors.New("--content must be never or allowed")
}

// class reads the class of a key; nil if it is not said.
func class(text *string) (*hearth.Class, error) {
	if text == nil {
		return nil, nil
	}
	switch strings.TrimSpace(*text) {
	case string(hearth.Batch):
		return new(hearth.Batch), nil
	case hearth.Interactive.String(), "":
		return new(hearth.Interactive), nil
	}
	return nil, errors.New("--class must be interactive or batch")
}

// kappa reads what a key's time is worth, nil if it is not said.
func kappa(text *string) (*hearth.Kappa, error) {
	if text == nil {
		return nil, nil
	}
	switch word := strings.TrimSpace(*text); word {
	case "attended":
		return new(hearth.KappaAttended), nil
	case string(hearth.Batch):
		return new(hearth.KappaBatch), nil
	case "default", "0":
		return new(hearth.Kappa), nil
	default:
		k, err := hearth.ParseKappa(word)
		if err != nil || k == 0 {
			return nil, errors.New("--kappa must be attended, batch, default, or a decimal from 0.001 to 100 with up to three decimals, such as 0.85")
		}
		return &k, nil
	}
}

// off reads whether something is off; nil if it is not said.
func off(text *string) (*bool, error) {
	if text == nil {
		return nil, nil
	}
	switch strings.TrimSpace(*text) {
	case "off":
		return new(true), nil
	case "on", "":
		return new(false), nil
	}
	return nil, errors.New("--explore must be on or off")
}

// names reads a list with commas; an empty text is an empty list.
func names(text *string) *[]string {
	if text == nil {
		return nil
	}
	list := []string{}
	if strings.TrimSpace(*text) != "" {
		for name := range strings.SplitSeq(*text, ",") {
			list = append(list, strings.TrimSpace(name))
		}
	}
	return &list
}

// amount reads an amount of money exactly. An empty one is an error: a variable of a script that is not set must not make a key
// without a limit.
func amount(text string) (n hearth.Nano, err error) {
	const remedy = "must be an amount in the billing currency, such as 5 or 2.50"
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, errors.New(remedy + "; 0 is no limit")
	}
	if len(text) > 40 || strings.Trim(text, "0123456789.") != "" {
		return 0, errors.New(remedy + ": digits and a point only")
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return 0, errors.New(remedy)
	}
	if n, err = hearth.NanoFromDecimal(d); err != nil {
		return 0, errors.New(remedy + ": this is more than can be counted")
	}
	if !n.Decimal().Equal(d) {
		return 0, errors.New(remedy + ": it has more than nine decimals")
	}
	return n, nil
}

// nowIn is the time in the zone of a configuration.
func nowIn(cfg *config.Config) time.Time {
	now := time.Now()
	if zone, err := cfg.Location(); err == nil { // it was checked when the configuration was read
		now = now.In(zone)
	}
	return now
}
