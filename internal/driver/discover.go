package driver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"myip.co.kr/hearth"
)

// Kinds of engines, as the configuration writes them.
const (
	llamaServer = "llama-server"
	vllm        = "vllm"
	sglang      = "sglang"
	ollama      = "ollama"
	lmStudio    = "lm-studio"
	tabbyAPI    = "tabbyapi"
)

// owners tell the kind of an engine by what its list of models says.
var owners = map[string]string{"llamacpp": llamaServer, "vllm": vllm, "sglang": sglang, "library": ollama, "tabbyapi": tabbyAPI}

// offer is one model that an engine says it has.
type offer struct {
	names    []string // its id, then what else it answers to
	kind     string   // of engine, as the list lets guess; "" = nothing to go by
	state    load
	failed   bool // the engine says that it cannot load it
	idle     bool // it is neither in memory nor being loaded or unloaded
	window   int  // tokens of one request, 0 = not said
	parallel int  // requests at once, 0 = not said

	instances []string // LM Studio: what is in memory of it
}

// load is whether an engine has a model in memory.
type load uint8

const (
	unsaid   load = iota // engines with one model say nothing of it
	unloaded             // it would have to be loaded first, or is being loaded
	loaded
)

// asker asks one engine what it is. It knows no other routes than those named here: others may wake a sleeping engine
// or load a model.
type asker struct {
	*prober
	base string
	key  hearth.Secret
}

// page asks for a page and decodes it; ok is false for an answer that says nothing. The error is of the network or a
// *refusedError.
func (a asker) page(ctx context.Context, path string, into any) (ok bool, err error) {
	status, body, err := a.whole(ctx, path)
	return err == nil && status == http.StatusOK && decode(body, into) == nil, err
}

// whole asks for a page; one that is too long says nothing.
func (a asker) whole(ctx context.Context, path string) (status int, body []byte, err error) {
	status, body, err = a.get(ctx, a.base+path, a.key)
	if errors.Is(err, errTooLong) {
		return status, nil, nil
	}
	return status, body, err
}

// decode reads what an engine wrote: doubtful JSON is taken for what it says, and other kinds of values than expected
// are as good as absent.
func decode(body []byte, into any) error {
	return json.Unmarshal(body, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// list asks which models the engine has; ok is false if it does not say.
func (a asker) list(ctx context.Context, kind string) (models []offer, ok bool, err error) {
	switch kind {
	case tabbyAPI:
		return a.tabby(ctx)
	case lmStudio:
		if models, ok, err = a.studio(ctx); ok || err != nil {
			return models, ok, err
		}
	}
	var page struct {
		Data list[listed] `json:"data"`
	}
	if ok, err = a.page(ctx, "/v1/models", &page); !ok {
		return nil, false, err
	}
	for _, m := range page.Data {
		models = append(models, m.offer())
	}
	return models, true, nil
}

// listed is one entry of GET /v1/models.
type listed struct {
	ID      text       `json:"id"`
	Aliases list[text] `json:"aliases"`
	OwnedBy text       `json:"owned_by"`
	Max     count      `json:"max_model_len"` // vLLM, SGLang
	Meta    struct {
		Window count `json:"n_ctx"` // llama-server
	} `json:"meta"`
	Status struct { // of a llama-server that is a router
		Value  text `json:"value"`
		Failed flag `json:"failed"`
	} `json:"status"`
}

func (l listed) offer() offer {
	o := offer{names: []string{string(l.ID)}, kind: owners[strings.ToLower(string(l.OwnedBy))], window: int(max(l.Max, l.Meta.Window))}
	for _, alias := range l.Aliases {
		if alias != l.ID {
			o.names = append(o.names, string(alias))
		}
	}
	if o.kind == "" && l.Meta.Window > 0 {
		o.kind = llamaServer
	}
	switch o.failed = bool(l.Status.Failed); l.Status.Value {
	case "":
	case "loaded", "sleeping": // one that sleeps is awake as soon as it is asked something
		o.state = loaded
	default:
		o.state, o.idle = unloaded, l.Status.Value == "unloaded" || l.Status.Value == "failed"
	}
	return o
}

// more asks what the list does not say of a model.
func (a asker) more(ctx context.Context, kind string, m *offer) error {
	switch {
	case kind == llamaServer:
		return a.props(ctx, m)
	case kind == ollama, kind == "" && m.window == 0:
		return a.running(ctx, m)
	}
	return nil
}

// props asks a llama-server. One that is a router answers for the model, and is told not to load it for that.
func (a asker) props(ctx context.Context, m *offer) error {
	path := "/props"
	if m.state != unsaid {
		if m.state == unloaded {
			return nil
		}
		path += "?" + url.Values{"model": {m.names[0]}, "autoload": {"false"}}.Encode()
	}
	var page struct {
		Slots    count `json:"total_slots"`
		Alias    text  `json:"model_alias"`
		Settings struct {
			Window count `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	ok, err := a.page(ctx, path, &page)
	if !ok {
		return err
	}
	m.parallel = int(page.Slots)
	if page.Settings.Window > 0 {
		m.window = int(page.Settings.Window)
	}
	return nil
}

// running asks an Ollama which models it has in memory. It lists none while it loads one.
func (a asker) running(ctx context.Context, m *offer) error {
	var page struct {
		Models list[struct {
			Name   text  `json:"name"`
			Model  text  `json:"model"`
			Window count `json:"context_length"`
		}] `json:"models"`
	}
	ok, err := a.page(ctx, "/api/ps", &page)
	if !ok {
		return err
	}
	m.kind, m.state = ollama, unloaded
	for _, r := range page.Models {
		if sameName(string(r.Name), m.names[0]) || sameName(string(r.Model), m.names[0]) {
			m.state, m.window = loaded, int(r.Window)
		}
	}
	return nil
}

// studio asks an LM Studio; ok is false for one that is too old to say more than /v1/models does.
func (a asker) studio(ctx context.Context) (models []offer, ok bool, err error) {
	var page struct {
		Models list[studioModel] `json:"models"`
	}
	if ok, err = a.page(ctx, "/api/v1/models", &page); !ok || page.Models == nil {
		return nil, false, err
	}
	for _, m := range page.Models {
		o := offer{names: []string{string(m.Key)}, kind: lmStudio, state: unloaded}
		for _, i := range m.Instances {
			o.state, o.instances = loaded, append(o.instances, string(i.ID))
			if i.ID != m.Key {
				o.names = append(o.names, string(i.ID))
			}
			if w := int(i.Config.Window); o.window == 0 || w > 0 && w < o.window {
				o.window = w
			}
			o.parallel = int(i.Config.Parallel)
		}
		models = append(models, o)
	}
	return models, true, nil
}

type studioModel struct {
	Key       text `json:"key"`
	Instances list[struct {
		ID     text `json:"id"`
		Config struct {
			Window   count `json:"context_length"`
			Parallel count `json:"parallel"`
		} `json:"config"`
	}] `json:"loaded_instances"`
}

// tabby asks a TabbyAPI for the one model that answers, whatever a request names. Its list is of what lies on the disk.
func (a asker) tabby(ctx context.Context) (models []offer, ok bool, err error) {
	var page struct {
		ID     text `json:"id"`
		Params struct {
			Window   count `json:"max_seq_len"`
			Parallel count `json:"max_batch_size"`
		} `json:"parameters"`
	}
	status, body, err := a.whole(ctx, "/v1/model")
	switch {
	case err != nil:
		return nil, false, err
	case status == http.StatusServiceUnavailable || status == http.StatusBadRequest: // no model is loaded
		return nil, true, nil
	case status == http.StatusOK && decode(body, &page) == nil && page.ID != "":
		return []offer{{names: []string{string(page.ID)}, kind: tabbyAPI, state: loaded, window: int(page.Params.Window), parallel: int(page.Params.Parallel)}}, true, nil
	}
	return nil, false, nil
}

// sameName compares names as engines do that add ":latest" and take no care of case.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(strings.ToLower(a), ":latest"), strings.TrimSuffix(strings.ToLower(b), ":latest"))
}

// Values of an engine's answer. What is of another kind, or out of bounds, is as if it were not there.
type (
	count       int    // 1 to maxCount, else 0
	text        string // at most maxText bytes, else ""
	flag        bool
	list[T any] []T
)

const (
	maxCount = 1_000_000_000
	maxText  = 512
)

func (c *count) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if n, bad := strconv.ParseFloat(string(v), 64); err == nil && bad == nil && v.Kind() == '0' && n >= 1 && n <= maxCount {
		*c = count(n)
	}
	return err
}

func (t *text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err == nil && v.Kind() == '"' {
		if b, bad := jsontext.AppendUnquote(nil, v); bad == nil && len(b) <= maxText {
			*t = text(b)
		}
	}
	return err
}

func (f *flag) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	*f = err == nil && v.Kind() == 't'
	return err
}

func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	var items []jsontext.Value
	if err != nil || v.Kind() != '[' || decode(slices.Clone(v), &items) != nil {
		return err // nil for what is no list
	}
	*l = make([]T, 0, len(items))
	for _, item := range items {
		var one T
		if decode(item, &one) == nil {
			*l = append(*l, one)
		}
	}
	return nil
}
