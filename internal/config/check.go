package config

import (
	"errors"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"
	"myip.co.kr/hearth/internal/suggest"
)

// checker looks for what no single value can show to be wrong.
type checker struct {
	*report
	c *Config

	known     []string          // model ids, in the order of the catalog
	nodes     map[string]string // paths by name
	slots     map[string]string
	ports     map[int]string
	slugs     map[string]string
	rates     map[string]string // paths of sources, by currency
	endpoints map[string]string // paths by endpoint id
}

// reason is the part of a file error that holds no path.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return "reading failed"
}

var (
	modelID      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?$`)
	slugText     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	placeName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`)
	prefixText   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	aliasName    = regexp.MustCompile(`^[A-Za-z0-9~@][A-Za-z0-9._:/@~-]*$`)
)

// maxName bounds names, ids and addresses, in bytes.
const maxName = 200

// matches checks the form of a value; an empty one is somebody else's matter.
func (k *checker) matches(path, value string, form *regexp.Regexp, message, remedy string) bool {
	if value == "" {
		return false
	}
	if len(value) > maxName {
		k.add(path, "is longer than "+strconv.Itoa(maxName)+" characters", "shorten it")
		return false
	}
	if !form.MatchString(value) {
		k.add(path, message, remedy)
		return false
	}
	return true
}

// plain checks text that is shown to people or sent to an upstream.
func (k *checker) plain(path, value string, limit int) {
	if len(value) > limit {
		k.add(path, "is longer than "+strconv.Itoa(limit)+" characters", "shorten it")
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		k.add(path, "holds control characters", "write plain text on one line")
	}
}

// unique notes that name is used at path and reports a second use.
func (k *checker) unique(seen map[string]string, name, path, what string) {
	if first, ok := seen[name]; ok {
		k.add(path, what+" is used twice, first on line "+strconv.Itoa(k.line(first)), "give each its own")
		return
	}
	seen[name] = path
}

func (k *checker) check() {
	k.nodes, k.slots, k.ports = map[string]string{}, map[string]string{}, map[int]string{}
	k.slugs, k.endpoints, k.rates = map[string]string{}, map[string]string{}, map[string]string{}
	k.general()
	k.content("records.content", &k.c.Records.Content)
	k.money()
	for i := range k.c.Models {
		k.model(at("models", i), &k.c.Models[i])
	}
	k.plain("local.name", k.c.Local.Name, maxName)
	if k.c.Local.Name == "" {
		k.add("local.name", "is empty", "give a name or remove the line")
	}
	if _, ok := parsePorts(k.c.Local.PortRange); !ok {
		k.add("local.port_range", "must be a range of ports", "write the first and the last, from 1024 to 65535, such as 18100-18899")
	}
	k.nodeServer("node_server", k.c.NodeServer)
	for i := range k.c.Nodes {
		k.node(at("nodes", i), &k.c.Nodes[i])
	}
	for i := range k.c.Providers {
		k.provider(at("providers", i), &k.c.Providers[i])
	}
	k.known = k.c.modelIDs()
	k.names()
}

func (k *checker) general() {
	c := k.c
	if _, port, ok := hostPort(c.Listen); !ok {
		k.add("listen", "must be host:port", "write 127.0.0.1:8800, or :8800 for every network")
	} else {
		k.taken("listen", port)
	}
	if c.DataDir == "" {
		k.add("data_dir", "is empty", "name a directory or remove the line")
	}
	if _, err := time.LoadLocation(c.Timezone); err != nil || c.Timezone == "" {
		k.add("timezone", "is not a known time zone", "write an IANA name such as Asia/Seoul, or UTC")
	}
	k.prefix("headers_prefix", c.HeadersPrefix, headerName, "letters, digits and -, not at the ends, such as X-MyIP")
	k.prefix("generation_prefix", c.GenerationPrefix, prefixText, "letters, digits, - and _, such as gen-")
	k.prefix("key_prefix", c.KeyPrefix, prefixText, "letters, digits, - and _, such as sk-myip-")
	for i, o := range c.CORSOrigins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || o != u.Scheme+"://"+u.Host) {
			k.add(at("cors_origins", i), "is not a web origin", `write scheme and host without a path, such as https://chat.example.com, or "*"`)
		}
	}
	if c.EarlyHeaders > 0 && c.EarlyHeaders < time.Second {
		k.add("early_headers", "is shorter than a second", "write 0s for never, or at least 1s: most answers should come with headers that name who answered")
	}
	if age := c.Records.MaxAge; age > 0 && age < 24*time.Hour {
		k.add("records.max_age", "is shorter than a day", "write 0s for ever, or at least 24h: callers look for what their request became")
	}
	if size := c.Records.MaxSize; size > 0 && size < 64<<20 {
		k.add("records.max_size", "is too small for a database", "write 0 for no bound, or at least 64MiB")
	}
	if !c.ExternalLimit.Amount.Equal(c.ExternalLimit.Amount.Truncate(9)) {
		k.add("external_limit.amount", "has more than nine decimals", "round it")
	}
	if c.Request.MaxBody > c.Request.MaxBodyTotal {
		k.add("request.max_body_total", "is smaller than max_body, so the largest body could never be read", "raise it to at least max_body")
	}
}

func (k *checker) prefix(path, value string, form *regexp.Regexp, remedy string) {
	if !form.MatchString(value) || len(value) > 32 {
		k.add(path, "must be a short word", "write up to 32 "+remedy)
	}
}

func (k *checker) money() {
	c := k.c
	k.currency("currency", c.Currency)
	for _, code := range sorted(c.ExchangeRates) {
		path := join("exchange_rates", code)
		k.currency(path, code)
		if code == c.Currency && !c.ExchangeRates[code].Equal(decimal.New(1, 0)) {
			k.add(path, "is the billing currency itself", "remove the line: rates say what one unit of another currency costs in "+code)
		}
	}
	if shown := c.API.Currency; shown != "" {
		k.currency("api.currency", shown)
		if _, ok := c.ExchangeRates[shown]; !ok && shown != c.Currency && !k.bad["exchange_rates"] && !k.bad["currency"] {
			k.add("api.currency", "has no exchange rate: "+quote(shown)+" to "+quote(c.Currency), "add exchange_rates: {"+shown+": …}, the price of one "+shown+" in "+c.Currency)
		}
	}
	for i := range c.ExchangeSources {
		k.source(at("exchange_sources", i), &c.ExchangeSources[i])
	}
}

func (k *checker) currency(path, code string) {
	if !currencyCode.MatchString(code) {
		k.add(path, "must be a currency code", "write three capital letters, such as KRW or USD")
	}
}

func (k *checker) model(path string, m *Model) {
	k.modelID(path+".id", m.ID)
	for i := range k.c.Models {
		if other := &k.c.Models[i]; other == m {
			break
		} else if other.ID == m.ID && m.ID != "" {
			k.add(path+".id", "stands twice in models, first on line "+strconv.Itoa(k.line(at("models", i)+".id")), "remove one of them")
		}
	}
	k.plain(path+".name", m.Name, maxName)
	if len(m.Description) > 4000 {
		k.add(path+".description", "is longer than 4000 characters", "shorten it")
	}
	k.input(path+".input", m.Input)
}

func (k *checker) modelID(path, id string) bool {
	return k.matches(path, id, modelID, "must be a model id, not "+quote(id),
		"write author/slug, such as google/gemma-4-26b-a4b: letters, digits, dots, - and _, with :suffix at the end if needed")
}

// names checks what refers to models, after all of them are known.
func (k *checker) names() {
	if k.c.DefaultModel != "" {
		k.refers("default_model", k.c.DefaultModel)
	}
	for _, alias := range sorted(k.c.Aliases) {
		path := join("aliases", alias)
		if len(alias) > maxName || !aliasName.MatchString(alias) {
			k.add(path, "is not a name callers could send", "write letters, digits and . _ - : / only, at most 200")
		}
		if slices.Contains(k.known, alias) {
			k.add(path, "hides the model of the same name", "choose another name or remove the alias")
		}
		k.refers(path, k.c.Aliases[alias])
	}
}

// refers checks that name is a known model. If a part of the file that could define it is broken, nothing can be
// said.
func (k *checker) refers(path, name string) {
	if slices.Contains(k.known, name) || k.modelsUnsure() {
		return
	}
	if to, ok := k.c.Aliases[name]; ok && path != "default_model" {
		k.add(path, "names another alias", "name the model itself: "+quote(to))
		return
	}
	near := suggest.Nearest(name, k.known, 1)
	switch {
	case name == "":
		k.add(path, "names no model", "write the id of a model")
	case len(near) > 0:
		k.add(path, "names no model that a slot or a provider serves: "+quote(name), "did you mean "+near[0]+"?")
	case len(k.known) == 0:
		k.add(path, "names a model, but the file has none", "add a slot or a provider that serves it")
	default:
		k.add(path, "names no model that a slot or a provider serves: "+quote(name), "known models: "+strings.Join(k.known[:min(5, len(k.known))], ", "))
	}
}

// modelsUnsure says whether a broken part of the file may hold further models.
func (k *checker) modelsUnsure() bool {
	for path := range k.bad {
		switch {
		case path == "nodes" || path == "providers" || path == "models":
			return true
		case strings.HasSuffix(path, "]") || strings.HasSuffix(path, ".slots") || strings.HasSuffix(path, ".models"):
			return true
		case strings.HasSuffix(path, "].model") || strings.HasSuffix(path, "].id"):
			return true
		}
	}
	return false
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
