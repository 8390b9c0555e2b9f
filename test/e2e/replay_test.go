package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/market"
)

// What a gateway did, replayed from its export, from its data_dir and by its configuration.
func TestReplayOfADay(t *testing.T) {
	t.Parallel()
	model := "author/model"
	quick := engine.NewProvider(engine.ProviderConfig{Name: "Quick"})
	g := launch(t, func(acme string) string {
		return fmt.Sprintf(`currency: USD
data_dir: data
default_model: author/model
shutdown: {lame_duck: 0s, grace: 5s}
providers:
  - {slug: acme, base_url: 'http://%s/v1', models: [{model: author/model, price: {prompt: 1, completion: 3}}]}
  - {slug: quick, base_url: 'http://%s/v1', models: [{model: author/model, price: {prompt: 1.1, completion: 3.3}}]}
`, acme, provider(t, quick))
	})
	control(t, g.acme, `{"latency_ms":300}`)
	control(t, quick, `{"latency_ms":50}`)
	const drawn, ordered = 60, 5
	var all sync.WaitGroup
	gate := make(chan struct{}, 4)
	for n := range drawn + ordered {
		all.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			more := fmt.Sprintf(`,"stream":true,"max_tokens":20,"session_id":"s%d"`, n)
			if n >= drawn {
				more += `,"provider":{"order":["acme"]}`
			}
			if r := g.chat(ask(model, more)); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	exported := func() string { return output(t, g.dir, "records", "export", "-c", g.path("hearth.yaml")) }
	g.until("all is recorded", func() bool { return strings.Count(exported(), "\n") == drawn+ordered })
	live := replayOf(t, g, g.path("data")) // the gateway runs
	g.signal(syscall.SIGTERM)
	if code := g.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if err := os.WriteFile(g.path("day.jsonl"), []byte(exported()), 0o600); err != nil {
		t.Fatal(err)
	}
	for source, out := range map[string]market.Replayed{"data_dir": live, "file": replayOf(t, g, g.path("day.jsonl")), "configuration": replayOf(t, g, g.path("hearth.yaml"))} {
		if out.Requests != drawn+ordered || out.Replayed != drawn || out.Carried["not_ordered"] != ordered || out.Currency != "USD" || len(out.Models) != 1 || out.Models[0].Model != model {
			t.Errorf("%s: %+v", source, out)
			continue
		}
		price := out.All.Policies["price"]
		if top := price.Endpoints[0]; top.Endpoint != "acme:"+model || math.Abs(top.Share-1) > 1e-6 {
			t.Errorf("%s: by price the requests go to %+v", source, top)
		}
		if price.Cost.Change >= 0 || price.TTFT.Change < 0.3 {
			t.Errorf("%s: by price it costs %+v and takes %+v", source, price.Cost, price.TTFT)
		}
		if was := out.All.Policies["routing-cost"]; math.Abs(was.Cost.Change) > 0.05 || math.Abs(was.TTFT.Change) > 0.5 {
			t.Errorf("%s: as it was it costs %+v and takes %+v", source, was.Cost, was.TTFT)
		}
	}
	text := output(t, g.dir, "simulate", "--from-records", "day.jsonl", "--write-market", "m.csv", "--write-workload", "w.csv")
	for _, want := range []string{"65 requests, 60 of them drawn by routing cost and replayed. Amounts are in USD.", "5 ordered by the caller, or by price", "as it was", "acme:author/model"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := output(t, g.dir, "simulate", "--market", "m.csv", "--workload", "w.csv", "--policy", "routing-cost,price", "--seed", "1"); !strings.Contains(text, "price") {
		t.Error(text)
	}
}

// output is what a command prints on standard output.
func output(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

func replayOf(t *testing.T, g *gateway, source string) (out market.Replayed) {
	t.Helper()
	text := output(t, g.dir, "simulate", "--from-records", source, "--policy", "price,routing-cost", "--json")
	if err := json.Unmarshal([]byte(text), &out, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}
