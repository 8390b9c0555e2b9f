package ledger

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// formatTags lets the library read the format of durations from the tags of hearth.Generation.
var formatTags = json.ExperimentalSupportFormatTag(true)

// buffers are where records are written: how long one gets is known at its end, and it is kept in no more than it needs.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBuffer is how many bytes a kept buffer holds at most.
const maxPooledBuffer = 64 << 10

// encode writes g as JSON, byte for byte as the library writes it (a test holds the two together), several times
// as fast: it runs once in every request. Invalid UTF-8 becomes U+FFFD.
func encode(g *hearth.Generation) ([]byte, error) {
	if y := g.CreatedAt.Year(); y < 0 || y > 9999 {
		return nil, hearth.Invalid("created_at", "the year %d has no place in a record", y)
	}
	box := buffers.Get().(*[]byte)
	o := object{b: (*box)[:0]}
	o.generation(g)
	record := bytes.Clone(o.b)
	if cap(o.b) <= maxPooledBuffer {
		*box = o.b
		buffers.Put(box)
	}
	return record, nil
}

func (o *object) generation(g *hearth.Generation) {
	o.open()
	o.str("id", g.ID)
	o.str("key_id", g.KeyID)
	o.name("created_at")
	o.b = appendTime(o.b, g.CreatedAt)
	o.str("api_type", g.APIType)
	o.flag("streamed", g.Streamed)
	o.list("requested", g.Requested)
	o.num("estimate", int64(g.Estimate))
	o.numIf("images", int64(g.Images))
	if g.Attempts != nil {
		o.name("attempts")
		o.array(len(g.Attempts), func(i int) { o.attempt(&g.Attempts[i]) })
	}
	if g.Drops != nil {
		o.name("drops")
		o.array(len(g.Drops), func(i int) { o.drop(&g.Drops[i]) })
	}
	o.numIf("local", int64(g.Local))
	if g.Routing != nil {
		o.name("routing")
		o.array(len(g.Routing), func(i int) { o.routed(&g.Routing[i]) })
	}
	if g.Notes != nil {
		o.list("notes", g.Notes)
	}
	o.strIf("model", g.Model)
	o.strIf("slug", g.Slug)
	o.strIf("provider", g.Provider)
	o.strIf("endpoint", g.Endpoint)
	o.strIf("upstream_id", g.UpstreamID)
	o.strIf("finish_reason", g.FinishReason)
	o.strIf("native_finish", g.NativeFinish)
	o.usage(&g.Usage)
	o.bill(&g.Bill)
	o.numIf("unbilled", int64(g.Unbilled))
	o.num("http", int64(g.HTTP))
	o.strIf("error", g.Error)
	o.flag("cancelled", g.Cancelled)
	o.numIf("first_token", int64(g.FirstToken))
	o.num("duration", int64(g.Duration))
	o.numIf("generating", int64(g.Generating))
	o.strIf("origin", g.Origin)
	o.strIf("referer", g.Referer)
	o.strIf("title", g.Title)
	o.strIf("user", g.User)
	o.strIf("user_agent", g.UserAgent)
	o.close()
}

func decode(record []byte) (*hearth.Generation, error) {
	g := new(hearth.Generation)
	if err := json.Unmarshal(record, g, formatTags); err != nil {
		return nil, err
	}
	return g, nil
}

// object writes a JSON object, member by member. Methods ending in If leave a zero value out.
type object struct{ b []byte }

func (o *object) open() { o.b = append(o.b, '{') }

// close ends the object; the comma that name puts behind every member but the first needs no care.
func (o *object) close() { o.b = append(o.b, '}') }

// name begins a member. No name needs escapes.
func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) quote(s string) {
	if plain(s) {
		o.b = append(o.b, '"')
		o.b = append(o.b, s...)
		o.b = append(o.b, '"')
		return
	}
	// The error only says that invalid UTF-8 was replaced, which is what is wanted.
	o.b, _ = jsontext.AppendQuote(o.b, s)
}

// plain says whether s stands in JSON as it is: ASCII without anything to escape.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (o *object) str(name, s string) {
	o.name(name)
	o.quote(s)
}

func (o *object) strIf(name, s string) {
	if s != "" {
		o.str(name, s)
	}
}

func (o *object) num(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) numIf(name string, n int64) {
	if n != 0 {
		o.num(name, n)
	}
}

// flag writes true and leaves false out.
func (o *object) flag(name string, v bool) {
	if v {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) amount(name string, n hearth.Nano) {
	o.name(name)
	o.b, _ = n.AppendText(o.b) // never fails
}

func (o *object) array(n int, element func(i int)) {
	o.b = append(o.b, '[')
	for i := range n {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		element(i)
	}
	o.b = append(o.b, ']')
}

func (o *object) list(name string, list []string) {
	o.name(name)
	o.array(len(list), func(i int) { o.quote(list[i]) })
}

func (o *object) attempt(a *hearth.Attempt) {
	o.open()
	o.str("model", a.Model)
	o.str("provider", a.Provider)
	o.str("slug", a.Slug)
	o.str("endpoint", a.Endpoint)
	o.numIf("status", int64(a.Status))
	o.strIf("skip", string(a.Skip))
	o.num("latency", int64(a.Latency))
	o.numIf("slot_wait", int64(a.SlotWait))
	o.flag("timed_out", a.TimedOut)
	o.strIf("message", a.Message)
	o.strIf("upstream_id", a.UpstreamID)
	o.num("verdict", int64(a.Verdict))
	o.numIf("blame", int64(a.Blame))
	o.numIf("retry_after", int64(a.RetryAfter))
	o.close()
}

func (o *object) drop(d *hearth.Drop) {
	o.open()
	o.str("model", d.Model)
	o.strIf("provider_slug", d.Provider)
	o.strIf("endpoint", d.Endpoint)
	o.str("stage", string(d.Stage))
	o.str("reason", d.Reason)
	o.strIf("skip_reason", string(d.Skip))
	o.numIf("before", int64(d.Before))
	o.close()
}

func (o *object) routed(r *hearth.Routed) {
	o.open()
	o.str("model", r.Model)
	o.numIf("priority", int64(r.Priority))
	o.str("endpoint", r.Endpoint)
	o.str("reason", r.Reason)
	o.b = r.AppendChoice(o.b)
	if r.Candidates != nil {
		o.name("candidates")
		o.array(len(r.Candidates), func(i int) { o.terms(&r.Candidates[i]) })
	}
	o.close()
}

func (o *object) terms(t *hearth.RoutedTerms) {
	o.open()
	o.str("endpoint", t.Endpoint)
	o.b = t.AppendFigures(o.b)
	o.strIf("state", t.State)
	o.flag("flagged", t.Flagged)
	o.flag("new", t.New)
	o.flag("warm", t.Warm)
	o.flag("holds", t.Holds)
	o.close()
}

func (o *object) usage(u *hearth.Usage) {
	o.name("usage")
	o.open()
	o.num("prompt_tokens", u.PromptTokens)
	o.num("completion_tokens", u.CompletionTokens)
	o.numIf("cached_tokens", u.CachedTokens)
	o.numIf("cache_write_tokens", u.CacheWriteTokens)
	o.numIf("reasoning_tokens", u.ReasoningTokens)
	o.name("reported")
	o.b = strconv.AppendBool(o.b, u.Reported)
	o.strIf("cost", u.Cost)
	o.close()
}

func (o *object) bill(b *hearth.Bill) {
	o.name("bill")
	o.open()
	o.amount("cost", b.Cost)
	if b.PromptCost != 0 {
		o.amount("prompt_cost", b.PromptCost)
	}
	if b.CompletionCost != 0 {
		o.amount("completion_cost", b.CompletionCost)
	}
	o.str("currency", b.Currency)
	o.flag("reported", b.Reported)
	o.strIf("tariff", b.Tariff)
	if p := b.List; p != nil {
		o.name("list")
		o.open()
		o.decimal("prompt", p.Prompt)
		o.decimal("completion", p.Completion)
		o.decimal("cache_read", p.CacheRead)
		o.decimal("cache_write", p.CacheWrite)
		o.decimal("reasoning", p.Reasoning)
		o.decimal("image", p.Image)
		o.decimal("request", p.Request)
		o.close()
	}
	o.strIf("list_currency", b.ListIn)
	o.decimalIf("rate", b.Rate)
	o.decimalIf("margin", b.Margin)
	o.decimalIf("upstream", b.Upstream)
	o.close()
}

func (o *object) decimal(name string, d decimal.Decimal) {
	o.name(name)
	o.b = append(o.b, '"')
	o.b = hearth.AppendDecimal(o.b, d)
	o.b = append(o.b, '"')
}

func (o *object) decimalIf(name string, d decimal.Decimal) {
	if !d.IsZero() {
		o.decimal(name, d)
	}
}

// appendTime appends t in quotes as RFC 3339 with as many decimals as it needs.
func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}
