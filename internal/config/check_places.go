package config

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"myip.co.kr/hearth"
)

func (k *checker) node(path string, n *Node) {
	if k.matches(path+".name", n.Name, placeName, "must be a plain name", "write letters, digits and . _ -, such as gpu-1") {
		k.unique(k.nodes, n.Name, path+".name", "the node name "+quote(n.Name))
	}
	for i := range n.Slots {
		k.slot(at(path+".slots", i), n, &n.Slots[i])
	}
}

func (k *checker) slot(path string, n *Node, s *Slot) {
	if k.matches(path+".name", s.Name, placeName, "must be a plain name", "write letters, digits and . _ -, such as gemma") {
		k.unique(k.slots, s.Name, path+".name", "the slot name "+quote(s.Name))
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
	if u, err := url.Parse(s.Probe); err != nil || !strings.HasPrefix(s.Probe, "/") || u.Host != "" || len(s.Probe) > maxName {
		k.add(path+".probe", "must be a path", "write one that begins with /, such as /health")
	}
	switch s.Driver {
	case "exec":
		k.execSlot(path, s)
	case "always":
		k.alwaysSlot(path, s)
	}
}

func (k *checker) execSlot(path string, s *Slot) {
	for key, given := range map[string]bool{"url": s.URL != "", "api_key": s.APIKey != "" && s.APIKeyFile == "", "api_key_file": s.APIKeyFile != "", "trust": k.given(path + ".trust")} {
		if given {
			k.add(path+"."+key, "is for slots with driver: always", "remove it, or set driver: always if somebody else runs the engine")
		}
	}
	if len(s.Command) == 0 || s.Command[0] == "" {
		k.add(path+".command", "is missing", "write the program that starts the engine and its arguments, or set driver: always and url")
	}
	port := s.Port != 0
	for i, arg := range s.Command {
		port = port || strings.Contains(arg, "${port}")
		if strings.ContainsRune(arg, 0) {
			k.add(at(path+".command", i), "holds a zero byte", "write plain text")
		}
	}
	for _, name := range sorted(s.Env) {
		value := s.Env[name].Reveal()
		port = port || strings.Contains(value, "${port}")
		here := join(path+".env", name)
		switch {
		case !envName.MatchString(name):
			k.add(here, "is not the name of an environment variable", "write letters, digits and _")
		case strings.HasPrefix(name, "HEARTH_"):
			k.add(here, "is one of the gateway's own variables", "choose a name that does not begin with HEARTH_")
		case strings.ContainsRune(value, 0):
			k.add(here, "holds a zero byte", "write plain text")
		}
	}
	if !port {
		k.add(path+".command", "does not tell the engine its port", `add an argument such as "--port", "${port}", or say in port which one it uses`)
	}
	if s.Port != 0 {
		k.port(path+".port", s.Port)
	}
}

func (k *checker) port(path string, port int) {
	if first, ok := k.ports[port]; ok {
		k.add(path, "is the port of another slot, on line "+strconv.Itoa(k.line(first)), "give each slot its own, or none: then a free one is found")
		return
	}
	k.ports[port] = path
	if _, listen, err := net.SplitHostPort(k.c.Listen); err == nil && listen == strconv.Itoa(port) {
		k.add(path, "is the port the gateway itself listens on", "choose another")
	}
}

func (k *checker) alwaysSlot(path string, s *Slot) {
	for key, given := range map[string]bool{"command": len(s.Command) > 0, "env": len(s.Env) > 0, "dir": s.Dir != "", "port": s.Port != 0} {
		if given {
			k.add(path+"."+key, "is for slots with driver: exec", "remove it, or remove driver: always if the gateway is to start the engine")
		}
	}
	k.secret(path+".api_key", s.APIKey)
	here := path + ".url"
	if s.URL == "" {
		k.add(here, "is missing", "write where the engine answers, such as http://127.0.0.1:11434")
		return
	}
	u := k.address(here, s.URL)
	if u == nil {
		return
	}
	if p := strings.TrimSuffix(u.Path, "/"); p == "/v1" || strings.HasSuffix(p, "/v1") {
		k.add(here, "ends with /v1", "leave /v1 out: it is added")
		return
	}
	host, lan := u.Hostname(), s.Trust == "lan"
	ip, err := netip.ParseAddr(host)
	switch {
	case isLoopback(host):
	case !lan:
		k.add(here, "is not on this machine", "add trust: lan if it is a machine of your own network, else describe it under providers")
	case err == nil && !hearth.OwnNetwork(ip):
		k.add(here, "is a public address, so a prompt would leave the house", "describe it under providers")
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// address checks a URL without repeating it: it may hold a password.
func (k *checker) address(path, text string) *url.URL {
	u, err := url.Parse(text)
	port := ""
	if err == nil {
		port = u.Port()
	}
	n, bad := strconv.Atoi(port)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || len(text) > 2000:
		k.add(path, "is not an address", "write it with http:// or https://")
	case port != "" && (bad != nil || n < 1 || n > 65535):
		k.add(path, "has a port that does not exist", "use 1 to 65535")
	case u.User != nil:
		k.add(path, "holds a user name or password", "put the key into api_key or headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		k.add(path, "holds a query or fragment", "leave out everything from ? or # on")
	default:
		return u
	}
	return nil
}

// secret checks the form of a key without repeating it.
func (k *checker) secret(path string, s hearth.Secret) {
	if strings.ContainsFunc(s.Reveal(), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }) {
		k.add(path, "holds characters that cannot be sent in a header", "check for line breaks and spaces inside the key")
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
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
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
	k.offerPolicy(path, p, o)
}
