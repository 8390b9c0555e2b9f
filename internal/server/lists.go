package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
)

// The lists of models, endpoints and providers, in OpenRouter's shapes. Field order matters where a comment says so.

type modelJSON struct {
	ID            string            `json:"id"`
	CanonicalSlug string            `json:"canonical_slug"`
	Name          string            `json:"name"`
	Created       int64             `json:"created"`
	Description   string            `json:"description"`
	ContextLength *int              `json:"context_length"`
	Architecture  architectureJSON  `json:"architecture"`
	Pricing       pricingJSON       `json:"pricing"`
	TopProvider   topProviderJSON   `json:"top_provider"`
	PerRequest    *struct{}         `json:"per_request_limits"`
	Supported     []string          `json:"supported_parameters"`
	Defaults      *struct{}         `json:"default_parameters"`
	Voices        *struct{}         `json:"supported_voices"`
	Links         map[string]string `json:"links"`
}

type architectureJSON struct {
	Modality  string   `json:"modality"`
	Input     []string `json:"input_modalities"`
	Output    []string `json:"output_modalities"`
	Tokenizer string   `json:"tokenizer"`
	Instruct  *string  `json:"instruct_type"`
}

type topProviderJSON struct {
	ContextLength *int `json:"context_length"`
	MaxCompletion *int `json:"max_completion_tokens"`
	IsModerated   bool `json:"is_moderated"`
}

// endpointJSON holds exactly one "status", and not as its last key: the documented way to read it is grep.
type endpointJSON struct {
	Name          string       `json:"name"`
	ModelID       string       `json:"model_id"`
	ModelName     string       `json:"model_name"`
	ProviderName  string       `json:"provider_name"`
	Tag           string       `json:"tag"`
	Status        int          `json:"status"`
	Priority      int          `json:"priority"`
	Local         bool         `json:"local"`
	Slot          *SlotView    `json:"slot,omitempty"`
	ContextLength int          `json:"context_length"` // 0 = not known: OpenRouter's clients take no null here
	MaxCompletion *int         `json:"max_completion_tokens"`
	MaxPrompt     *int         `json:"max_prompt_tokens"`
	Quantization  *string      `json:"quantization"`
	Pricing       pricingJSON  `json:"pricing"`
	Supported     []string     `json:"supported_parameters"`
	Input         []string     `json:"input_modalities,omitempty"` // only if declared
	Caching       bool         `json:"supports_implicit_caching"`
	ToolChoice    toolChoice   `json:"supports_tool_choice"`
	Uptime5m      *float64     `json:"uptime_last_5m"`
	Uptime30m     *float64     `json:"uptime_last_30m"`
	Uptime1d      *float64     `json:"uptime_last_1d"`
	Latency       *percentiles `json:"latency_last_30m"`    // milliseconds to the first token
	Throughput    *percentiles `json:"throughput_last_30m"` // output tokens per second, end to end
	Flagged       string       `json:"flagged,omitempty"`   // why the quality of its answers is in doubt
	// Of the attempts of the last 30 minutes, how many there were, and which part of them failed or met a rate limit, 0 to 1.
	Attempts int      `json:"attempts_last_30m"`
	Errors   *float64 `json:"error_rate_last_30m"`
	Limits   *float64 `json:"rate_429_last_30m"`
}

// SlotView is what the lists tell of a slot.
type SlotView struct {
	State    string  `json:"state"`
	Node     string  `json:"node"`
	Inflight int     `json:"inflight"`          // requests in the engine
	Waiting  int     `json:"waiting"`           // requests in the queue
	LoadRest float64 `json:"load_rest_seconds"` // predicted time until ready
	// The shortest time until ready that was ever seen: a request that may wait for less, and has a further candidate, goes
	// there at once. Left out if it is ready, or nobody knows.
	Soonest float64 `json:"soonest_seconds,omitzero"`
}

func slotView(s *hearth.Slot, v hearth.SlotView) *SlotView {
	return &SlotView{State: stateOf(v), Node: s.Node.Name, Inflight: v.Inflight, Waiting: v.Waiting, LoadRest: v.LoadRest.Seconds(), Soonest: v.Soonest.Seconds()}
}

type toolChoice struct {
	Auto     bool `json:"auto"`
	None     bool `json:"none"`
	Required bool `json:"required"`
	Function bool `json:"function"`
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) error {
	shown := s.shown(r)
	data := make([]modelJSON, 0, len(s.Catalog.Models))
	for _, m := range s.Catalog.Models {
		data = append(data, s.modelJSON(m, shown))
	}
	return writeJSON(w, http.StatusOK, struct {
		Data  []modelJSON        `json:"data"`
		Total int                `json:"total_count"`
		Links map[string]*string `json:"links"`
	}{data, len(data), map[string]*string{"next": nil}})
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	m, err := s.findModel(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Data modelJSON `json:"data"`
	}{s.modelJSON(m, s.shown(r))})
}

func (s *Server) endpoints(w http.ResponseWriter, r *http.Request) error {
	m, err := s.findModel(r)
	if err != nil {
		return err
	}
	now, shown := time.Now(), s.shown(r)
	list := make([]endpointJSON, 0, len(m.Endpoints))
	for _, e := range inTurn(m) {
		list = append(list, s.endpointJSON(e, shown, now))
	}
	type data struct {
		ID           string           `json:"id"`
		Name         string           `json:"name"`
		Created      int64            `json:"created"`
		Description  string           `json:"description"`
		Architecture architectureJSON `json:"architecture"`
		Endpoints    []endpointJSON   `json:"endpoints"`
	}
	return writeJSON(w, http.StatusOK, struct {
		Data data `json:"data"`
	}{data{m.ID, m.Name, m.Created, m.Description, architecture(m), list}})
}

func (s *Server) providers(w http.ResponseWriter, _ *http.Request) error {
	type provider struct {
		Name    string   `json:"name"`
		Slug    string   `json:"slug"`
		Local   bool     `json:"local"`
		Privacy *string  `json:"privacy_policy_url"`
		Terms   *string  `json:"terms_of_service_url"`
		Status  *string  `json:"status_page_url"`
		HQ      *string  `json:"headquarters"`
		Centers []string `json:"datacenters"`
	}
	data := make([]provider, 0, len(s.Catalog.Providers))
	for _, p := range s.Catalog.Providers {
		data = append(data, provider{
			Name: p.Name, Slug: p.Slug, Local: p.Kind == hearth.Local,
			Privacy: orNull(p.PrivacyURL), Terms: orNull(p.TermsURL), Status: orNull(p.StatusURL),
		})
	}
	return writeJSON(w, http.StatusOK, struct {
		Data []provider `json:"data"`
	}{data})
}

func (s *Server) findModel(r *http.Request) (*hearth.Model, error) {
	id := r.PathValue("id")
	if id == "" {
		id = r.PathValue("author") + "/" + r.PathValue("slug")
	}
	if m := chain.Lookup(s.Catalog, id); m != nil { // a suffix that only sorts is no model of its own
		return m, nil
	}
	const longest = 256 // as in a chat request
	if len(id) > longest {
		id = strings.ToValidUTF8(id[:longest], "")
	}
	// The chain of such a request is an error with the nearest names in it: the words are the same on every route.
	_, err := chain.Build(chain.Input{Request: &hearth.Request{Models: []string{id}}, Views: chain.Views{Catalog: s.Catalog}, Now: time.Now()})
	if err == nil {
		return nil, hearth.Errorf(hearth.ErrModelNotFound, "there is no model %q", id)
	}
	return nil, err
}

// inTurn are the model's endpoints in the order in which they are tried by default: by priority, own ones first where it
// is the same.
func inTurn(m *hearth.Model) []*hearth.Endpoint {
	list := slices.Clone(m.Endpoints)
	slices.SortStableFunc(list, func(a, b *hearth.Endpoint) int {
		if c := cmp.Compare(a.Priority, b.Priority); c != 0 || a.Local() == b.Local() {
			return c
		}
		if a.Local() {
			return -1
		}
		return 1
	})
	return list
}

// shown is the currency in which the caller of a list sees prices. A list may be public: a key is not asked for.
func (s *Server) shown(r *http.Request) hearth.Money {
	return s.Catalog.Money(s.asking(r))
}

// asking is the key that a request was sent with, nil if there is none that holds.
func (s *Server) asking(r *http.Request) *hearth.Key {
	if r.Header.Get("Authorization") == "" && r.Header.Get("X-Api-Key") == "" {
		return nil
	}
	key, err := s.Accounts.Authorise(r.Header, r.RemoteAddr)
	if err != nil {
		return nil
	}
	return key
}

func (s *Server) modelJSON(m *hearth.Model, shown hearth.Money) modelJSON {
	j := modelJSON{
		ID: m.ID, CanonicalSlug: m.ID, Name: m.Name, Created: m.Created, Description: m.Description,
		Architecture: architecture(m), Supported: supported(m).Names(),
		Links: map[string]string{"details": "/api/v1/models/" + m.ID + "/endpoints"},
	}
	window := 0
	for _, e := range m.Endpoints {
		window = max(window, s.window(e))
	}
	j.ContextLength = orNull(window)
	j.Pricing.Currency = shown.Currency
	if e := top(m); e != nil {
		j.Pricing = pricing(e, shown, time.Now())
		j.TopProvider = topProviderJSON{ContextLength: orNull(s.window(e)), MaxCompletion: orNull(e.MaxOutput)}
	}
	return j
}

// top is the endpoint that is tried first by default; nil if the model has none.
func top(m *hearth.Model) *hearth.Endpoint {
	list := inTurn(m)
	if i := slices.IndexFunc(list, func(e *hearth.Endpoint) bool { return !e.Disabled && !e.Stale }); i >= 0 {
		return list[i]
	}
	if len(list) > 0 {
		return list[0]
	}
	return nil
}

// supported are the parameters that some endpoint of the model takes.
func supported(m *hearth.Model) hearth.Params {
	var p hearth.Params
	for _, e := range m.Endpoints {
		if !e.Disabled {
			p |= e.Takes()
		}
	}
	if p == 0 {
		return hearth.UsualParams
	}
	return p
}

func (s *Server) endpointJSON(e *hearth.Endpoint, shown hearth.Money, now time.Time) endpointJSON {
	j := endpointJSON{
		Name: e.Provider.Name + " | " + e.Model.ID, ModelID: e.Model.ID, ModelName: e.Model.Name,
		ProviderName: e.Provider.Name, Tag: e.Tag, Status: s.status(e, now), Priority: e.Priority, Local: e.Local(),
		ContextLength: s.window(e), MaxCompletion: orNull(e.MaxOutput), Quantization: orNull(e.Quantization),
		Pricing: pricing(e, shown, now), Supported: e.Takes().Names(), Input: e.Input, Caching: true,
		ToolChoice: toolChoiceOf(e.Takes()),
	}
	j.Flagged = s.why(e)
	s.measured(&j, e, now)
	if e.Slot != nil {
		j.Slot = slotView(e.Slot, s.Fleet.View(e.Slot))
	}
	return j
}

// window is the endpoint's in tokens, 0 = not known: one that is not configured is known once its engine was loaded.
func (s *Server) window(e *hearth.Endpoint) int {
	if e.Slot == nil {
		return e.Context
	}
	v := s.Fleet.View(e.Slot)
	return chain.Window(e, &v)
}

// status is 0 when the endpoint would be tried and answer at once; -1 starting, -2 asleep, -3 its node is busy with
// another model, -5 failed, cooling down or of a currency
// whose exchange rate is too old, -10 disabled.
func (s *Server) status(e *hearth.Endpoint, now time.Time) int {
	switch {
	case e.Disabled:
		return -10
	case e.Stale || s.Health.View()[e.Index].Out(now):
		return -5
	case e.Slot != nil:
		return s.Fleet.View(e.Slot).Status()
	}
	return 0
}

func architecture(m *hearth.Model) architectureJSON {
	in := m.Input
	if len(in) == 0 {
		in = []string{"text"}
	}
	return architectureJSON{Modality: strings.Join(in, "+") + "->text", Input: in, Output: []string{"text"}, Tokenizer: "Other"}
}

// orNull is a pointer to v, or nil (JSON null) if v says nothing.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
