package hearth

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Catalog is everything the configuration says about models, providers, endpoints, nodes and slots. It is built
// once per configuration, sealed, and never changed afterwards: readers share it without locks.
type Catalog struct {
	Currency     string                     // ISO code of the billing currency
	Shown        string                     // the currency in which callers see amounts, "" = the billing currency
	DefaultModel string                     // used when a request names no model
	Aliases      map[string]string          // other names callers may use → model id
	Rates        map[string]decimal.Decimal // billing currency per one unit of a provider's currency
	Stale        map[string]bool            // currencies whose rate is older than allowed: their endpoints are not used
	Models       []*Model                   // in the order of the configuration
	Providers    []*Provider
	Nodes        []*Node
	Slots        []*Slot
	Endpoints    []*Endpoint // Endpoints[i].Index == i
	Tiered       bool        // a model has a tier mode other than strict; set by Seal

	byID map[string]*Model
}

// Model is what a caller asks for.
type Model struct {
	ID          string // "author/slug"
	Name        string // display name
	Description string
	Created     int64       // unix seconds, 0 = unknown
	Input       []string    // modalities, default ["text"]
	Endpoints   []*Endpoint // ascending priority, then configuration order; set by Seal
	TierMode    TierMode    // how own slots stand to external endpoints, "" = strict
	SpillAfter  time.Duration
}

// Provider is who can serve models.
type Provider struct {
	Slug     string // "local-gpu" for the one local provider
	Name     string // display name, sent in X-MyIP-Provider
	Kind     Kind
	BaseURL  string // external: up to and including the version ("https://openrouter.ai/api/v1"), no final slash
	APIKey   Secret
	Headers  map[string]Secret // further headers sent with every request
	Currency string            // of its price list
	Margin   decimal.Decimal   // 0.1 = ten per cent on top
	Limits   Limits
	// NoStreamOptions: the provider refuses stream_options, so usage in streams cannot be asked for.
	NoStreamOptions bool
	// Settle is how long a stream is read on, to learn what it has used, when its caller has left; 0 = it is ended at once.
	Settle time.Duration
	// MaxTokensKey is the one key for the output cap that the provider knows, "" = either.
	MaxTokensKey string
	// Probe says which of its endpoints the gateway itself asks whether they answer again.
	Probe ProbePolicy
	// Dialect is "openai", or "openrouter" for a provider that takes OpenRouter's provider object itself.
	Dialect                         string
	PrivacyURL, TermsURL, StatusURL string
}

// Limits bound one attempt at a provider. Zero means none.
type Limits struct {
	Connect   time.Duration // TCP and TLS
	FirstByte time.Duration // of a stream: until the first content-bearing event
	Answer    time.Duration // of a non-stream answer: until its last byte
	Idle      time.Duration // between two reads of a stream
	Total     time.Duration // of the whole attempt
}

// Endpoint is one mapping model → provider.
type Endpoint struct {
	Index         int    // place in Catalog.Endpoints
	ID            string // stable across restarts: "<tag>:<model id>"
	Model         *Model
	Provider      *Provider
	Tag           string // routable slug: "acme", "acme/fp8", "local-gpu/gpu-1"
	UpstreamModel string // what the upstream calls the model
	Priority      int    // lower is tried first; local 0, external 50 unless configured
	List          Price  // in Provider.Currency, before rate and margin
	Rate          decimal.Decimal
	Margin        decimal.Decimal // OwnMargin, else the provider's; set by Seal
	Price         Price           // in the billing currency, List × Rate × (1 + margin), exact; set by Seal
	Context       int             // window in tokens, 0 = unknown
	MaxOutput     int             // largest completion in tokens, 0 = unknown
	ImageTokens   int             // what one image counts as in the prompt estimate
	Quantization  string
	Params        Params   // parameters it takes, 0 = not declared
	Input         []string // kinds of input it takes ("text", "image", …), nil = not declared
	NoCollection  bool     // declared: prompts are not collected for training
	ZDR           bool     // declared: nothing is retained
	ToolQuality   float64  // the operator's grade of its tool calls, 0 to 1; 0 = not graded
	Flagged       string   // why the operator doubts the quality of its answers, "" = does not
	Disabled      bool
	Slot          *Slot // local endpoints only

	OwnMargin *decimal.Decimal // in place of the provider's, nil = none
	// Steps are further price lists, for long prompts or hours of the day; Seal sorts them for TariffAt.
	Steps []Tariff
	// Reported: the cost is what the upstream says of each answer, times rate and margin; the lists serve routing and
	// reservation only.
	Reported bool
	Stale    bool // the exchange rate of its currency is too old to be used; set by Seal

	base Tariff // List and Price
}

// Local says whether the endpoint's prompt stays in the house.
func (e *Endpoint) Local() bool { return e.Provider.Kind == Local }

// Takes are the parameters the endpoint takes: the declared ones, else the usual ones.
func (e *Endpoint) Takes() Params {
	if e.Params != 0 {
		return e.Params
	}
	return UsualParams
}

// Lacks says whether the endpoint declares that it does not take one of the parameters.
func (e *Endpoint) Lacks(p Params) bool { return e.Params != 0 && p&^e.Params != 0 }

// Node is one GPU machine, or one GPU.
type Node struct {
	Index       int
	Name        string
	Exclusive   bool          // holds one model at a time, on each of its devices
	Devices     []Device      // empty = it is one, of which nothing is known
	Available   Calendar      // when its engines may run
	Turn        time.Duration // how long a resident model may go on while another model's oldest request waits
	MinResident time.Duration // a slot that became ready stays at least this long
	Remote      *Remote       // the slots are another machine's; nil = this one's
	// FreeMemory is a command whose standard output is the free memory of the devices in MiB, one number per line;
	// empty = nvidia-smi is asked if a slot of the node has MinFree.
	FreeMemory []string
}

// Remote is where the owner of a node's slots, a hearth node, answers.
type Remote struct {
	URL   string // http(s)://host:port, or unix:///path/to/socket; without a final slash
	Token Secret
	CA    string // file of the PEM certificates that may have signed the machine's, "" = the system's
}

// Slot is a place on a node that can run one model.
type Slot struct {
	Index      int
	Name       string // unique over all nodes
	Node       *Node
	Model      *Model
	Driver     string            // "exec", "command", "http", "docker" or "always"
	Engine     string            // what runs there: a name of Engines, "" = not said
	StrictKeys bool              // forward only the keys of the chat completions API
	Command    []string          // exec: program and arguments; ${port} is replaced
	Env        map[string]Secret // exec: added to a small inherited environment
	Dir        string            // exec: working directory
	Port       int               // exec: fixed port, 0 = a free one for each start
	Actions    Actions           // command, http: how the engine is started, stopped and asked
	Preset     string            // http: the kind of Actions, "" = as written
	Container  string            // docker: name or id
	Docker     string            // docker: unix:///path or http(s)://host:port of the Engine API
	// UpstreamModel is the engine's name of the model, as the operator wrote it; "" = not said.
	UpstreamModel string
	Context       int           // tokens of one request, as the operator wrote it; 0 = as the engine says
	OnExit        string        // "stop" or "keep": what becomes of the engine when the gateway ends
	MinFree       int64         // bytes of device memory that must be free before a start, 0 = not looked at
	URL           string        // not exec: base URL of the engine, without /v1
	APIKey        Secret        // not exec: sent to the engine as a bearer token, "" = none
	Probe         string        // path asked for readiness, default /health
	Concurrency   int           // requests in flight at once, 0 = as the engine says, else 1
	Queue         int           // waiting requests, default 64
	Wait          time.Duration // budget for the slot to become ready
	QueueWait     time.Duration // budget for a place in a ready slot when there is another candidate
	ExpectedLoad  time.Duration // first guess of the load time
	StartTimeout  time.Duration // a start that takes longer has failed
	StopGrace     time.Duration // between SIGTERM and SIGKILL
	DrainMax      time.Duration // bounds the drain of a shutdown
	IdleSleep     time.Duration // unload after so much quiet, 0 = never
	Devices       []int         // which of the node's it takes, empty = all
	Memory        int64         // bytes it takes on each of them, 0 = not said
	Companion     bool          // lives beside whatever is there: it never has to go for another slot
	KeepWarm      *Calendar     // when it is up though nobody asks for it, unless others are in demand; nil = never
}

// Actions are what an operator wrote for the engines of a slot. An action that is not there is nil.
type Actions struct {
	Start, Stop, Status *Action
}

// Action is a command, or a request to the engine. In all texts ${model} is the engine's name of the model.
type Action struct {
	Command []string // program and arguments; no shell reads it

	Method  string // of the request
	URL     string // absolute, or a path at the slot's URL
	Headers map[string]Secret
	Body    string
	Status  []int  // answers that mean yes, nil = any 2xx
	Match   string // what must be in the body for a yes: "path=value", the path with dots and numbers; "" = nothing

	Timeout time.Duration // of the command or the request
}

// SlotState is a step in a slot's life.
type SlotState uint8

const (
	SlotAsleep SlotState = iota
	SlotStarting
	SlotReady
	SlotDraining
	SlotStopping
	SlotFailed
)

var slotStateWords = [...]string{"asleep", "starting", "ready", "draining", "stopping", "failed"}

func (s SlotState) String() string {
	if int(s) < len(slotStateWords) {
		return slotStateWords[s]
	}
	return "unknown"
}

// MarshalText writes the state's word.
func (s SlotState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// SlotView is what the rest of the gateway may know of a slot at one instant.
type SlotView struct {
	State     SlotState
	Since     time.Time     // when the state was entered
	Inflight  int           // requests in the engine
	Waiting   int           // requests in the queue
	Batch     int           // of them those of batch keys, which come after the others
	OtherBusy bool          // another model holds the exclusive node or is being loaded into it
	LoadRest  time.Duration // predicted time until ready, 0 when ready
	WaitRest  time.Duration // predicted time until a request that comes now has its place: LoadRest, and the queue before it
	Soonest   time.Duration // shortest time in which it can be ready, as far as any was seen: who has less, and somewhere else to go, does not wait; 0 = it is ready, or nobody knows
	LastError string        // of the last failed start, for the operator
	LoadTime  time.Duration // of the last start that came up, 0 = none was measured
	StopTime  time.Duration // of the last stop, 0 = none was measured
	Loads     uint64        // starts that came up
	Served    uint64        // requests that were let into the engine
	Learned   Learned       // what its times are like
	Votes     int           // requests that were not let wait, because waiting was hopeless, and that may start it yet
	Turn      time.Time     // since when its turn is limited, because another model is waited for; zero = it is not
	Next      bool          // its turn comes next on the node
	NextWhy   string        // why, for the operator

	Unknown  bool      // the node has not been heard of for 2 s: nothing below or above holds
	Disabled bool      // by the operator: as if the mapping were disabled
	Drained  bool      // by the operator: takes no request until it is woken or enabled
	Paused   time.Time // the node is given back to its owner until then; zero = it is not
	Shut     time.Time // the node is outside of its hours until then; zero = it is not
	Foreign  bool      // another gateway owns the node
	Facts    SlotFacts // what its engine last said of itself
}

// Learned is what the times of a slot are like, from what was measured lately.
type Learned struct {
	Load    Figures // from the start of its engine until that is ready
	Stop    Figures // from the order to stop its engine until nothing of it is left
	Drain   Figures // from the decision that its engine goes until nobody uses it any more, if somebody did
	Service Figures // for which a request has a place in its engine
}

// Figures are a distribution of times, of which old ones count less: half after every 16 more.
type Figures struct {
	P50, P95 time.Duration
	Min      time.Duration // the shortest
	N        int           // how many they are made of, at most 64; 0 = none, and all of this is zero
}

// SlotFacts is what an engine says of itself.
type SlotFacts struct {
	Window   int    // tokens one request may have, prompt and answer together; 0 = not said
	Parallel int    // requests it works on at once, 0 = not said
	Model    string // what it has loaded, as it calls it; "" = not said
	Warning  string // where it contradicts the configuration, for the operator
}

// Status is the number of the endpoints list: 0 up, -1 starting, -2 asleep, -3 busy with another model or another
// gateway, -5 failed or not heard of, -10 taken away by the operator or outside of its hours.
func (v SlotView) Status() int {
	switch {
	case v.Unknown:
		return -5
	case v.Disabled || v.Drained || !v.Paused.IsZero() || !v.Shut.IsZero():
		return -10
	case v.Foreign:
		return -3
	}
	switch v.State {
	case SlotReady:
		return 0
	case SlotStarting:
		return -1
	case SlotFailed:
		return -5
	case SlotAsleep, SlotDraining, SlotStopping:
		if v.OtherBusy || v.State == SlotDraining {
			return -3
		}
	}
	return -2
}

// Model finds a model by its id; aliases are not followed.
func (c *Catalog) Model(id string) *Model { return c.byID[id] }

// Resolve follows an alias, if name is one, and finds the model.
func (c *Catalog) Resolve(name string) *Model {
	if to, ok := c.Aliases[name]; ok {
		name = to
	}
	return c.byID[name]
}

// Seal numbers and sorts the parts, computes prices in the billing currency and makes the catalog ready for
// use. It fails when a part refers to what is not there.
func (c *Catalog) Seal() error {
	c.byID = make(map[string]*Model, len(c.Models))
	for _, m := range c.Models {
		if c.byID[m.ID] != nil {
			return fmt.Errorf("model %q stands twice", m.ID)
		}
		c.byID[m.ID] = m
		c.Tiered = c.Tiered || m.TierMode != "" && m.TierMode != TierStrict
		m.Endpoints = nil
	}
	for i, n := range c.Nodes {
		n.Index = i
	}
	for i, s := range c.Slots {
		s.Index = i
	}
	seen := make(map[string]bool, len(c.Endpoints))
	for i, e := range c.Endpoints {
		if err := c.sealEndpoint(i, e); err != nil {
			return err
		}
		if seen[e.ID] {
			return fmt.Errorf("endpoint %q stands twice", e.ID)
		}
		seen[e.ID] = true
		e.Model.Endpoints = append(e.Model.Endpoints, e)
	}
	for _, m := range c.Models {
		slices.SortStableFunc(m.Endpoints, func(a, b *Endpoint) int { return cmp.Compare(a.Priority, b.Priority) })
	}
	return nil
}

func (c *Catalog) sealEndpoint(i int, e *Endpoint) error {
	e.Index = i
	e.ID = e.Tag + ":" + e.Model.ID
	if e.Local() != (e.Slot != nil) {
		return fmt.Errorf("endpoint %q: a local endpoint needs a slot, an external one has none", e.ID)
	}
	e.Rate = decimal.New(1, 0)
	if e.Provider.Currency != c.Currency {
		rate, ok := c.Rates[e.Provider.Currency]
		if !ok {
			return fmt.Errorf("endpoint %q: no exchange rate from %s to %s", e.ID, e.Provider.Currency, c.Currency)
		}
		e.Rate = rate
	}
	e.Stale = e.Provider.Currency != c.Currency && c.Stale[e.Provider.Currency]
	if e.Margin = e.Provider.Margin; e.OwnMargin != nil {
		e.Margin = *e.OwnMargin
	}
	e.sealTariffs(e.Rate.Mul(decimal.New(1, 0).Add(e.Margin)))
	return nil
}
