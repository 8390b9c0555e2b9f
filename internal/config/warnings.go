package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Warnings lists what is allowed but worth a second look, in file order. hearth check prints them.
func (c *Config) Warnings() []Problem {
	w := &warner{c: c, report: report{origin: c.origin, bad: map[string]bool{}}}
	w.general()
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if len(n.Slots) == 0 {
			w.add(at("nodes", i), "has no slots", "add slots or remove the node")
		}
		w.literalKey(at("nodes", i) + ".token")
		w.shared(at("nodes", i), n)
		for j := range n.Slots {
			w.slot(at(at("nodes", i)+".slots", j), n, &n.Slots[j])
		}
	}
	w.literalKey("node_server.token")
	for i := range c.Providers {
		w.provider(at("providers", i), &c.Providers[i])
	}
	w.unserved()
	w.sort()
	return w.list
}

type warner struct {
	report
	c *Config
}

func (w *warner) general() {
	c := w.c
	if len(c.Nodes) == 0 && len(c.Providers) == 0 {
		w.add("", "serves no model", "add nodes with slots, or providers")
		return
	}
	if len(c.Nodes) == 0 {
		w.add("nodes", "is empty: every request goes to an external provider", "")
	}
	if len(c.Providers) == 0 {
		w.add("providers", "is empty: a request that no slot can take fails", "add a provider as a fallback")
	}
	if c.DefaultModel == "" {
		w.add("default_model", "is not set: a request that names no model is refused", "")
	}
	w.content("records.content", &c.Records.Content)
	if c.Margin.IsNegative() {
		w.add("margin", "is negative: calls are billed below cost at every provider without a margin of its own", "")
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && !isLoopback(host) {
		w.add("listen", "serves other machines without TLS: keys and prompts cross the network in the clear", "put a TLS proxy in front")
	}
}

func (w *warner) slot(path string, n *Node, s *Slot) {
	if s.Price == nil {
		w.add(path+".price", "is not set: this slot costs nothing", "write price: {prompt: 0, completion: 0} if that is meant")
	}
	if s.Context == 0 {
		w.add(path+".context", "is not set: prompts that do not fit are sent all the same", "write the engine's context window in tokens")
	}
	if !w.given(path+".concurrency") && s.concurrency() == 0 && orElse(s.Engine, s.Preset) != "llama-server" && n.URL == "" { // that one says it itself
		w.add(path+".concurrency", "is not set: unless the engine says how many it takes, the slot works on one request at a time", "write the number of requests the engine serves in parallel")
	}
	w.hours(path, n, s)
	w.quantization(path, s.Quantization)
	w.literalKey(path + ".api_key")
	if u, err := url.Parse(s.Docker); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		w.add(path+".docker", "is not encrypted: who sees the network can command the daemon", "use https://, or a tunnel")
	}
	if s.Driver == "exec" {
		for i, arg := range s.Command {
			w.placeholder(at(path+".command", i), arg)
		}
		for _, name := range sorted(s.Env) {
			w.placeholder(join(path+".env", name), s.Env[name].Reveal())
		}
	}
	w.action(path+".start", s.Start)
	w.action(path+".stop", s.Stop)
	w.action(path+".status", s.Status)
}

// action notices what looks like a placeholder and is none; an action knows ${model} only.
func (w *warner) action(path string, a *Action) {
	if a == nil {
		return
	}
	texts := map[string]string{path + ".url": a.URL, path + ".body": a.Body}
	for i, arg := range a.Command {
		texts[at(path+".command", i)] = arg
	}
	for name, v := range a.Headers {
		texts[join(path+".headers", name)] = v.Reveal()
	}
	for _, here := range sorted(texts) {
		for _, name := range placeholders.FindAllStringSubmatch(texts[here], -1) {
			if name[1] != "model" {
				w.add(here, "holds "+name[0]+", which is not replaced", "write ${model} or ${env:NAME}")
			}
		}
	}
}

// placeholder notices the spellings of ${port} that other programs use.
func (w *warner) placeholder(path, text string) {
	for _, other := range []string{"${PORT}", "$PORT", "{port}", "${MODEL}"} {
		if strings.Contains(text, other) && !strings.Contains(text, "${port}") {
			w.add(path, "holds "+other+", which is not replaced", "write "+map[bool]string{true: "${model}", false: "${port}"}[other == "${MODEL}"])
			return
		}
	}
	for _, name := range placeholders.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(replaced, name[1]) {
			w.add(path, "holds "+name[0]+", which is not replaced", "write ${port}, ${model}, ${api_key} or ${env:NAME}")
		}
	}
}

var (
	placeholders = regexp.MustCompile(`\$\{([^}]{1,64})\}`)
	replaced     = []string{"port", "model", "api_key"} // in commands and their environment
)

func (w *warner) provider(path string, p *Provider) {
	if p.NoStreamOptions && w.c.settle(p) > 0 {
		w.add(path+".no_stream_options", "leaves on_abort: settle nothing to learn: the provider's streams report no usage", "write on_abort: cancel")
	}
	if len(p.Models) == 0 {
		w.add(path, "serves no model", "add models or remove the provider")
	}
	if p.APIKey == "" && len(p.Headers) == 0 {
		w.add(path+".api_key", "is not set: requests are sent without a key", "write api_key: ${env:NAME} or api_key_file")
	}
	w.literalKey(path + ".api_key")
	if u, err := url.Parse(p.BaseURL); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		w.add(path+".base_url", "is not encrypted: the key and all prompts can be read on the way", "use https://")
	}
	if p.Margin != nil && p.Margin.IsNegative() {
		w.add(path+".margin", "is negative: calls are billed below cost", "")
	}
	for i := range w.c.Providers {
		other := &w.c.Providers[i]
		if other == p {
			break
		}
		if orElse(other.Name, other.Slug) == orElse(p.Name, p.Slug) {
			w.add(path+".name", "is also the name of provider "+other.Slug+": callers that name it mean both", "give each its own")
		}
	}
	for i := range p.Models {
		w.offer(at(path+".models", i), &p.Models[i])
	}
}

func (w *warner) offer(path string, o *Offer) {
	if o.Price == nil {
		w.add(path+".price", "is not set: callers pay nothing for it", "write the provider's price per 1,000,000 tokens")
	} else if p := o.Price; p.Reported && p.Prompt.IsZero() && p.Completion.IsZero() && p.Request.IsZero() {
		w.add(path+".price", "has no list beside reported: it counts as free where endpoints are sorted by price or bounded by max_price, and no key's limit holds there",
			"write {reported: true, prompt: …, completion: …}")
	}
	if o.Margin != nil && o.Margin.IsNegative() {
		w.add(path+".margin", "is negative: calls are billed below cost", "")
	}
	if o.Context == 0 {
		w.add(path+".context", "is not set: prompts that do not fit are sent all the same", "write the context window in tokens")
	}
	w.quantization(path, o.Quantization)
	if o.Disabled {
		return
	}
	last := -1
	for i := range w.c.Nodes {
		for _, s := range w.c.Nodes[i].Slots {
			if s.Model == o.Model && !s.Disabled {
				last = max(last, s.Priority)
			}
		}
	}
	if o.Priority <= last {
		w.add(path+".priority", "puts this provider before or beside an own slot with the same model", "raise it above the slot's priority if local comes first")
	}
}

// precisions are the words for the precision of weights that callers can ask for.
var precisions = []string{"int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown"}

func (w *warner) quantization(path, word string) {
	if word != "" && !slices.Contains(precisions, strings.ToLower(word)) {
		w.add(path+".quantization", "is not a word that callers can ask for: requests with quantizations skip it", "write one of: "+strings.Join(precisions, ", "))
	}
}

// literalKey notices a secret that stands in the file.
func (w *warner) literalKey(path string) {
	if w.literal[path] {
		key := path[strings.LastIndexByte(path, '.')+1:]
		w.add(path, "stands in the file itself", "write ${env:NAME}, or use "+key+"_file")
	}
}

// unserved notices models that are described but served nowhere.
func (w *warner) unserved() {
	var served []string
	for i := range w.c.Nodes {
		for _, s := range w.c.Nodes[i].Slots {
			served = append(served, s.Model)
		}
	}
	for i := range w.c.Providers {
		for _, o := range w.c.Providers[i].Models {
			served = append(served, o.Model)
		}
	}
	for i := range w.c.Models {
		if !slices.Contains(served, w.c.Models[i].ID) {
			w.add(at("models", i), "is served by no slot and no provider", "")
		}
	}
}
