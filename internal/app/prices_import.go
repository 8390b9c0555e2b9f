package app

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
)

// PriceDiff is one price that a published list has otherwise than the configuration.
type PriceDiff struct {
	Provider string          `json:"provider"`
	Model    string          `json:"model"`
	Variant  string          `json:"variant,omitzero"` // of the offer, as in the endpoint's tag
	When     string          `json:"when,omitzero"`    // the name of a step, "" = the base list
	Kind     string          `json:"kind"`             // the key under price
	Have     decimal.Decimal `json:"have"`             // per 1,000,000 tokens, image or request, in USD
	Want     decimal.Decimal `json:"want"`
	Missing  bool            `json:"missing,omitzero"` // the configuration has no such step
}

// PriceImport is a published price list held against a configuration.
type PriceImport struct {
	Diffs    []PriceDiff `json:"diffs"`
	Same     int         `json:"same"`      // offers whose prices are all as published
	NotFound []string    `json:"not_found"` // offers, as provider:model, that the list does not have
	Passed   []string    `json:"passed"`    // providers whose price list is not in US dollars, or that bill by what they report
}

// ImportPrices compares the price lists of the external providers with a published one: the JSON of models.dev
// (https://models.dev/api.json, US dollars per 1,000,000 tokens) or of OpenRouter's /models (US dollars per token). provider
// limits it to one provider, "" = all. from is the name of the provider inside models.dev, "" = the slug.
func ImportPrices(cfg *config.Config, body []byte, provider, from string) (PriceImport, error) {
	out := PriceImport{Diffs: []PriceDiff{}, NotFound: []string{}, Passed: []string{}}
	cat, err := cfg.Catalog()
	if err != nil {
		return out, err
	}
	list, err := readPriceList(body)
	if err != nil {
		return out, err
	}
	found := provider == ""
	for _, p := range cat.Providers {
		if p.Kind == hearth.Local || provider != "" && p.Slug != provider {
			continue
		}
		found = true
		if p.Currency != "USD" {
			out.Passed = append(out.Passed, p.Slug+": its prices are in "+p.Currency)
			continue
		}
		for _, e := range cat.Endpoints {
			if e.Provider == p {
				out.compare(e, list.find(cmp.Or(from, p.Slug), e.UpstreamModel, e.Model.ID))
			}
		}
	}
	if !found {
		return out, fmt.Errorf("there is no external provider %q in the configuration", provider)
	}
	return out, nil
}

// published is what a list says of one model. Kinds it does not have are nil.
type published struct {
	base  map[string]decimal.Decimal
	above map[int]map[string]decimal.Decimal // by the number of prompt tokens above which they hold
}

// priceList is a published list: by provider, "" = of whoever publishes it, then by the publisher's name of the model.
type priceList map[string]map[string]published

// find looks a model up under each of its names.
func (l priceList) find(provider string, names ...string) *published {
	for _, of := range []string{provider, ""} {
		for _, name := range names {
			if p, ok := l[of][name]; ok {
				return &p
			}
		}
	}
	return nil
}

func (out *PriceImport) compare(e *hearth.Endpoint, p *published) {
	if p == nil {
		out.NotFound = append(out.NotFound, e.Provider.Slug+":"+e.UpstreamModel)
		return
	}
	_, variant, _ := strings.Cut(e.Tag, "/")
	before := len(out.Diffs)
	diff := func(when string, have *hearth.Price, want map[string]decimal.Decimal) {
		for _, kind := range priceKinds {
			w, ok := want[kind.key]
			if !ok {
				continue
			}
			d := PriceDiff{Provider: e.Provider.Slug, Model: e.Model.ID, Variant: variant, When: when, Kind: kind.key, Want: w, Missing: have == nil}
			if have != nil {
				if d.Have = kind.of(have); d.Have.Equal(w) {
					continue
				}
			}
			out.Diffs = append(out.Diffs, d)
		}
	}
	diff("", &e.List, p.base)
	for _, above := range slices.Sorted(maps.Keys(p.above)) {
		var have *hearth.Price
		for i := range e.Steps {
			if s := &e.Steps[i]; s.Above == above && s.Hours.From == s.Hours.To {
				have = &s.List
			}
		}
		diff(fmt.Sprintf("above %d", above), have, p.above[above])
	}
	if len(out.Diffs) == before {
		out.Same++
	}
}

var priceKinds = []struct {
	key string
	of  func(*hearth.Price) decimal.Decimal
}{
	{"prompt", func(p *hearth.Price) decimal.Decimal { return p.Prompt }},
	{"completion", func(p *hearth.Price) decimal.Decimal { return p.Completion }},
	{"cache_read", func(p *hearth.Price) decimal.Decimal { return p.CacheRead }},
	{"cache_write", func(p *hearth.Price) decimal.Decimal { return p.CacheWrite }},
	{"reasoning", func(p *hearth.Price) decimal.Decimal { return p.Reasoning }},
	{"image", func(p *hearth.Price) decimal.Decimal { return p.Image }},
	{"request", func(p *hearth.Price) decimal.Decimal { return p.Request }},
}

var errPriceList = errors.New("this is neither the JSON of https://models.dev/api.json nor that of OpenRouter's /models")

// readPriceList reads either form.
func readPriceList(body []byte) (priceList, error) {
	var top map[string]jsontext.Value
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, fmt.Errorf("%w: %w", errPriceList, err)
	}
	var list priceList
	var err error
	if data, ok := top["data"]; ok && data.Kind() == '[' {
		list, err = readOpenRouter(data)
	} else {
		list, err = readModelsDev(top)
	}
	if err == nil && len(list) == 0 {
		err = errPriceList
	}
	return list, err
}

// The names of OpenRouter's prices (https://openrouter.ai/docs/api-reference/list-available-models), and whether they are
// per token.
var openRouterKinds = map[string]struct {
	key   string
	token bool
}{
	"prompt": {"prompt", true}, "completion": {"completion", true}, "input_cache_read": {"cache_read", true},
	"input_cache_write": {"cache_write", true}, "internal_reasoning": {"reasoning", true}, "image": {"image", false}, "request": {"request", false},
}

func readOpenRouter(data jsontext.Value) (priceList, error) {
	var models []struct {
		ID      string                    `json:"id"`
		Pricing map[string]jsontext.Value `json:"pricing"`
	}
	if err := json.Unmarshal(data, &models); err != nil {
		return nil, fmt.Errorf("%w: %w", errPriceList, err)
	}
	of := map[string]published{}
	for _, m := range models {
		p := published{base: map[string]decimal.Decimal{}}
		for name, value := range m.Pricing {
			kind, ok := openRouterKinds[name]
			if !ok {
				continue
			}
			d, ok, err := price(value)
			if err != nil {
				return nil, fmt.Errorf("price %q of %q: %w", name, m.ID, err)
			}
			if kind.token {
				d = d.Shift(6)
			}
			// A reasoning price of 0 beside one for completions is how lists say that there is none of its own.
			if ok && (kind.key != "reasoning" || d.IsPositive()) {
				p.base[kind.key] = d
			}
		}
		if m.ID != "" && len(p.base) > 0 {
			of[m.ID] = p
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	return priceList{"": of}, nil
}

var modelsDevKinds = map[string]string{
	"input": "prompt", "output": "completion", "cache_read": "cache_read", "cache_write": "cache_write", "reasoning": "reasoning",
}

const longContext = "context_over_200k" // models.dev's step for prompts above 200,000 tokens

func readModelsDev(top map[string]jsontext.Value) (priceList, error) {
	list := priceList{}
	for provider, value := range top {
		var p struct {
			Models map[string]struct {
				Cost map[string]jsontext.Value `json:"cost"`
			} `json:"models"`
		}
		if value.Kind() != '{' {
			continue
		}
		if err := json.Unmarshal(value, &p); err != nil {
			return nil, fmt.Errorf("%w: provider %q: %w", errPriceList, provider, err)
		}
		for id, m := range p.Models {
			of, err := modelsDevCost(m.Cost)
			if err != nil {
				return nil, fmt.Errorf("the cost of %q at %q: %w", id, provider, err)
			}
			if long := m.Cost[longContext]; long.Kind() == '{' {
				var cost map[string]jsontext.Value
				if err := json.Unmarshal(long, &cost); err != nil {
					return nil, fmt.Errorf("the cost of %q at %q: %w", id, provider, err)
				}
				step, err := modelsDevCost(cost)
				if err != nil {
					return nil, fmt.Errorf("the cost of %q at %q: %w", id, provider, err)
				}
				of.above = map[int]map[string]decimal.Decimal{200_000: step.base}
			}
			if len(of.base) == 0 {
				continue
			}
			if list[provider] == nil {
				list[provider] = map[string]published{}
			}
			list[provider][id] = of
		}
	}
	return list, nil
}

func modelsDevCost(cost map[string]jsontext.Value) (published, error) {
	p := published{base: map[string]decimal.Decimal{}}
	for name, kind := range modelsDevKinds {
		value, ok := cost[name]
		if !ok {
			continue
		}
		d, ok, err := price(value)
		if err != nil {
			return p, fmt.Errorf("%q: %w", name, err)
		}
		if ok {
			p.base[kind] = d
		}
	}
	return p, nil
}

// price reads a number, or a text that is one. ok is false for null and for prices below 0, by which lists say that it
// depends.
func price(value jsontext.Value) (d decimal.Decimal, ok bool, err error) {
	text := string(value)
	switch value.Kind() {
	case 'n':
		return d, false, nil
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return d, false, err
		}
	case '0':
	default:
		return d, false, errors.New("is not a number")
	}
	const most = 40 // digits: more is no price
	if d, err = decimal.NewFromString(strings.TrimSpace(text)); err != nil || len(text) > most || d.Exponent() > most || d.Exponent() < -most {
		return decimal.Decimal{}, false, errors.New("is not a number")
	}
	return d, !d.IsNegative(), nil
}
