package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

var full = flag.Bool("full", false, "kill the gateway fifty times, and wait for the clock")

// killWorld is two models on one exclusive node. Gemma's engine is the grandchild of a shell that hears no SIGTERM and stays
// when the engine has gone, so that each of its stops takes all of its grace.
func killWorld(t *testing.T, acme string) string {
	var exaoneArgs []string
	if err := json.Unmarshal([]byte(engineLine(t, exaone, []string{"--tokens-per-second", "30"})), &exaoneArgs); err != nil {
		t.Fatal(err)
	}
	gemmaArgs := slices.Clone(exaoneArgs)
	gemmaArgs[slices.Index(gemmaArgs, exaone)] = gemma
	gemmaArgs = append([]string{"sh", "-c", `trap "" TERM; "$@" & wait; exec sleep 1000`, "sh"}, gemmaArgs...)
	line := func(args []string) string {
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const slot = `context: 32768, concurrency: 2, wait: 1m, stop_grace: 200ms, price: {prompt: 30, completion: 150}, env: {LLAMA_API_KEY: "${api_key}"}`
	return fmt.Sprintf(`currency: KRW
exchange_rates: {USD: 1390}
data_dir: data
local: {name: MyIP Local GPU}
default_model: %[1]s
nodes:
  - name: gpu-1
    turn: 100ms
    min_resident: 0s
    slots:
      - {name: gemma, model: %[1]s, command: %[3]s, on_exit: keep, %[5]s}
      - {name: exaone, model: %[2]s, command: %[4]s, %[5]s}
providers:
  - slug: acme
    name: Acme AI
    base_url: http://%[6]s/v1
    models: [{model: %[1]s, context: 131072, price: {prompt: 0.06, completion: 0.24}}]
shutdown: {lame_duck: 0s, grace: 5s}
`, gemma, exaone, line(gemmaArgs), line(exaoneArgs), slot, acme)
}

// A gateway that is killed at any moment leaves nothing that the next one does not take over or end, there are never two
// engines on the device, and nothing of anybody else's ends with them.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	rounds := 6
	if *full {
		rounds = 50
	}
	g := launch(t, func(acme string) string { return killWorld(t, acme) })
	id, err := os.ReadFile(g.path("data/slots/id"))
	if err != nil {
		t.Fatal(err)
	}
	tag := strings.Fields(string(id))[0] + "/"
	alive := []func() bool{
		bystander(t, "HEARTH_SLOT="), bystander(t, "HEARTH_SLOT=another/gemma"), bystander(t, "HEARTH_SLOT="+tag[:len(tag)-2]+"/gemma"),
	}
	most := watchGroups(tag)
	t.Cleanup(func() {
		for _, group := range groupsOf(tag) { // the test has failed before its end
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	})
	for round := range rounds {
		killedWhile(g, round)
		if code := g.end(); code != -1 {
			t.Fatalf("round %d: it ended by itself with code %d", round, code)
		}
		g.run()
		model := []string{gemma, exaone}[rand.IntN(2)]
		if r := g.chat(ask(model, onlyLocal)); r.status != http.StatusOK || !strings.Contains(r.body, "I am "+model) {
			t.Errorf("round %d: %d %s", round, r.status, r.body)
		}
	}
	g.chat(ask(exaone, onlyLocal)) // the one that does not outlive its gateway
	g.signal(syscall.SIGTERM)
	if code := g.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := most(); n != 1 {
		t.Errorf("%d engines at once on an exclusive node", n)
	}
	if left := groupsOf(tag); len(left) > 0 {
		t.Errorf("left are the groups %v", left)
	}
	for i, is := range alive {
		if !is() {
			t.Errorf("bystander %d was killed", i)
		}
	}
}

// killedWhile kills the gateway while it loads, while it serves, while it swaps, and while it ends.
func killedWhile(g *gateway, round int) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	send := func(model string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/api/v1/chat/completions", strings.NewReader(ask(model, onlyLocal)))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+apiKey)
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
	}
	moment := time.After(time.Duration(rand.IntN(300)) * time.Millisecond)
	switch round % 3 {
	case 0: // Gemma is stopped, or Exaone loads
		g.served(g.chat(ask(gemma, onlyLocal)), local, gemma)
		send(exaone)
	case 1: // in an answer, with the other model waited for
		g.stream(ask(gemma, onlyLocal+endless)).next(g.t)
		send(exaone)
	case 2: // it ends, with an engine to be stopped
		g.served(g.chat(ask(exaone, onlyLocal)), local, exaone)
		send(gemma)
		g.signal(syscall.SIGTERM)
		moment = time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	<-moment
	g.signal(syscall.SIGKILL)
}

// bystander is an engine of somebody else, with the command line of ours and env besides. The returned function says
// whether it still runs.
func bystander(t *testing.T, env string) (alive func() bool) {
	t.Helper()
	cmd := exec.Command(program, "engine", "--port", "0", "--model", gemma, "--parallel", "2", "--load", "300ms", "--first-token", "0s", "--tokens-per-second", "30")
	cmd.Env = append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
}

// watchGroups samples how many process groups with the tag run at once; the returned function ends it and tells the most
// that was seen.
func watchGroups(tag string) func() int {
	stop, result := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, len(groupsOf(tag)))
			select {
			case <-stop:
				result <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int { close(stop); return <-result }
}

// groupsOf are the process groups in which somebody runs who bears the tag. One that ends while it is looked at counts only
// if it is still there afterwards: two that follow each other are not two at once.
func groupsOf(tag string) (groups []int) {
	pids := make(map[int][]int)
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00HEARTH_SLOT="+tag)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			if group, ok := groupOf(pid); ok {
				pids[group] = append(pids[group], pid)
			}
		}
	}
	for group, members := range pids {
		if slices.ContainsFunc(members, func(pid int) bool { now, ok := groupOf(pid); return ok && now == group }) {
			groups = append(groups, group)
		}
	}
	return groups
}

// groupOf is the group of a process that runs.
func groupOf(pid int) (int, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 3 || f[0] == "Z" || f[0] == "X" {
		return 0, false
	}
	group, err := strconv.Atoi(f[2])
	return group, err == nil
}
