package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	const slot = "{name: s, model: x/a, command: [e, \"${port}\"], context: 8192, concurrency: 1, price: {prompt: 1, completion: 1}"
	const offer = "{model: x/a, context: 8192, price: {prompt: 1, completion: 1}"
	const provider = "{slug: p, base_url: 'https://p.example/v1', api_key: '${env:KEY}', models: [" + offer + "}]}"
	whole := func(slot, provider string) string {
		return "default_model: x/a\nnodes: [{name: n, slots: [" + slot + "}]}]\nproviders: [" + provider + "]\n"
	}
	with := func(old, replacement string) string {
		p := strings.Replace(provider, old, replacement, 1)
		if p == provider {
			t.Fatalf("%q is not in the sample", old)
		}
		return whole(slot, p)
	}
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing to say", whole(slot, provider), nil},
		{"nothing served", "listen: 127.0.0.1:1\n", []string{"x: serves no model"}},
		{"no providers", "default_model: x/a\nnodes: [{name: n, slots: [" + slot + "}]}]\n", []string{"x: providers: is empty: a request that no slot can take fails"}},
		{"no nodes, no default model", "providers: [" + provider + "]\n", []string{
			"x: nodes: is empty: every request goes to an external provider",
			"x: default_model: is not set: a request that names no model is refused",
		}},
		{"open to the network", "listen: ':8800'\n" + whole(slot, provider), []string{"x:1: listen: serves other machines without TLS"}},
		{"node without slots", "default_model: x/a\nnodes: [{name: n, slots: [" + slot + "}]}, {name: m}]\nproviders: [" + provider + "]\n",
			[]string{"x:2: nodes[1]: has no slots"}},
		{"bare slot", whole("{name: s, model: x/a, command: [e, \"${port}\"]", provider), []string{
			"x:2: nodes[0].slots[0].price: is not set: this slot costs nothing",
			"x:2: nodes[0].slots[0].context: is not set",
			"x:2: nodes[0].slots[0].concurrency: is not set",
		}},
		{"another program's placeholder", whole(strings.Replace(slot, "[e, \"${port}\"]", "[e, \"${PORT}\"], port: 9, env: {M: \"${MODEL}\"}", 1), provider), []string{
			"x:2: nodes[0].slots[0].command[1]: holds ${PORT}, which is not replaced; write ${port}",
			"x:2: nodes[0].slots[0].env.M: holds ${MODEL}, which is not replaced; write ${model}",
		}},
		{"an engine that says how much it works on at once", whole(strings.Replace(slot, "concurrency: 1", "engine: llama-server", 1), provider), nil},
		{"a preset that does", whole(strings.Replace(strings.Replace(slot, "concurrency: 1", "driver: http, url: 'http://127.0.0.1:9', preset: llama-server", 1), "command: [e, \"${port}\"], ", "", 1), provider), nil},
		{"an engine that does not say it", whole(strings.Replace(slot, "concurrency: 1", "engine: vllm", 1), provider), []string{"x:2: nodes[0].slots[0].concurrency: is not set"}},
		{"a command that says how much its engine works on at once", whole(strings.Replace(strings.Replace(slot, "concurrency: 1", "engine: vllm", 1), "\"${port}\"]", "\"${port}\", --max-num-seqs, \"16\"]", 1), provider), nil},
		{"placeholders of actions", whole(strings.Replace(slot, "command: [e, \"${port}\"]", "driver: http, url: 'http://127.0.0.1:9', start: {url: '/${name}', body: '${model}'}, stop: {url: /x, headers: {A: '${key}'}}", 1), provider), []string{
			"x:2: nodes[0].slots[0].start.url: holds ${name}, which is not replaced; write ${model} or ${env:NAME}",
			"x:2: nodes[0].slots[0].stop.headers.A: holds ${key}, which is not replaced",
		}},
		{"placeholders of commands", whole(strings.Replace(slot, "command: [e, \"${port}\"]", "driver: command, url: 'http://127.0.0.1:9', env: {A: '${A}'}, start: {command: [a, '${port}']}, stop: {command: [a]}", 1), provider), []string{
			"x:2: nodes[0].slots[0].start.command[1]: holds ${port}, which is not replaced; write ${model} or ${env:NAME}",
		}},
		{"a docker daemon on the network", whole(strings.Replace(slot, "command: [e, \"${port}\"]", "driver: docker, url: 'http://127.0.0.1:9', container: c, docker: 'http://gpu:2375'", 1), provider), []string{
			"x:2: nodes[0].slots[0].docker: is not encrypted",
		}},
		{"a docker daemon of this machine", whole(strings.Replace(slot, "command: [e, \"${port}\"]", "driver: docker, url: 'http://127.0.0.1:9', container: c, docker: 'http://127.0.0.1:2375'", 1), provider), nil},
		{"tokens in the file", "node_server: {token: sk-0123456789abcdef}\n" + strings.Replace(whole("{name: s, model: x/a, context: 8192, price: {prompt: 1, completion: 1}", provider), "{name: n,", "{name: n, url: 'https://gpu', token: sk-literal,", 1), []string{
			"x:1: node_server.token: stands in the file itself; write ${env:NAME}, or use token_file",
			"x:3: nodes[0].token: stands in the file itself; write ${env:NAME}, or use token_file",
		}},
		{"provider before the slot", with("context: 8192", "context: 8192, priority: 0"), []string{"x:3: providers[0].models[0].priority: puts this provider before or beside an own slot"}},
		{"disabled provider before the slot", with("context: 8192", "context: 8192, disabled: true, priority: 0"), nil},
		{"bare offer", with(offer, "{model: x/a"), []string{
			"x:3: providers[0].models[0].price: is not set: callers pay nothing for it",
			"x:3: providers[0].models[0].context: is not set",
		}},
		{"a negative margin for one model", with("context: 8192", "context: 8192, margin: -1%"), []string{"x:3: providers[0].models[0].margin: is negative: calls are billed below cost"}},
		{"a reported price without a list", with("price: {prompt: 1, completion: 1}", "price: reported"), []string{"x:3: providers[0].models[0].price: has no list beside reported"}},
		{"a reported price with a list", with("price: {prompt: 1, completion: 1}", "price: {reported: true, prompt: 1, completion: 0}"), nil},
		{"precisions nobody can ask for", whole(slot+", quantization: Q4_K_M", strings.Replace(provider, "context: 8192", "context: 8192, quantization: awq", 1)), []string{
			"x:2: nodes[0].slots[0].quantization: is not a word that callers can ask for",
			"x:3: providers[0].models[0].quantization: is not a word that callers can ask for",
		}},
		{"precisions in any case", whole(slot+", quantization: INT4", strings.Replace(provider, "context: 8192", "context: 8192, quantization: unknown", 1)), nil},
		{"nothing to learn", with("slug: p", "slug: p, on_abort: settle, no_stream_options: true"), []string{"x:3: providers[0].no_stream_options: leaves on_abort: settle nothing to learn"}},
		{"nothing to learn by the top of the file", "on_abort: settle\n" + with("slug: p", "slug: p, no_stream_options: true"), []string{"x:4: providers[0].no_stream_options: leaves on_abort: settle nothing to learn"}},
		{"nothing to be learned", "on_abort: settle\n" + with("slug: p", "slug: p, no_stream_options: true, on_abort: cancel"), nil},
		{"no key", with("api_key: '${env:KEY}', ", ""), []string{"x:3: providers[0].api_key: is not set"}},
		{"key in the file", with("${env:KEY}", "sk-literal"), []string{"x:3: providers[0].api_key: stands in the file itself"}},
		{"not encrypted", with("https:", "http:"), []string{"x:3: providers[0].base_url: is not encrypted"}},
		{"not encrypted, on this machine", with("https://p.example", "http://127.0.0.1:9"), nil},
		{"provider without models", with("["+offer+"}]", "[]"), []string{"x:3: providers[0]: serves no model"}},
		{"name used twice", whole(slot, provider+", "+strings.Replace(provider, "slug: p", "slug: q, name: p", 1)), []string{"x:3: providers[1].name: is also the name of provider p"}},
		{"negative margins", "margin: -1%\n" + with("slug: p", "slug: p, margin: -0.05"), []string{
			"x:1: margin: is negative: calls are billed below cost at every provider without a margin of its own",
			"x:4: providers[0].margin: is negative: calls are billed below cost",
		}},
		{"margins of nothing and more", "margin: 0\n" + with("slug: p", "slug: p, margin: 5%"), nil},
		{"model served nowhere", "models: [{id: x/b}]\n" + whole(slot, provider), []string{"x:1: models[0]: is served by no slot and no provider"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Parse("x", []byte(tc.text), only(map[string]string{"KEY": "sk-env"}), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, w := range c.Warnings() {
				text := w.String()
				if strings.Contains(text, "sk-") {
					t.Errorf("a warning shows a key: %s", text)
				}
				if i < len(tc.want) && strings.HasPrefix(text, tc.want[i]) {
					text = tc.want[i]
				}
				got = append(got, text)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("warnings (-want +got):\n%s", d)
			}
		})
	}
}
