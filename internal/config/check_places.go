package config

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"myip.co.kr/hearth"
)

func (k *checker) slot(path string, n *Node, s *Slot) {
	if k.matches(path+".name", s.Name, placeName, "must be a plain name", "write letters, digits and . _ -, such as gemma") {
		k.unique(k.slots, s.Name, path+".name", "the slot name "+quote(s.Name))
		if s.Name == "events" { // GET /api/v1/slots/events is the stream of them
			k.add(path+".name", "is taken by a route of the gateway", "call the slot otherwise")
		}
	}
	if k.modelID(path+".model", s.Model) {
		id := localTag(n) + ":" + s.Model
		if first, ok := k.endpoints[id]; ok && n.Name != "" {
			k.add(path+".model", "is served by another slot of this node, on line "+strconv.Itoa(k.line(first)), "keep one slot for each model and node and raise its concurrency")
		} else {
			k.endpoints[id] = path + ".model"
		}
	}
	k.plain(path+".upstream_model", s.UpstreamModel, maxName)
	k.plain(path+".quantization", s.Quantization, 32)
	k.parameters(path+".parameters", s.Parameters)
	k.input(path+".input", s.Input)
	k.price(path+".price", s.Price, true)
	if u, err := url.Parse(s.Probe); err != nil || !strings.HasPrefix(s.Probe, "/") || u.Host != "" || len(s.Probe) > maxName {
		k.add(path+".probe", "must be a path", "write one that begins with /, such as /health")
	}
	if n.URL == "" {
		k.engine(path, s)
		k.slotDevices(path, n, s)
		k.keepWarm(path+".keep_warm", s.KeepWarm)
	} else {
		k.remoteSlot(path)
	}
}

func (k *checker) provider(path string, p *Provider) {
	if k.matches(path+".slug", p.Slug, slugText, "must be a slug, not "+quote(p.Slug), "write small letters, digits and -, such as acme") {
		if p.Slug == hearth.LocalSlug {
			k.add(path+".slug", "is the slug of the own GPU slots", "choose another")
		} else {
			k.unique(k.slugs, p.Slug, path+".slug", "the slug "+quote(p.Slug))
		}
	}
	k.plain(path+".name", p.Name, maxName)
	k.providerAddress(path, p)
	keyPath := path + ".api_key"
	if p.APIKeyFile != "" {
		keyPath = path + ".api_key_file"
	}
	k.secret(keyPath, p.APIKey)
	k.headers(path, p)
	k.currency(path+".currency", p.Currency)
	if _, ok := k.c.ExchangeRates[p.Currency]; !ok && p.Currency != k.c.Currency && !k.bad["exchange_rates"] && !k.bad["currency"] {
		k.add(path+".currency", "has no exchange rate: "+quote(p.Currency)+" to "+quote(k.c.Currency), "add exchange_rates: {"+p.Currency+": …}, the price of one "+p.Currency+" in "+k.c.Currency)
	}
	k.policy(path, p.DataCollection, p.ZDR)
	for i := range p.Models {
		k.offer(at(path+".models", i), p, &p.Models[i])
	}
}

func (k *checker) providerAddress(path string, p *Provider) {
	if p.BaseURL == "" {
		k.add(path+".base_url", "is missing", "write the address up to and including the version, such as https://openrouter.ai/api/v1")
	} else if u := k.address(path+".base_url", p.BaseURL); u != nil && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		k.add(path+".base_url", "ends with /chat/completions", "leave that out: it is added")
	}
	for key, text := range map[string]string{"privacy_url": p.PrivacyURL, "terms_url": p.TermsURL, "status_url": p.StatusURL} {
		if text != "" {
			k.address(path+"."+key, text)
		}
	}
}

// ownHeaders are set by the gateway or by HTTP itself.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Content-Type": true, "Content-Encoding": true, "Accept": true,
	"Accept-Encoding": true, "Connection": true, "Keep-Alive": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

func (k *checker) headers(path string, p *Provider) {
	for _, name := range sorted(p.Headers) {
		here := join(path+".headers", name)
		canonical := http.CanonicalHeaderKey(name)
		value := p.Headers[name].Reveal()
		switch {
		case !headerName.MatchString(name):
			k.add(here, "is not the name of a header", "write letters, digits and -")
		case ownHeaders[canonical]:
			k.add(here, "is a header the gateway sets itself", "remove it")
		case canonical == "Authorization" && p.APIKey != "":
			k.add(here, "stands beside api_key", "keep one of the two")
		case unsendable(value):
			k.add(here, "holds characters that cannot be sent in a header", "write plain text on one line")
		}
	}
}

func (k *checker) offer(path string, p *Provider, o *Offer) {
	variant := k.matches(path+".variant", o.Variant, slugText, "must be a slug, not "+quote(o.Variant), "write small letters, digits and -, such as fp8") || o.Variant == ""
	if k.modelID(path+".model", o.Model) && variant && p.Slug != "" {
		id := offerTag(p, o) + ":" + o.Model
		if first, ok := k.endpoints[id]; ok {
			k.add(path+".model", "stands twice at this provider, first on line "+strconv.Itoa(k.line(first)), "remove one, or tell them apart with variant")
		} else {
			k.endpoints[id] = path + ".model"
		}
	}
	k.plain(path+".upstream_model", o.UpstreamModel, maxName)
	k.plain(path+".quantization", o.Quantization, 32)
	k.parameters(path+".parameters", o.Parameters)
	k.input(path+".input", o.Input)
	k.price(path+".price", o.Price, false)
	k.plain(path+".flagged", o.Flagged, maxName)
	k.offerPolicy(path, p, o)
}
