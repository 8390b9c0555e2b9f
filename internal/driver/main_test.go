package driver

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/slot"
)

// engineMode in the environment makes this test binary an engine.
const engineMode = "HEARTH_TEST_ENGINE"

// The race detector has every program sleep for a second before it ends, unless it is told otherwise.
const (
	raceOptions = "GORACE"
	endAtOnce   = "atexit_sleep_ms=0"
)

func TestMain(m *testing.M) {
	if os.Getenv(engineMode) != "" {
		os.Exit(engine.Main(os.Args[1:]))
	}
	if os.Getenv(headlessMode) != "" {
		os.Exit(headlessMain())
	}
	if dir := os.Getenv(gatewayMode); dir != "" {
		os.Exit(gatewayMain(dir))
	}
	goleak.VerifyTestMain(m)
}

// self is the path of this test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// engineSlot is a slot of the exec driver whose engine is this test binary.
func engineSlot(t *testing.T, args ...string) *hearth.Slot {
	s := shell("")
	s.Command = append([]string{self(t), "--port", "${port}", "--model", "${model}", "--first-token", "0s"}, args...)
	s.Env = map[string]hearth.Secret{engineMode: "1", raceOptions: endAtOnce}
	return s
}

// shell is a slot of the exec driver that runs a script.
func shell(script string) *hearth.Slot {
	return &hearth.Slot{
		Name: "s", Driver: Exec, Command: []string{"sh", "-c", script},
		Node: &hearth.Node{Name: "n", Exclusive: true}, Model: &hearth.Model{ID: "acme/tiny"},
	}
}

func driverOf(t *testing.T, s *hearth.Slot) slot.Driver {
	t.Helper()
	all, err := New(Options{Log: slog.New(slog.DiscardHandler), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if s.Preset == sglang {
		lull(t, all, s)
	}
	d, err := all.For(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// start starts an engine that is stopped at the end of the test at the latest.
func start(t *testing.T, s *hearth.Slot) slot.Engine {
	t.Helper()
	e, err := driverOf(t, s).Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

func stop(t *testing.T, e slot.Engine) {
	t.Helper()
	if err := e.Stop(t.Context(), 2*time.Second); err != nil { // the context of a cleanup has ended: it kills
		t.Errorf("stop: %v", err)
	}
}

// eventually looks every few milliseconds whether something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// ready waits until the engine says that it is ready.
func ready(t *testing.T, e slot.Engine) {
	t.Helper()
	eventually(t, "the engine is ready", func() bool {
		ok, err := e.Probe(t.Context())
		if err != nil {
			t.Fatalf("probe: %v", err)
		}
		return ok.Ready
	})
}

// exited waits until the engine has ended and returns how.
func exited(t *testing.T, e slot.Engine) string {
	t.Helper()
	select {
	case <-e.Exited():
		return e.ExitError().Error()
	case <-time.After(time.Minute):
		t.Fatal("the exit is not seen")
		return ""
	}
}

// chat asks the engine something and returns its answer's status and body.
func chat(t *testing.T, e interface {
	URL() string
	APIKey() hearth.Secret
}) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+"/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"who are you?"}],"max_tokens":3}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.APIKey().Reveal())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

// freePort is a port that nobody listens on now.
func freePort() (int, error) { return new(ports).take() }
