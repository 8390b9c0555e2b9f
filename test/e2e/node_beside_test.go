package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// besideMachine is a hearth node of two devices: Gemma and a third model share the first, Exaone has the second, and is kept
// warm; a small model is always up on the first.
func besideMachine(t testing.TB, available string) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.url = "unix://" + m.path("node.sock")
	slot := func(name, model, more string, args ...string) string {
		return fmt.Sprintf("      - {name: %s, model: %s, command: %s, concurrency: 2, wait: 1m, expected_load: 1s, stop_grace: 200ms%s}\n", name, model, engineLine(t, model, args), more)
	}
	m.write(fmt.Sprintf(`currency: KRW
data_dir: data
shutdown: {grace: 30s}
node_server: {listen: %q, token: %s}
nodes:
  - name: gpu
    devices: [{id: 5}, {id: 7}]
    turn: 1s
    min_resident: 0s
    available: %q
    slots:
%s`, m.url, nodeToken, available, slot("gemma", gemma, ", devices: [5]", "--tokens-per-second", "30", "--load", "2s")+slot("exaone", exaone, ", devices: [7], keep_warm: true")+
		slot("third", third, ", devices: [5]", "--tokens-per-second", "30")+slot("embed", embed, ", devices: [5], resident: always")))
	m.run()
	return m
}

func (m *machine) write(config string) {
	m.t.Helper()
	if err := os.WriteFile(m.path("node.yaml"), []byte(config), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// besideGateway is a gateway whose only GPU is the machine's.
func besideGateway(t testing.TB, m *machine) *gateway {
	t.Helper()
	g := launch(t, func(acme string) string {
		var slots []string
		for _, model := range [][2]string{{"gemma", gemma}, {"exaone", exaone}, {"third", third}, {"embed", embed}} {
			slots = append(slots, fmt.Sprintf("{name: %s, model: %s, context: 32768, concurrency: 2, wait: 1m, price: {prompt: 30, completion: 150}}", model[0], model[1]))
		}
		return fmt.Sprintf(`currency: KRW
exchange_rates: {USD: 1390}
data_dir: data
shutdown: {lame_duck: 0s, grace: 5s}
local: {name: %s}
default_model: %s
nodes:
  - {name: gpu-2, url: %q, token: %s, slots: [%s]}
providers:
  - slug: acme
    name: Acme AI
    base_url: http://%s/v1
    models: [{model: %[2]s, context: 131072, price: {prompt: 0.06, completion: 0.24}}]
`, local, gemma, m.url, nodeToken, strings.Join(slots, ", "), acme)
	})
	g.gpu = m
	return g
}

var adminKey = regexp.MustCompile(`sk-myip-\S+`) // the only key that the gateway made: the other one was given to it

// standing is what a gateway knows of a slot.
type standing struct {
	Slot      string     `json:"slot"`
	State     string     `json:"state"`
	Waiting   int        `json:"waiting"`
	Inflight  int        `json:"inflight"`
	Votes     int        `json:"votes"`
	TurnSince *time.Time `json:"turn_since"`
	Next      bool       `json:"next_turn"`
	NextWhy   string     `json:"next_why"`
	WaitRest  float64    `json:"wait_rest_seconds"`
	Learned   struct {
		Loads int `json:"loads"`
		Times struct {
			Load struct {
				N int `json:"n"`
			} `json:"load"`
		} `json:"times"`
	} `json:"learned"`
}

// slot is what the gateway knows of one now.
func (g *gateway) slot(name string) standing {
	g.t.Helper()
	var list struct {
		Data []standing `json:"data"`
	}
	keys, err := os.ReadFile(g.path("data/first-keys"))
	if err != nil {
		g.t.Fatal(err)
	}
	admin := adminKey.FindString(string(keys))
	r := g.call("GET", "/slots", "", "Authorization", "Bearer "+admin)
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		g.t.Fatalf("%d %v %s", r.status, err, r.body)
	}
	for _, s := range list.Data {
		if s.Slot == name {
			return s
		}
	}
	g.t.Fatalf("no slot %s in %s", name, r.body)
	return standing{}
}

// TestNode_Beside: a machine with several devices keeps its own rules, and every gateway sees how its models stand.
func TestNode_Beside(t *testing.T) {
	t.Parallel()
	g := besideGateway(t, besideMachine(t, "sun-sat"))
	g.until("what is to be up is, though nobody asked", func() bool { return g.status(embed) == 0 && g.status(exaone) == 0 })
	if g.status(gemma) != -2 || len(g.engines()) != 2 {
		t.Fatalf("status of gemma %d, engines %v", g.status(gemma), g.engines())
	}
	for model, device := range map[string]string{embed: "5", exaone: "7"} {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", g.engineOf(model)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(strings.Split(string(env), "\x00"), "CUDA_VISIBLE_DEVICES="+device) {
			t.Errorf("the engine of %s is not told its device", model)
		}
	}
	before := [2]int{g.engineOf(embed), g.engineOf(exaone)}

	g.served(g.chat(ask(gemma, "")), local, gemma)
	stream := g.stream(ask(gemma, endless))
	stream.next(t)
	waits := make(chan reply, 1)
	go func() { waits <- g.chat(ask(third, "")) }()
	g.until("the gateway sees that Gemma's turn is limited", func() bool { return g.slot("gemma").TurnSince != nil })
	g.until("the gateway sees the turn change", func() bool {
		a, b := g.slot("gemma"), g.slot("third")
		return a.State == "draining" && b.Waiting == 1 && b.Next && b.NextWhy != ""
	})
	if a := g.slot("gemma"); a.Inflight != 1 || a.Learned.Times.Load.N != 1 {
		t.Errorf("gemma: %+v", a)
	}
	g.served(g.chat(ask(exaone, "")), local, exaone) // the other device has nothing to do with it
	stream.resp.Body.Close()
	g.served(<-waits, local, third)
	if g.engineOf(gemma) != 0 || [2]int{g.engineOf(embed), g.engineOf(exaone)} != before {
		t.Errorf("engines %v, before %v", g.engines(), before)
	}
	busy := g.stream(ask(third, endless))
	busy.next(t)
	g.until("the gateway knows how long its load takes", func() bool { return g.soonest(gemma) >= 2 })
	g.served(g.chat(ask(gemma, ""), "X-MyIP-Max-Wait", "0.5"), "Acme AI", gemma)
	g.until("the gateway sees that it would have waited", func() bool { return g.slot("gemma").Votes == 1 })
	busy.resp.Body.Close()
	g.until("nobody waits or is served any more", func() bool {
		b := g.slot("third")
		return b.Waiting == 0 && b.Inflight == 0 && !b.Next && b.TurnSince == nil
	})
}

// TestNode_Hours: outside of the machine's hours gateways go elsewhere, and a change of the hours holds at once.
func TestNode_Hours(t *testing.T) {
	t.Parallel()
	away := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3])
	m := besideMachine(t, away)
	g := besideGateway(t, m)
	g.until("the machine is known", func() bool { return g.status(gemma) == -10 })
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	if r := g.chat(ask(exaone, "")); r.status != 503 || r.header.Get("Retry-After") == "" || len(g.engines()) != 0 {
		t.Errorf("%d %s, engines %v", r.status, r.body, g.engines())
	}
	closed, err := os.ReadFile(m.path("node.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	reload := func(config string) {
		m.write(config)
		if err := m.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(string(closed), `"`+away+`"`, "sun-sat", 1))
	g.until("what is to be up is", func() bool { return g.status(embed) == 0 && g.status(exaone) == 0 })
	g.served(g.chat(ask(gemma, "")), local, gemma)
	reload(string(closed))
	g.until("all engines are gone", func() bool { return g.status(gemma) == -10 && len(g.engines()) == 0 })
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
}
