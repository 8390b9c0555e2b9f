package driver

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// asks are what was ordered of a fake so far, without bodies.
func (f *fake) asks() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, a := range f.asked {
		out = append(out, strings.Join(strings.Fields(a)[:2], " "))
	}
	return strings.Join(slices.Compact(out), ", ")
}

// TestPresetOrders is what each kind of server is asked for in a start and a stop, and in what order.
func TestPresetOrders(t *testing.T) {
	for kind, want := range map[string]string{
		vllm:        "POST /wake_up, POST /v1/chat/completions, POST /sleep?level=1",
		sglang:      "POST /resume_memory_occupation, POST /v1/chat/completions, POST /flush_cache, POST /release_memory_occupation",
		ollama:      "POST /api/generate",
		llamaServer: "POST /models/load, POST /models/unload",
		lmStudio:    "POST /api/v1/models/load, POST /api/v1/models/unload",
		tabbyAPI:    "POST /v1/model/load, POST /v1/model/unload",
		"":          "PUT /load/acme%2Ftiny, DELETE /load",
	} {
		t.Run(kind, func(t *testing.T) {
			f := startFake(t, kind)
			f.key = "s3cret"
			s := f.slot()
			s.APIKey = "s3cret"
			e := start(t, s)
			ready(t, e)
			stop(t, e)
			if got := f.asks(); got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
			for _, line := range e.LogTail() {
				if strings.Contains(line, "s3cret") {
					t.Errorf("the log shows the key: %s", line)
				}
			}
			if len(e.LogTail()) == 0 {
				t.Error("the log says nothing")
			}
		})
	}
}

// TestPresetFailures: a server that cannot do it says why, and is left in order.
func TestPresetFailures(t *testing.T) {
	for kind, want := range map[string]string{
		vllm:        "POST /wake_up is answered with status 500: Call to wake_up method failed: CUDA Error: out of memory",
		sglang:      "POST /resume_memory_occupation is answered with status 400: out of memory",
		ollama:      "loading the model is answered with status 500: llama runner process has terminated",
		llamaServer: "the server could not load the model",
		lmStudio:    "POST /api/v1/models/load is answered with status 500: Failed to load model",
		tabbyAPI:    `the server has not loaded "acme/tiny": Insufficient VRAM`,
	} {
		t.Run(kind+"/it cannot load", func(t *testing.T) {
			f := startFake(t, kind)
			f.fails = true
			if why, _ := failure(t, f.slot()); why != "start the engine: "+want {
				t.Errorf("%s", why)
			}
		})
		t.Run(kind+"/it does not run", func(t *testing.T) {
			f := startFake(t, kind)
			s := f.slot()
			f.http.Close()
			if why, _ := failure(t, s); !strings.Contains(why, "the server does not run") {
				t.Errorf("%s", why)
			}
		})
		t.Run(kind+"/a wrong key", func(t *testing.T) {
			f := startFake(t, kind)
			f.key = "other"
			s := f.slot()
			e, err := driverOf(t, s).Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "it fails", func() bool { _, err := e.Probe(t.Context()); return err != nil && strings.Contains(err.Error(), "401") })
			if err := e.Stop(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("a server that takes no orders is said to be stopped: %v", err)
			}
			f.set(func() { f.key = "" })
			stop(t, e)
		})
	}
}

// TestPresetEviction: a model that somebody else has unloaded is not said to be ready.
func TestPresetEviction(t *testing.T) {
	for _, kind := range []string{vllm, ollama, llamaServer, lmStudio, tabbyAPI} {
		t.Run(kind, func(t *testing.T) {
			f := startFake(t, kind)
			e := start(t, f.slot())
			ready(t, e)
			f.set(func() { f.state, f.copies = "unloaded", 0 })
			eventually(t, "it is noticed", func() bool {
				r, err := e.Probe(t.Context())
				return err != nil && !r.Ready
			})
		})
	}
}

func TestSleeper(t *testing.T) {
	t.Parallel()
	t.Run("awake already: no waking, but the token", func(t *testing.T) {
		f := startFake(t, vllm)
		f.state = "loaded"
		ready(t, start(t, f.slot()))
		if got := f.asks(); got != "POST /v1/chat/completions" {
			t.Errorf("asked %s", got)
		}
	})
	t.Run("not put to sleep at work", func(t *testing.T) {
		f := startFake(t, vllm)
		e := start(t, f.slot())
		ready(t, e)
		f.set(func() { f.busy = 1 })
		done := time.AfterFunc(300*time.Millisecond, func() { f.set(func() { f.busy = 0 }) })
		defer done.Stop()
		if err := e.Stop(t.Context(), 10*time.Second); err != nil || f.is() != "unloaded" {
			t.Errorf("%v, %s", err, f.is())
		}
	})
	t.Run("without sleep mode", func(t *testing.T) {
		f := startFake(t, sglang) // it knows nothing of /is_sleeping
		s := f.slot()
		s.Preset, s.Engine = vllm, vllm
		e, err := driverOf(t, s).Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it fails", func() bool {
			_, err := e.Probe(t.Context())
			return err != nil && strings.Contains(err.Error(), "--enable-sleep-mode")
		})
		if err := e.Stop(t.Context(), 0); err == nil {
			t.Error("it is said to sleep")
		}
		f.http.Close()
		stop(t, e)
	})
	t.Run("a waking that is given up is waited for, and undone", func(t *testing.T) {
		f := startFake(t, vllm)
		f.load = 2 * time.Second // it is seen to wake
		e := start(t, f.slot())
		eventually(t, "it wakes", func() bool { return f.is() == "loading" })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := e.Stop(ctx, 0); err != nil || f.is() != "unloaded" {
			t.Errorf("%v, %s", err, f.is())
		}
	})
}

func TestStudioUnloadsEveryInstance(t *testing.T) {
	f := startFake(t, lmStudio)
	f.state, f.copies = "loaded", 2 // as its known defect leaves it
	e := start(t, f.slot())
	ready(t, e)
	stop(t, e)
	if f.is() != "unloaded" || f.copies != 0 {
		t.Errorf("%s, %d instances", f.is(), f.copies)
	}
}

func TestTabbyLeavesOtherModelsAlone(t *testing.T) {
	f := startFake(t, tabbyAPI)
	f.state, f.model = "loaded", "acme/other"
	s := f.slot()
	e, err := driverOf(t, s).(orderDriver).engine(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(e.watched)
	stop(t, e)
	if f.is() != "loaded" || f.asks() != "" {
		t.Errorf("%s, asked %s", f.is(), f.asks())
	}
}

func TestRouterRunsAlready(t *testing.T) {
	f := startFake(t, llamaServer)
	f.state = "loaded"
	e := start(t, f.slot())
	ready(t, e)
	if got := f.asks(); got != "POST /models/load" {
		t.Errorf("asked %s", got)
	}
	f.set(func() { f.state = "unloaded" })
	stop(t, e) // what is not running is stopped
}

func TestPresetBodies(t *testing.T) {
	t.Run("keep_alive", func(t *testing.T) {
		f := startFake(t, ollama)
		s := f.slot()
		s.UpstreamModel = "ACME/tiny:latest"
		e := start(t, s)
		ready(t, e)
		stop(t, e)
		for i, want := range []string{`"keep_alive":-1`, `"keep_alive":0`} {
			if a := f.asked[i]; !strings.Contains(a, want) || !strings.Contains(a, `"model":"ACME/tiny:latest"`) {
				t.Errorf("asked %s", a)
			}
		}
	})
	t.Run("the operator's body, headers and timeout", func(t *testing.T) {
		f := startFake(t, lmStudio)
		s := f.slot()
		s.Actions.Start = &hearth.Action{Body: `{"model":"${model}","context_length":16384}`}
		ready(t, start(t, s))
		if a := f.asked[0]; !strings.HasSuffix(a, `{"model":"acme/tiny","context_length":16384}`) {
			t.Errorf("asked %s", a)
		}
	})
}

func TestRequests(t *testing.T) {
	t.Parallel()
	t.Run("an answer that is no yes", func(t *testing.T) {
		for name, c := range map[string]struct {
			act  hearth.Action
			want string
		}{
			"status":         {hearth.Action{URL: "/state", Method: "GET", Status: []int{204}}, "start the engine: GET /state is answered with status 200"},
			"no 2xx":         {hearth.Action{URL: "/none"}, "start the engine: POST /none is answered with status 404: 404 page not found"},
			"match":          {hearth.Action{URL: "/state", Method: "GET", Match: "models.0.up=true"}, "start the engine: the answer to GET /state does not have models.0.up=true"},
			"nobody":         {hearth.Action{URL: "http://127.0.0.1:1/x?key=s3cret"}, "connect: connection refused"},
			"takes too long": {hearth.Action{URL: "/hang", Timeout: 50 * time.Millisecond}, "deadline exceeded"},
			"an odd address": {hearth.Action{URL: "/%zz"}, "the address of the request is none"},
		} {
			t.Run(name, func(t *testing.T) {
				f := startFake(t, "")
				s := f.slot()
				c.act.Headers = map[string]hearth.Secret{"X-Agent": "secret"}
				s.Actions.Start = &c.act
				if name == "takes too long" {
					hang := startFake(t, vllm)
					hang.load = time.Second
					c.act.URL = hang.http.URL + "/wake_up"
				}
				why, _ := failure(t, s)
				if !strings.Contains(why, c.want) || strings.Contains(why, "s3cret") {
					t.Errorf("%s", why)
				}
			})
		}
	})
	t.Run("the key is for the slot's own server", func(t *testing.T) {
		other := startFake(t, "")
		other.key = "k"
		f := startFake(t, "")
		s := f.slot()
		s.APIKey = "k"
		s.Actions.Start.URL = other.http.URL + "/load/x"
		if why, _ := failure(t, s); !strings.Contains(why, "401") {
			t.Errorf("%s", why)
		}
	})
}

func TestMatches(t *testing.T) {
	const doc = `{"a":{"b":[{"c":"x y"},{"c":1.50}]},"t":true,"n":null,"e":"","d.e":1,"s":"true"}`
	for match, want := range map[string]bool{
		"a.b.0.c=x y": true, "a.b.1.c=1.50": true, "a.b.1.c=1.5": false, "t=true": true, "s=true": true, "n=null": true, "e=": true,
		"a.b.2.c=x": false, "a.b.-1.c=x": false, "a.b.x.c=x": false, "a=": false, "a.b=": false, "none=": false, "t.x=true": false, "t=false": false,
		"a.b.0.c=x": false,
	} {
		if got := matches([]byte(doc), match); got != want {
			t.Errorf("%s: %v", match, got)
		}
	}
	for _, bad := range []string{"", "{", "[", `"x`, strings.Repeat("[", 100_000)} {
		if matches([]byte(bad), "a=1") || matches([]byte(bad), "0.0.0=1") {
			t.Errorf("%.20q matches", bad)
		}
	}
}
