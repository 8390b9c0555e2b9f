package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// nodes runs a gateway whose nodes are written there, before a provider that has these models too.
func nodes(t testing.TB, text string, models ...string) *gateway {
	t.Helper()
	return launch(t, func(acme string) string {
		config := fmt.Sprintf(`currency: KRW
exchange_rates: {USD: 1390}
data_dir: data
local: {name: %s}
default_model: %s
shutdown: {lame_duck: 0s, grace: 5s}
nodes:
%sproviders:
  - slug: acme
    name: Acme AI
    base_url: http://%s/v1
    models:
`, local, gemma, text, acme)
		for _, m := range models {
			config += fmt.Sprintf("      - {model: %s, context: 131072, price: {prompt: 0.06, completion: 0.24}}\n", m)
		}
		return config
	})
}

const alone = "  - {name: gpu-1, turn: 200ms, min_resident: 0s, slots: [\n%s    ]}\n" // an exclusive node

// place is a slot in a list of them, for two requests at once if more does not say otherwise.
func place(name, model, command, more string) string {
	if !strings.Contains(more, "concurrency:") {
		more += ", concurrency: 2"
	}
	return fmt.Sprintf("      {name: %s, model: %s, command: %s, context: 32768, expected_load: 1s, stop_grace: 200ms, price: {prompt: 30, completion: 150}%s},\n", name, model, command, more)
}

// gate holds an engine back before it begins to load.
type gate string

func newGate(t testing.TB) gate { return gate(filepath.Join(t.TempDir(), "open")) }

func (g gate) open(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(string(g), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// line is the command of a model's engine behind the gate.
func (g gate) line(t testing.TB, model string, more ...string) string {
	t.Helper()
	var args []string
	if err := json.Unmarshal([]byte(engineLine(t, model, more)), &args); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(append([]string{"sh", "-c", `until [ -e "$0" ]; do sleep 0.01; done; exec "$@"`, string(g)}, args...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// quick is the command of an engine that loads at once.
func quick(t testing.TB, model string, more ...string) string {
	return engineLine(t, model, append([]string{"--load", "0s"}, more...))
}

// both asks for Exaone or Gemma.
func both(more string) string {
	return fmt.Sprintf(`{"models": [%q, %q], "messages": [{"role": "user", "content": "hi"}]%s}`, exaone, gemma, more)
}

// asked is a request on its way.
func (g *gateway) asked(body string, header ...string) <-chan reply {
	got := make(chan reply, 1)
	go func() { got <- g.chat(body, header...) }()
	return got
}

// tried is what a record says of one candidate.
type tried struct {
	Status   any    `json:"status"`
	Model    string `json:"model_permaslug"`
	Provider string `json:"provider_name"`
	SlotWait int    `json:"slot_wait"`
	Message  string `json:"message"`
}

// attempts fails the test unless the record of an answer says that these candidates were tried or skipped, each a model and
// what became of it. It returns what else the record says of them.
func (g *gateway) attempts(r reply, want ...string) []tried {
	g.t.Helper()
	var doc struct {
		Data struct {
			Responses []tried `json:"provider_responses"`
			Model     string  `json:"model"`
		} `json:"data"`
	}
	rec := g.call("GET", "/generation?id="+r.header.Get("X-Generation-Id"), "")
	if err := json.Unmarshal([]byte(rec.body), &doc); err != nil {
		g.t.Fatalf("%d %v %s", rec.status, err, rec.body)
	}
	var got []string
	for _, a := range doc.Data.Responses {
		got = append(got, fmt.Sprintf("%s %v", a.Model, a.Status))
	}
	if !slices.Equal(got, want) || r.status == 200 && doc.Data.Model != r.header.Get("X-MyIP-Model") {
		g.t.Fatalf("the record of an answer by %q has %q\n%s", r.header.Get("X-MyIP-Model"), got, rec.body)
	}
	return doc.Data.Responses
}

// loading fails the test unless nobody could serve and the caller was told when to come again.
func (g *gateway) loading(r reply) {
	g.t.Helper()
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusServiceUnavailable || err != nil || after < 1 || !strings.Contains(r.body, `"type":"model_loading"`) {
		g.t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
}

// Local candidates side by side on one node are one wait.
func TestBothLocal(t *testing.T) {
	t.Parallel()
	t.Run("the first is asked for, the other is not started", func(t *testing.T) {
		t.Parallel()
		slow := newGate(t)
		g := nodes(t, fmt.Sprintf(alone, place("exaone", exaone, slow.line(t, exaone), "")+place("gemma", gemma, quick(t, gemma), "")), gemma)
		got := g.asked(both(""))
		g.until("it waits for the first", func() bool { s := g.slot("exaone"); return s.State == "starting" && s.Waiting == 1 })
		if s := g.slot("gemma"); s.State != "asleep" || s.Waiting != 0 {
			t.Errorf("gemma: %+v", s)
		}
		slow.open(t)
		r := <-got
		g.served(r, local, exaone)
		g.attempts(r, exaone+" 200")
		if s := g.slot("gemma"); s.State != "asleep" || s.Learned.Loads != 0 || len(g.engines()) != 1 {
			t.Errorf("gemma: %+v, engines %v", s, g.engines())
		}
	})
	t.Run("of two that take turns, the one that is ready first serves", func(t *testing.T) {
		t.Parallel()
		more := ", concurrency: 1, queue_wait: 1m, wait: 1m"
		g := nodes(t, fmt.Sprintf(alone, place("exaone", exaone, quick(t, exaone), more)+place("gemma", gemma, quick(t, gemma, "--tokens-per-second", "20"), more)), gemma)
		s := g.stream(ask(gemma, endless))
		s.next(t)
		either := g.asked(both(""))
		g.until("it waits for the one that is up", func() bool { return g.slot("gemma").Waiting == 1 })
		only := g.asked(ask(exaone, ""))
		g.until("the turn changes", func() bool { return g.slot("gemma").State == "draining" })
		s.resp.Body.Close()
		r := <-either
		g.served(r, local, exaone)
		g.attempts(r, gemma+" slot_busy", exaone+" 200")
		g.served(<-only, local, exaone)
		if g.engineOf(gemma) != 0 || g.acme.Seen().Requests != 0 {
			t.Errorf("engine of gemma %d, outside %d", g.engineOf(gemma), g.acme.Seen().Requests)
		}
	})
	t.Run("of two that have room beside each other, the one that is ready first serves, and the load of the first goes on", func(t *testing.T) {
		t.Parallel()
		slow := newGate(t)
		g := nodes(t, "  - {name: gpu-1, exclusive: false, devices: [{id: 0, memory: 24GiB}], slots: [\n"+
			place("exaone", exaone, slow.line(t, exaone), ", memory: 10GiB")+place("gemma", gemma, quick(t, gemma), ", memory: 10GiB")+"    ]}\n", gemma)
		got := g.asked(both(""))
		g.until("it waits for the first", func() bool { s := g.slot("exaone"); return s.State == "starting" && s.Waiting == 1 })
		g.served(g.chat(ask(gemma, "")), local, gemma)
		r := <-got
		g.served(r, local, gemma)
		if !strings.Contains(r.body, "I am "+gemma) {
			t.Errorf("another model made the answer: %s", r.body)
		}
		g.attempts(r, exaone+" slot_loading", gemma+" 200")
		before := g.engineOf(exaone)
		slow.open(t)
		g.until("the first is ready", func() bool { return g.status(exaone) == 0 })
		g.served(g.chat(both(""), "X-MyIP-Max-Wait", "0"), local, exaone)
		if now := g.engineOf(exaone); before == 0 || now != before {
			t.Errorf("engine of exaone %d, before %d", now, before)
		}
	})
}

// If none of the local candidates can serve in time somebody else does, or the caller comes again and finds warm what was
// started for it.
func TestBothLocal_InVain(t *testing.T) {
	t.Parallel()
	t.Run("neither is ready in time", func(t *testing.T) {
		t.Parallel()
		slow := newGate(t)
		g := nodes(t, fmt.Sprintf(alone, place("exaone", exaone, slow.line(t, exaone), "")+place("gemma", gemma, slow.line(t, gemma), "")), gemma)
		r := g.chat(both(""), "X-MyIP-Max-Wait", "0.3")
		g.served(r, "Acme AI", gemma)
		waits := g.attempts(r, exaone+" slot_loading", gemma+" slot_busy", gemma+" 200")
		if waits[0].SlotWait < 300 || waits[1].SlotWait >= waits[0].SlotWait {
			t.Errorf("one budget of 300 ms was waited for %d and %d ms", waits[0].SlotWait, waits[1].SlotWait)
		}
		r = g.chat(both(onlyLocal), "X-MyIP-Max-Wait", "0.1")
		g.loading(r)
		g.attempts(r, exaone+" slot_loading", gemma+" slot_busy")
		started := g.engines()
		slow.open(t)
		g.until("the load goes on", func() bool { return g.status(exaone) == 0 })
		r = g.chat(both(onlyLocal), "X-MyIP-Max-Wait", "0")
		g.served(r, local, exaone)
		g.attempts(r, exaone+" 200")
		if now := g.engines(); len(started) != 1 || !slices.Equal(now, started) {
			t.Errorf("engines %v, before %v", now, started)
		}
	})
	t.Run("neither can be started", func(t *testing.T) {
		t.Parallel()
		broken := func(model string) string { return engineLine(t, model, []string{"--fail-start"}) }
		g := nodes(t, fmt.Sprintf(alone, place("exaone", exaone, broken(exaone), "")+place("gemma", gemma, broken(gemma), "")), gemma)
		r := g.chat(both(""))
		g.served(r, "Acme AI", gemma)
		g.attempts(r, exaone+" slot_failed", gemma+" slot_failed", gemma+" 200")
		r = g.chat(both(onlyLocal))
		g.loading(r)
		if !strings.Contains(r.body, "slot_failed") {
			t.Errorf("%s", r.body)
		}
	})
}

// Local candidates on two nodes are asked one after the other, all within one budget.
func TestBothLocal_TwoNodes(t *testing.T) {
	t.Parallel()
	a, b := newGate(t), newGate(t)
	g := nodes(t, fmt.Sprintf(alone, place("exaone", exaone, a.line(t, exaone), ", wait: 1s"))+
		strings.Replace(fmt.Sprintf(alone, place("gemma", gemma, b.line(t, gemma), ", wait: 1s")), "gpu-1", "gpu-2", 1), gemma)
	r := g.chat(both(""))
	g.served(r, "Acme AI", gemma)
	waits := g.attempts(r, exaone+" slot_loading", gemma+" slot_loading", gemma+" 200")
	if waits[0].SlotWait < 1000 || waits[1].SlotWait >= waits[0].SlotWait {
		t.Errorf("one budget of 1 s was waited for %d and %d ms", waits[0].SlotWait, waits[1].SlotWait)
	}
	b.open(t)
	g.served(g.chat(ask(gemma, onlyLocal)), local, gemma)
	r = g.chat(both(onlyLocal), "X-MyIP-Max-Wait", "0.1")
	g.served(r, local, gemma)
	g.attempts(r, exaone+" slot_loading", gemma+" 200")
	a.open(t)
	g.until("the load goes on", func() bool { return g.status(exaone) == 0 })
	r = g.chat(both(onlyLocal), "X-MyIP-Max-Wait", "0")
	g.served(r, local, exaone)
	g.attempts(r, exaone+" 200")
	if s := g.slot("exaone"); s.Learned.Loads != 1 {
		t.Errorf("exaone: %+v", s)
	}
}

// A request for a single token wakes a slot as any other does, whatever else is loaded, and makes the next ones warm.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	g := nodes(t, fmt.Sprintf(alone, place("exaone", exaone, quick(t, exaone), "")+place("gemma", gemma, quick(t, gemma), "")), gemma, exaone)
	for _, model := range []string{gemma, exaone} {
		r := g.chat(ask(model, `, "max_tokens": 1`))
		g.served(r, local, model)
		if !strings.Contains(r.body, `"completion_tokens":1,`) || !strings.Contains(r.body, `"finish_reason":"length"`) || g.status(model) != 0 {
			t.Errorf("status %d, %s", g.status(model), r.body)
		}
		pid := g.engineOf(model)
		r = g.chat(ask(model, ""), "X-MyIP-Max-Wait", "0")
		g.served(r, local, model)
		if now := g.engines(); pid == 0 || !slices.Equal(now, []int{pid}) {
			t.Errorf("engines %v, before %d", now, pid)
		}
	}
}
