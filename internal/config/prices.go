package config

import (
	"regexp"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
)

// Price is a price list. Prices of tokens are per 1,000,000 tokens; they are read as exact decimals.
type Price struct {
	// Prompt is the price of input tokens.
	Prompt decimal.Decimal `yaml:"prompt" need:"yes" min:"0" example:"30"`
	// Completion is the price of output tokens.
	Completion decimal.Decimal `yaml:"completion" need:"yes" min:"0" example:"150"`
	// CacheRead is the price of input tokens that came from a prompt cache. Default: as prompt.
	CacheRead *decimal.Decimal `yaml:"cache_read" min:"0"`
	// CacheWrite is the price of input tokens that were written to a prompt cache. Default: as prompt.
	CacheWrite *decimal.Decimal `yaml:"cache_write" min:"0"`
	// Reasoning is the price of output tokens spent on reasoning. Default: as completion.
	Reasoning *decimal.Decimal `yaml:"reasoning" min:"0"`
	// Image is the price of one input image.
	Image decimal.Decimal `yaml:"image" default:"0" min:"0"`
	// Request is the price of one request, whatever its size.
	Request decimal.Decimal `yaml:"request" default:"0" min:"0"`
	// Steps are further lists, for long prompts or hours of the day. Of those that hold, the one with the largest above
	// counts, of these one with hours before one without, and then the first.
	Steps []Step `yaml:"steps" example:"[{above: 200000, prompt: 60, completion: 225}, {hours: \"00:30-08:30\", prompt: 15, completion: 75}]"`
	// Reported takes as the cost of an answer what the provider itself says of it (usage.cost), times exchange rate and
	// margin, for aggregators such as OpenRouter. The list then only serves to choose between providers and to hold back
	// money of keys with a limit. An answer of which nothing is said costs nothing.
	Reported bool `yaml:"reported" default:"false"`
}

// Step is a price list for part of the requests. What it does not name is as in the list around it. Which one holds is
// decided by the prompt tokens that the upstream counts and by the time when the request's chain was built.
type Step struct {
	// Above holds for prompts of more tokens than that. The whole prompt is charged by the step, not only the rest.
	Above int `yaml:"above" min:"1" max:"1000000000" example:"200000"`
	// Hours holds within a part of each day, from the first minute on and up to the second, by the clock on the wall. It may
	// span midnight.
	Hours string `yaml:"hours" example:"\"00:30-08:30\""`
	// Zone is the IANA time zone of hours.
	Zone string `yaml:"zone" default:"UTC" example:"Asia/Seoul"`
	// Prompt is the price of input tokens.
	Prompt *decimal.Decimal `yaml:"prompt" min:"0" example:"60"`
	// Completion is the price of output tokens.
	Completion *decimal.Decimal `yaml:"completion" min:"0" example:"225"`
	// CacheRead is the price of input tokens that came from a prompt cache.
	CacheRead *decimal.Decimal `yaml:"cache_read" min:"0"`
	// CacheWrite is the price of input tokens that were written to a prompt cache.
	CacheWrite *decimal.Decimal `yaml:"cache_write" min:"0"`
	// Reasoning is the price of output tokens spent on reasoning.
	Reasoning *decimal.Decimal `yaml:"reasoning" min:"0"`
	// Image is the price of one input image.
	Image *decimal.Decimal `yaml:"image" min:"0"`
	// Request is the price of one request.
	Request *decimal.Decimal `yaml:"request" min:"0"`
}

// reportedWord in the place of a price list is {reported: true}.
const reportedWord = "reported"

// price resolves the absent kinds of a price list; no list is free.
func (p *Price) price() hearth.Price {
	if p == nil {
		return hearth.Price{}
	}
	or := func(v *decimal.Decimal, other decimal.Decimal) decimal.Decimal {
		if v == nil {
			return other
		}
		return *v
	}
	return hearth.Price{
		Prompt: p.Prompt, Completion: p.Completion,
		CacheRead: or(p.CacheRead, p.Prompt), CacheWrite: or(p.CacheWrite, p.Prompt),
		Reasoning: or(p.Reasoning, p.Completion),
		Image:     p.Image, Request: p.Request,
	}
}

// steps are the further price lists. A kind that neither a step nor the list around it names is resolved by the step's
// own prices: where the prompt costs twice as much, so do cached tokens that have no price of their own.
func (p *Price) steps() []hearth.Tariff {
	if p == nil {
		return nil
	}
	var list []hearth.Tariff
	for i := range p.Steps {
		s := &p.Steps[i]
		from, to, _ := parseHours(s.Hours)
		t := hearth.Tariff{Name: s.title(), Above: s.Above, List: p.with(s).price(), Hours: hearth.Hours{From: from, To: to}}
		if s.Hours != "" {
			t.Hours.Zone, _ = time.LoadLocation(s.Zone)
		}
		list = append(list, t)
	}
	return list
}

// with is the list with what a step names in its place.
func (p *Price) with(s *Step) *Price {
	list := *p
	for _, k := range [...]struct {
		to   *decimal.Decimal
		from *decimal.Decimal
	}{{&list.Prompt, s.Prompt}, {&list.Completion, s.Completion}, {&list.Image, s.Image}, {&list.Request, s.Request}} {
		if k.from != nil {
			*k.to = *k.from
		}
	}
	for _, k := range [...]struct{ to, from **decimal.Decimal }{
		{&list.CacheRead, &s.CacheRead}, {&list.CacheWrite, &s.CacheWrite}, {&list.Reasoning, &s.Reasoning},
	} {
		if *k.from != nil {
			*k.to = *k.from
		}
	}
	return &list
}

// title names a step by its conditions, for people: "above 200000, 00:30-08:30 UTC".
func (s *Step) title() string {
	title := ""
	if s.Above > 0 {
		title = "above " + strconv.Itoa(s.Above)
	}
	if s.Hours == "" {
		return title
	}
	if title != "" {
		title += ", "
	}
	return title + s.Hours + " " + s.Zone
}

// priced says whether the step names a price.
func (s *Step) priced() bool {
	for _, p := range [...]*decimal.Decimal{s.Prompt, s.Completion, s.CacheRead, s.CacheWrite, s.Reasoning, s.Image, s.Request} {
		if p != nil {
			return true
		}
	}
	return false
}

var hoursText = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])-(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)$`)

// parseHours reads hours such as 22:00-06:30; 24:00 is the end of the day.
func parseHours(text string) (from, to time.Duration, ok bool) {
	m := hoursText.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	clock := func(hour, minute string) time.Duration {
		h, _ := strconv.Atoi(hour)
		n, _ := strconv.Atoi(minute)
		return time.Duration(h)*time.Hour + time.Duration(n)*time.Minute
	}
	if m[3] == "" {
		return clock(m[1], m[2]), 24 * time.Hour, true
	}
	return clock(m[1], m[2]), clock(m[3], m[4]), true
}

// share is the margin, nil if there is none.
func (m *Margin) share() *decimal.Decimal {
	if m == nil {
		return nil
	}
	return &m.Decimal
}

// maxSteps bounds the steps of one price list: each is looked at in every request.
const maxSteps = 32

// price checks what no single value of a price list shows. A slot reports no cost.
func (k *checker) price(path string, p *Price, slot bool) {
	if p == nil {
		return
	}
	if slot && p.Reported {
		here := path + ".reported"
		if !k.given(here) {
			here = path
		}
		k.add(here, "is for external providers: the engine of a slot reports no cost", "write a price list")
	}
	if len(p.Steps) > maxSteps {
		k.add(path+".steps", "has more than "+strconv.Itoa(maxSteps)+" members", "join some")
		return
	}
	seen := map[string]string{}
	for i := range p.Steps {
		k.step(at(path+".steps", i), &p.Steps[i], seen)
	}
}

func (k *checker) step(path string, s *Step, seen map[string]string) {
	from, to, ok := parseHours(s.Hours)
	_, zone := time.LoadLocation(s.Zone)
	switch {
	case s.Hours == "" && k.given(path+".hours") || s.Hours != "" && !ok:
		k.add(path+".hours", "must be hours of the day, not "+quote(s.Hours), `write two times such as "22:00-06:30", or "18:00-24:00"`)
	case ok && to-from == 0 || to-from == 24*time.Hour:
		k.add(path+".hours", "is the whole day", "leave hours out")
	case s.Hours == "" && k.given(path+".zone"):
		k.add(path+".zone", "stands without hours", "add hours or remove it")
	case zone != nil || s.Zone == "":
		k.add(path+".zone", "is not a known zone", "write an IANA name such as Asia/Seoul, or UTC")
	}
	switch {
	case k.bad[path+".above"] || k.bad[path+".hours"] || k.bad[path+".zone"] || k.bad[path]:
	case s.Above == 0 && s.Hours == "":
		k.add(path, "has no condition, so that it would always hold", "add above, hours or both, or write its prices into the list around it")
	case !s.priced():
		k.add(path, "names no price", "add prompt, completion or another kind")
	default:
		k.unique(seen, s.title(), path, "the condition "+quote(s.title()))
	}
}
