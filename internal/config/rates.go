package config

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"myip.co.kr/hearth"
)

// ExchangeSource is where an exchange rate is published on the web, and how far it is believed. The last good value is
// kept over failures and restarts; until the first good fetch the value under exchange_rates holds. Each request is billed at
// the rate that held when its chain was built.
type ExchangeSource struct {
	// Currency is the currency whose price in the billing currency is published.
	Currency string `yaml:"currency" need:"yes" example:"USD"`
	// URL answers with JSON. A key that must stand in it is best taken from the environment.
	URL string `yaml:"url" need:"yes" env:"filled" example:"\"https://rates.example.com/latest?base=USD\""`
	// Pointer leads to the number in the answer: a JSON pointer (RFC 6901). Without it the whole answer is the number.
	Pointer string `yaml:"pointer" example:"/rates/KRW"`
	// Invert is for a number that says how much of the currency one unit of the billing currency costs.
	Invert bool `yaml:"invert" default:"false"`
	// Headers are sent with the request.
	Headers map[string]hearth.Secret `yaml:"headers" env:"filled" example:"{X-Api-Key: \"${env:RATES_KEY}\"}"`
	// Every is the time between two fetches. After a failure the next try is 5 s later, then later, up to a minute.
	Every time.Duration `yaml:"every" default:"1h" min:"1m" max:"168h"`
	// MaxJump is how far a new value may be from the last good one, for each day begun since that was fetched; a value
	// further away is refused and said in the log. The first one may be from half to twice the value under exchange_rates. 0
	// believes every value.
	MaxJump Margin `yaml:"max_jump" default:"10%" min:"0%" max:"1000%"`
	// MaxAge is how old the last good value may become; 0s is any age. A value that was never fetched is too old.
	MaxAge time.Duration `yaml:"max_age" default:"48h" min:"0s" max:"8760h"`
	// Stale says what becomes of endpoints whose rate is too old. refuse: they are skipped, and a request that has nobody
	// else gets 503 endpoints_cooling_down. allow: the old rate is used.
	Stale string `yaml:"stale" default:"refuse" enum:"refuse allow"`
}

func (k *checker) source(path string, s *ExchangeSource) {
	k.currency(path+".currency", s.Currency)
	if s.Currency == k.c.Currency {
		k.add(path+".currency", "is the billing currency itself", "name the currency of a provider's price list")
	} else if s.Currency != "" {
		k.unique(k.rates, s.Currency, path+".currency", "a source of "+quote(s.Currency))
		if _, ok := k.c.ExchangeRates[s.Currency]; !ok && !k.bad["exchange_rates"] {
			k.add(path+".currency", "has no first value: "+quote(s.Currency)+" to "+quote(k.c.Currency), "add exchange_rates: {"+s.Currency+": …}: it holds until the first fetch, and shows whether what is fetched can be true")
		}
	}
	u, err := url.Parse(s.URL)
	switch {
	case s.URL == "": // a missing one is reported already
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || len(s.URL) > 2000:
		k.add(path+".url", "is not an address", "write it with http:// or https://")
	case u.User != nil:
		k.add(path+".url", "holds a user name or password", "put a key into headers")
	case u.Fragment != "":
		k.add(path+".url", "holds a fragment", "leave out everything from # on; where the number stands is said by pointer")
	}
	if p := jsontext.Pointer(s.Pointer); !p.IsValid() || len(s.Pointer) > maxName {
		k.add(path+".pointer", "is not a JSON pointer", "write the names on the way to the number, each after a /, such as /rates/KRW")
	}
	for _, name := range sorted(s.Headers) {
		here, canonical := join(path+".headers", name), http.CanonicalHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			k.add(here, "is not the name of a header", "write letters, digits and -")
		case ownHeaders[canonical] && canonical != "Accept":
			k.add(here, "is a header the gateway sets itself", "remove it")
		case unsendable(s.Headers[name].Reveal()):
			k.add(here, "holds characters that cannot be sent in a header", "write plain text on one line")
		}
	}
	if s.MaxAge > 0 && s.MaxAge < s.Every {
		k.add(path+".max_age", "is shorter than the time between two fetches", "write more than every, "+s.Every.String()+", or 0s")
	}
}
