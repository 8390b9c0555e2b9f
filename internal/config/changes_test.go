package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const before = `
currency: KRW
exchange_rates: {USD: 1390}
aliases: {old: a/b, same: a/b}
nodes:
  - name: gpu-1
    slots:
      - {name: one, model: a/b, command: [run, "${port}"], price: {prompt: 0.10, completion: 1}}
      - {name: two, model: a/c, command: [run, "${port}"], env: {KEY: secret-1}}
providers:
  - {slug: acme, base_url: "https://acme.example/v1", api_key: secret-1, models: [{model: a/b}, {model: a/b, variant: fp8}, {model: a/c}]}
  - {slug: beta, base_url: "https://beta.example/v1", api_key: k, models: [{model: a/b}]}
`

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	files := map[string]string{"/run/key": "from-a-file"}
	c, err := Parse("/etc/hearth.yaml", []byte(text), nil, func(name string) ([]byte, error) { return []byte(files[name]), nil })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfig_Follow(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edits []string
		want  []string
	}{
		{"nothing", nil, nil},
		{"written otherwise", []string{"0.10", "0.1", "[run, \"${port}\"], env", "['run', \"${port}\"], env", "currency: KRW", "currency: KRW\nnode_server:"}, nil},
		{"plain keys", []string{"currency: KRW", "currency: KRW\ndefault_model: a/b\nrequest: {max_body: 1MiB}\nmargin: 5%"},
			[]string{"default_model changed", "margin changed", "request.max_body changed"}},
		{"members of a map", []string{"{old: a/b, same: a/b}", "{same: a/c, new: a/b}", "{USD: 1390}", "{USD: 1390.0, EUR: 1500}"},
			[]string{"aliases.new added", "aliases.old removed", "aliases.same changed", "exchange_rates.EUR added"}},
		{"a price", []string{"completion: 1}", "completion: 2}"}, []string{"nodes.gpu-1.slots.one.price.completion changed"}},
		{"no price", []string{", price: {prompt: 0.10, completion: 1}", ""}, []string{"nodes.gpu-1.slots.one.price removed"}},
		{"a kind of price", []string{"completion: 1}", "completion: 1, cache_read: 3}"}, []string{"nodes.gpu-1.slots.one.price.cache_read added"}},
		{"price steps", []string{"completion: 1}", "completion: 1, steps: [{above: 5, prompt: 1}, {hours: '01:00-02:00', image: 1}]}", "{model: a/b}, {model: a/b, v", "{model: a/b, price: reported}, {model: a/b, v"},
			[]string{"nodes.gpu-1.slots.one.price.steps.above 5 added", "nodes.gpu-1.slots.one.price.steps.01:00-02:00 UTC added", "providers.acme.models.a/b.price added"}},
		{"a secret", []string{"api_key: secret-1", "api_key: secret-2", "KEY: secret-1", "KEY: secret-2"},
			[]string{"nodes.gpu-1.slots.two.env.KEY changed", "providers.acme.api_key changed"}},
		{"a key from a file", []string{"api_key: k", "api_key_file: /run/key"}, []string{"providers.beta.api_key changed", "providers.beta.api_key_file changed"}},
		{"other names", []string{"name: two", "name: three", "slug: beta", "slug: gamma"},
			[]string{"nodes.gpu-1.slots.two removed", "nodes.gpu-1.slots.three added", "providers.beta removed", "providers.gamma added"}},
		{"an offer", []string{"variant: fp8", "variant: fp8, priority: 3"}, []string{"providers.acme.models.a/b/fp8.priority changed"}},
		{"another order", []string{"{model: a/b}, {model: a/b, variant: fp8}", "{model: a/b, variant: fp8}, {model: a/b}"}, []string{"providers.acme.models reordered"}},
		{"what needs a restart", []string{"{USD: 1390}", "{EUR: 1}", "slug: acme", "slug: acme, currency: EUR", "slug: beta", "slug: beta, currency: EUR", "currency: KRW", "currency: USD\nlisten: \":1\"\ndata_dir: /x\nkey_prefix: sk-\nlocal: {port_range: 20000-20099, name: Us, lock_dir: /l}\nrecords: {durability: power, max_journal: 2GiB}"},
			[]string{"listen changed (restart)", "data_dir changed (restart)", "currency changed", "key_prefix changed (restart)",
				"exchange_rates.EUR added", "exchange_rates.USD removed", "local.name changed", "local.port_range changed (restart)", "local.lock_dir changed (restart)",
				"providers.acme.currency changed", "providers.beta.currency changed", "records.durability changed (restart)", "records.max_journal changed (restart)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, c := parsed(t, before), parsed(t, strings.NewReplacer(tc.edits...).Replace(before))
			listen := c.Listen
			next, changes := c.Follow(old)
			var got []string
			for _, x := range changes {
				s := x.String()
				if x.Restart {
					s += " (restart)"
				}
				if strings.Contains(s, "secret") {
					t.Errorf("%q tells a value", s)
				}
				got = append(got, s)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if next.Listen != old.Listen || next.DataDir != old.DataDir || next.KeyPrefix != old.KeyPrefix || !cmp.Equal(next.Records, old.Records) ||
				next.Local.PortRange != old.Local.PortRange || next.Local.LockDir != old.Local.LockDir || next.Local.Name != c.Local.Name || next.Currency != c.Currency || c.Listen != listen {
				t.Errorf("%+v holds", next)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	changes := []Change{{"a", "added", false}, {"listen", "changed", true}, {"b.c", "removed", false}}
	if got := Summary(changes, false) + " | " + Summary(changes, true); got != "a added, b.c removed | listen changed" {
		t.Error(got)
	}
}

// Secrets may change without the file: what they are read from is to be looked at as well.
func TestConfig_Files(t *testing.T) {
	c := parsed(t, strings.Replace(before, "api_key: k", "api_key_file: ../run/key", 1))
	if d := cmp.Diff([]string{"/run/key"}, c.Files()); d != "" {
		t.Error(d)
	}
}
