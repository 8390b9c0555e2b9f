// Package config reads Hearth's one YAML file into a Config and turns it into a sealed hearth.Catalog. It knows
// every rule of the file and reports all mistakes at once; it starts nothing.
//
// The Config type is the manual: the comment on every field says what it means, its tags hold the unit, the
// default, the range and an example, and docs/configuration.md is made from both.
//
// Tags: yaml is the key; default is the value of an absent key; example is shown in the manual; min and max
// bound what may be written; enum lists the words allowed; need marks keys that must be there; env marks text in
// which ${env:NAME} is replaced ("filled": by something that is not empty); defaults changes defaults of the struct
// below ("key=value"); reload:"restart" marks keys whose new value a running gateway cannot take.
package config

import (
	"time"
	_ "time/tzdata" // timezone must work on machines and in containers without zone files

	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
)

//go:generate go test -run TestDocs -update .

// Config is the whole file.
type Config struct {
	// Listen is the address on which callers are served, as host:port. Keep the default while a reverse proxy on
	// the same machine does TLS; use ":8800" to serve every network.
	Listen string `yaml:"listen" default:"127.0.0.1:8800" example:"\":8800\"" reload:"restart"`
	// DataDir is the directory for the journal and the database; it is created if it is not there. A relative path
	// starts at the directory of the configuration file.
	DataDir string `yaml:"data_dir" default:"hearth-data" example:"/var/lib/hearth" env:"yes" reload:"restart"`
	// Currency is the billing currency, a three-letter ISO code: every cost and every price a caller sees is in it,
	// and prices of slots are written in it.
	Currency string `yaml:"currency" default:"USD" example:"KRW"`
	// API says how callers see what the gateway tells them.
	API API `yaml:"api"`
	// Timezone is the IANA zone in which a day begins, for day totals and limits, and that of the hours of nodes and slots.
	Timezone string `yaml:"timezone" default:"UTC" example:"Asia/Seoul"`
	// DefaultModel is the model of a request that names none. Without it such a request is refused.
	DefaultModel string `yaml:"default_model" example:"google/gemma-4-26b-a4b"`
	// HeadersPrefix begins the names of the headers that tell who answered: <prefix>-Provider, <prefix>-Model,
	// <prefix>-Generation-Id.
	HeadersPrefix string `yaml:"headers_prefix" default:"X-MyIP" example:"X-Acme"`
	// GenerationPrefix begins every generation id.
	GenerationPrefix string `yaml:"generation_prefix" default:"gen-"`
	// KeyPrefix begins every API key made here.
	KeyPrefix string `yaml:"key_prefix" default:"sk-myip-" reload:"restart"`
	// PublicCatalog lets callers without a key read the lists of models, endpoints and providers.
	PublicCatalog bool `yaml:"public_catalog" default:"true"`
	// PublicMetrics lets callers without a key read /metrics, the page for Prometheus. Else it needs an admin key, as a
	// bearer token. It tells models, providers, loads and sums of costs.
	PublicMetrics bool `yaml:"public_metrics" default:"false"`
	// CORSOrigins are the web origins whose pages may call the gateway from a browser; "*" is every origin. An
	// empty list allows none.
	CORSOrigins []string `yaml:"cors_origins" default:"*" example:"[\"https://chat.example.com\"]"`
	// Aliases are other names callers may use for a model, so that programs with a model name built in keep
	// working. An alias names a model, never another alias.
	Aliases map[string]string `yaml:"aliases" example:"{gpt-4o-mini: google/gemma-4-26b-a4b}"`
	// ExchangeRates say what one unit of another currency costs in the billing currency. Each currency of a
	// provider that is not the billing currency needs one.
	ExchangeRates map[string]decimal.Decimal `yaml:"exchange_rates" min:"0.000000001" example:"{USD: 1390}"`
	// ExchangeSources are where exchange rates are fetched from: they take the place of those in the file.
	ExchangeSources []ExchangeSource `yaml:"exchange_sources"`
	// Margin is added to the price of external providers: 5% and 0.05 mean the same, and a number without % is at most 1.
	// Below 0 callers pay less than the provider asks. A provider may have its own.
	Margin Margin `yaml:"margin" default:"0%" min:"-100%" max:"10000%" example:"5%"`
	// ExternalLimit bounds what all keys together may spend at external providers in a period. When it is spent they are
	// skipped, and own slots go on. A key may have such a limit of its own (hearth keys set).
	ExternalLimit ExternalLimit `yaml:"external_limit"`
	// Local describes the one provider that all own slots belong to; its slug is local-gpu.
	Local Local `yaml:"local" example:"{name: MyIP Local GPU}"`
	// Nodes are the own GPU machines (or single GPUs) and the slots on them.
	Nodes []Node `yaml:"nodes"`
	// Providers are the external accounts that can serve models.
	Providers []Provider `yaml:"providers"`
	// Models adds details to models. A model that a slot or a provider serves need not be listed.
	Models []Model `yaml:"models"`
	// NodeServer is for hearth node alone, on a GPU machine whose gateway runs elsewhere.
	NodeServer *NodeServer `yaml:"node_server" reload:"restart"`
	// Records says how the record of each request is kept.
	Records Records `yaml:"records"`
	// Shutdown says how the process ends on SIGTERM.
	Shutdown Shutdown `yaml:"shutdown"`
	// Request bounds what a caller may send, and what answering may take.
	Request Request `yaml:"request"`
	// Routing says how requests are shared among external endpoints of one model and one priority.
	Routing Routing `yaml:"routing"`
	// Cooldown says what becomes of an endpoint that failed three times in a row and is out for 60 s.
	Cooldown Cooldown `yaml:"cooldown"`
	// MaxAttempts bounds how many endpoints a request may be sent to; 0 tries the whole chain. A slot that is not
	// ready in time does not count: nothing was sent to it.
	MaxAttempts int `yaml:"max_attempts" default:"0" min:"0" max:"1000"`
	// EarlyHeaders begins the answer to a stream after so much waiting, although it is not known yet who will answer:
	// with status 200, the generation id and comments that keep the connection alive. Who answers then stands in each
	// chunk instead of the headers, and a failure comes as an event in the stream. 0 never does, else at least 1s. A
	// key may have its own, or none (hearth keys set).
	EarlyHeaders time.Duration `yaml:"early_headers" default:"0s" min:"0s" max:"1h" example:"20s"`
	// KeepAlive is how long a stream that has begun may be silent before a comment is sent, so that proxies on the way
	// do not cut it.
	KeepAlive time.Duration `yaml:"keep_alive" default:"10s" min:"5s" max:"10m"`
	// OnAbort says what becomes of a provider's stream when its caller leaves before its end. cancel: it is ended at once;
	// billed is what the provider had reported by then, which is nothing with most. settle: it is read on for a while,
	// passed on to nobody, to learn what it has used, and that is billed: for providers that charge for the whole answer all
	// the same. An own slot always stops at once. A provider may have its own.
	OnAbort string `yaml:"on_abort" default:"cancel" enum:"cancel settle"`
	// OnAbortLimit is how long a stream is read on at most; it is also ended after 16 MiB, and 64 of them are read at once.
	// A provider may have its own.
	OnAbortLimit time.Duration `yaml:"on_abort_limit" default:"30s" min:"1s" max:"10m"`

	origin origin
	files  []string // that held secrets
}

// API is how callers see what the gateway tells them. What is kept in records stays in the billing currency.
type API struct {
	// Currency is that in which callers see every price and cost, and in which their max_price is read. It needs a value
	// under exchange_rates unless it is the billing currency. Converted amounts are rounded to 10⁻¹². A key may have a
	// currency of its own. Default: the billing currency.
	Currency string `yaml:"currency" example:"USD"`
}

// Margin is a share on top of a price: 0.05 is five per cent.
type Margin struct{ decimal.Decimal }

// Size is a number of bytes.
type Size int64

// Local is the provider that holds all own nodes.
type Local struct {
	// Name is the display name, sent in the provider header.
	Name string `yaml:"name" default:"Local GPU" example:"MyIP Local GPU"`
	// Limits bound one attempt at a slot. The wait for a slot is not part of it: see the slot's wait.
	Limits Limits `yaml:"limits" defaults:"first_byte=180s"`
	// MediaURLs says what becomes of images, sound and films that a request names by a web address, when a slot is to
	// answer it. refuse: the slot is passed over; only data: addresses reach an engine. fetch: the gateway downloads
	// them, from public addresses only and at most 20 MiB each, and puts the data into the request.
	MediaURLs string `yaml:"media_urls" default:"refuse" enum:"refuse fetch"`
	// StreamBuffer is how much of a stream is read ahead of a slow caller, so that the engine can go on. Whoever takes
	// nothing for 30 s is left.
	StreamBuffer Size `yaml:"stream_buffer" default:"1MiB" min:"64KiB" max:"64MiB"`
	// PortRange are the ports of which the engines that the gateway starts get theirs, from-to.
	PortRange string `yaml:"port_range" default:"18100-18899" example:"20000-20099" reload:"restart"`
	// LockDir is the directory of the locks that keep two gateways off one node; all gateways of the machine must use the
	// same one. Default: $XDG_RUNTIME_DIR/hearth, else /run/lock/hearth, else hearth-<user id> in the directory for
	// temporary files.
	LockDir string `yaml:"lock_dir" env:"yes" example:"/run/lock/hearth" reload:"restart"`
}

// Limits bound one attempt at one endpoint; 0 means no limit.
type Limits struct {
	// Connect bounds the making of a connection, TLS included.
	Connect time.Duration `yaml:"connect" default:"5s" min:"0s" max:"10m"`
	// FirstByte bounds the time until the first content of a stream.
	FirstByte time.Duration `yaml:"first_byte" default:"30s" min:"0s" max:"24h"`
	// Answer bounds the time until the last byte of an answer that is not streamed.
	Answer time.Duration `yaml:"answer" default:"600s" min:"0s" max:"24h"`
	// Idle bounds the silence between two pieces of a stream.
	Idle time.Duration `yaml:"idle" default:"60s" min:"0s" max:"24h"`
	// Total bounds the whole attempt.
	Total time.Duration `yaml:"total" default:"30m" min:"0s" max:"24h"`
}

// Model is what the lists say about a model.
type Model struct {
	// ID is what callers ask for: author/slug, in the form author/slug:suffix if there are flavours.
	ID string `yaml:"id" need:"yes" example:"google/gemma-4-26b-a4b"`
	// Name is the display name. Default: the id.
	Name string `yaml:"name" example:"Gemma 4 26B A4B"`
	// Description is a sentence or two for the list of models.
	Description string `yaml:"description"`
	// Created is when the model came out, in seconds since 1970; 0 is unknown.
	Created int `yaml:"created" default:"0" min:"0" max:"99999999999"`
	// Input lists the kinds of input the model takes: text, image, audio, video, file.
	Input []string `yaml:"input" default:"text" example:"[text, image]"`
	// Kappa is the value of time of this model. Default: that under routing.
	Kappa *decimal.Decimal `yaml:"kappa" min:"0.001" max:"100" example:"1"`
	// MaxPremium is that of this model. Default: that under routing.
	MaxPremium *Margin `yaml:"max_premium" min:"0%" max:"10000%" example:"10%"`
	// TierMode is that of this model. Default: that under routing.
	TierMode string `yaml:"tier_mode" enum:"strict spill cost" example:"spill"`
	// SpillAfter is that of this model. Default: that under routing.
	SpillAfter time.Duration `yaml:"spill_after" min:"100ms" max:"10m" example:"10s"`
}

// Records says how the record of each request is kept.
type Records struct {
	// Durability says what a finished record survives. process: the end of the process, however it comes; the disk
	// follows within 50 ms. power: also a power cut, at the price of a disk write before each answer ends.
	Durability string `yaml:"durability" default:"process" enum:"process power" reload:"restart"`
	// MaxJournal bounds the disk space of records that are not yet in the database. When it is used up, requests
	// are refused with 503 overloaded rather than served without a record.
	MaxJournal Size `yaml:"max_journal" default:"1GiB" min:"1MiB" max:"1TiB" reload:"restart"`
	// MaxAge is how long a record is kept, counted from the arrival of its request; 0s is for ever. What each key spent per
	// day, model and provider is kept for ever.
	MaxAge time.Duration `yaml:"max_age" default:"0s" min:"0s" max:"36500d" example:"400d"`
	// MaxSize is how large the database may grow before the oldest records are deleted; 0 is without a bound. The file of a
	// database that is larger already shrinks little by little.
	MaxSize Size `yaml:"max_size" default:"0B" min:"0B" max:"16TiB" example:"20GiB"`
	// Content says whether prompts and answers are kept too. By default they are nowhere.
	Content Content `yaml:"content"`
}

// ExternalLimit bounds what all keys together may spend at external providers.
type ExternalLimit struct {
	// Amount is in the billing currency; 0 is no limit.
	Amount decimal.Decimal `yaml:"amount" default:"0" min:"0" max:"9000000000" example:"500000"`
	// Reset is when it may be spent anew: at the midnight, in the time zone, of each day, Monday or first of a month, or never.
	Reset string `yaml:"reset" default:"monthly" enum:"daily weekly monthly never"`
}

// Period is that of Reset.
func (l ExternalLimit) Period() hearth.Period {
	if l.Reset == "never" {
		return hearth.Forever
	}
	return hearth.Period(l.Reset)
}

// Shutdown says how the process ends on SIGTERM.
type Shutdown struct {
	// LameDuck is how long requests are still accepted while /ready already answers 503, so that a load balancer
	// can look elsewhere.
	LameDuck time.Duration `yaml:"lame_duck" default:"2s" min:"0s" max:"10m"`
	// Grace is how long requests in flight may take to finish; then the rest end with an error event.
	Grace time.Duration `yaml:"grace" default:"25s" min:"0s" max:"1h"`
}

// Request bounds what a caller may send, and what answering may take.
type Request struct {
	// MaxBody is the largest request body; a larger one is answered with 413.
	MaxBody Size `yaml:"max_body" default:"64MiB" min:"1KiB" max:"1GiB"`
	// MaxBodyTotal is the memory that all request bodies together may hold; past it requests are refused with 503
	// overloaded.
	MaxBodyTotal Size `yaml:"max_body_total" default:"256MiB" min:"1KiB" max:"64GiB"`
	// MaxAnswerTotal is the memory that all answers together may hold that are not streamed; past it such requests
	// fail with 503 overloaded. One answer may have 64 MiB.
	MaxAnswerTotal Size `yaml:"max_answer_total" default:"256MiB" min:"64MiB" max:"64GiB"`
}

// Routing says how requests are shared among the external endpoints of a model that have the same priority. Own slots follow
// their state, and what a caller sorts or orders itself is left as it is.
type Routing struct {
	// By is what such endpoints are ordered by. cost: what a good answer costs in all, with the wait for it, failed tries and
	// broken tool calls as they are measured; those near the lowest share the traffic. price: what the request is expected to
	// cost, the cheapest first.
	By string `yaml:"by" default:"cost" enum:"cost price"`
	// Kappa is the value of time: at an endpoint that takes twice as long as the fastest of the model, waiting for an answer
	// costs that part of its price. 2 is for people who wait, 0.1 for work in the background.
	Kappa decimal.Decimal `yaml:"kappa" default:"1.5" min:"0.001" max:"100" example:"2"`
	// MaxPremium bounds what the requests of a model may cost over a mix of its endpoints by price alone; 0% is no bound.
	// Requests of keys with a kappa of their own are not bound by it.
	MaxPremium Margin `yaml:"max_premium" default:"5%" min:"0%" max:"10000%" example:"10%"`
	// TimeValue is what an hour of waiting costs, in the billing currency, where the typical price is 0.
	TimeValue decimal.Decimal `yaml:"time_value" default:"0.36" min:"0.000001" max:"1000000000" example:"500"`
	// Explore is the part of a model's requests that goes to endpoints that were not tried for long, so that improvements are
	// noticed.
	Explore Margin `yaml:"explore" default:"3%" min:"0%" max:"50%" example:"1%"`
	// TierMode says how own slots stand to the external endpoints of their model. strict: by priority alone, so own slots
	// come first however long the queue is. spill: a slot whose first token is expected later than that of the best
	// endpoint of the next tier, by more than spill_after, stands behind that tier; if it is not up, the request is a vote
	// for starting it. cost: slots and external endpoints stand by what they charge and what the wait for them costs, with
	// kappa as the value of time. What a caller sorts or orders itself is left as it is in all three.
	TierMode string `yaml:"tier_mode" default:"strict" enum:"strict spill cost"`
	// SpillAfter is how much later than elsewhere the first token of an own slot may come under tier_mode: spill.
	SpillAfter time.Duration `yaml:"spill_after" default:"3s" min:"100ms" max:"10m" example:"10s"`
	// Probe says which endpoints that have failed are asked by the gateway itself, with a request of one token, whether they
	// answer again, so that no caller has to find out. free: those whose prices are all 0. always: all; what that costs is
	// yours, and small. off: none. A provider may have its own.
	Probe string `yaml:"probe" default:"free" enum:"free always off"`
	// ProbeEvery is the least time between two such requests to one endpoint; each that fails doubles it, up to a minute.
	ProbeEvery time.Duration `yaml:"probe_every" default:"15s" min:"5s" max:"1h" example:"1m"`
}

// Cooldown says what becomes of an endpoint that failed three times in a row and is out for 60 s.
type Cooldown struct {
	// LastResort tries an external endpoint that is out behind all others instead of not at all, if its model has another
	// one of the same priority. By default an endpoint that is out is never tried.
	LastResort bool `yaml:"last_resort" default:"false"`
}

// Location is the time zone in which a day begins.
func (c *Config) Location() (*time.Location, error) { return time.LoadLocation(c.Timezone) }

// Ports is the port range of a Config that Load or Parse returned: the first and the last port.
func (l Local) Ports() [2]int {
	ports, _ := parsePorts(l.PortRange)
	return ports
}

// limits turns the limits into the catalog's.
func (l Limits) limits() hearth.Limits {
	return hearth.Limits{Connect: l.Connect, FirstByte: l.FirstByte, Answer: l.Answer, Idle: l.Idle, Total: l.Total}
}
