package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/market"
)

// simulate runs hearth simulate slots.
func simulate(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(append([]string{"simulate", "slots"}, args...), streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

func TestSimulateSlots_Mistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"random scenarios that are too many", []string{"--random", "10001"}, "--random: between 1 and 10000, not 10001"},
		{"no models", []string{"--models", "0"}, `--models: a number from 1 to 16 or shares as in 70/30, not "0"`},
		{"too many models", []string{"--models", "17"}, "--models: a number from 1 to 16"},
		{"models that are no number", []string{"--models", "two"}, `not "two"`},
		{"shares that are not all", []string{"--models", "70/20"}, "--models: the shares add up to 90, not 100"},
		{"shares that are too many", []string{"--models", strings.Repeat("5/", 19) + "5"}, "between 1 and 16 models, not 20"},
		{"a share below 0", []string{"--models", "120/-20"}, `--models: "120" is no share in per cent`},
		{"a share that is no number", []string{"--models", "NaN/50"}, `--models: "NaN" is no share`},
		{"no time", []string{"--load-time", "fast"}, `--load-time: "fast" is no length of time such as 15s`},
		{"several wrong times", []string{"--load-time", "1/-2s"}, `--load-time: "1" and "-2s" are no lengths of time such as 15s`},
		{"more times than models", []string{"--load-time", "1s/2s/3s"}, "--load-time: 3 times are more than the 2 models"},
		{"a load of hours", []string{"--load-time", "2h"}, "a load takes between 10ms and 1h, not 2h0m0s"},
		{"more services than models", []string{"--service", "1s/2s/3s"}, "--service: 3 times are more than the 2 models"},
		{"a load of a moment", []string{"--load-time", "20s/1ms"}, "a load takes between 10ms and 1h, not 1ms"},
		{"a service of a moment", []string{"--service", "1us"}, "a request takes between 1ms and 1h, not 1µs"},
		{"no service", []string{"--service", "0s"}, `--service: "0s" is no length of time`},
		{"no budget", []string{"--budget", "1ms"}, "a budget is between 1s and 1h"},
		{"no rate", []string{"--rate", "0"}, "--rate: more than 0 requests per second, not 0"},
		{"a rate that is no number", []string{"--rate", "NaN"}, "--rate: more than 0 requests per second, not NaN"},
		{"an endless rate", []string{"--rate", "1e300"}, "--rate: 1e+300 requests per second cannot be played: the load is more than 0 and at most 10"},
		{"a rate that the services make too much", []string{"--rate", "30", "--service", "1m"}, "--rate: 30 requests per second cannot be played: the load is"},
		{"no load", []string{"--load", "0"}, "--load: 0 per cent cannot be played: the load is more than 0"},
		{"a load that is no number", []string{"--load", "NaN"}, "--load: NaN per cent"},
		{"bursts that are no number", []string{"--burst", "NaN"}, "not NaN"},
		{"rate and load", []string{"--rate", "1", "--load", "60"}, "can't be used together"},
		{"bursts that are none", []string{"--burst", "0.5"}, "bursts are between 1 and 1000 times as dense, not 0.5"},
		{"no keys", []string{"--keys", "0"}, "between 1 and 1000 keys, not 0"},
		{"no concurrency", []string{"--concurrency", "0"}, "between 1 and 1024 requests at once, not 0"},
		{"a sigma too much", []string{"--sigma", "4"}, "the sigma of service times is between 0 and 3, not 4"},
		{"a turn below 0", []string{"--turn=-1s"}, "a turn is between 0 and 1h"},
		{"no requests", []string{"--requests", "0"}, "between 100 and 1000000 requests, not 0"},
		{"too few requests", []string{"--requests", "5"}, "between 100 and 1000000 requests, not 5"},
		{"too many requests", []string{"--requests", "10000000"}, "not 10000000"},
		{"no runs", []string{"--runs", "0"}, "--runs: between 1 and 1000, not 0"},
		{"a seed below 0", []string{"--seed=-1"}, "--seed"},
		{"a scenario that is not there", []string{"--scenario", "nothing"}, `--scenario: the list has no "nothing"; --list prints the names`},
		{"a pattern that is none", []string{"--scenario", "["}, `--scenario: "[" is no pattern`},
		{"no random scenarios", []string{"--random", "0"}, "--random: between 1 and 10000, not 0"},
		{"random scenarios and a mix", []string{"--random", "3", "--keys", "3"}, "--random draws other scenarios"},
		{"a scenario and a mix", []string{"--scenario", "*", "--keys", "3"}, "--scenario is of the list"},
		{"a policy that is not there", []string{"--policy", "lifo"}, "--policy"},
		{"two forms", []string{"--json", "--markdown"}, "can't be used together"},
		{"a chart that cannot be written", []string{"--chart", "/no/such/directory/chart.svg", "--models", "1", "--requests", "100", "--runs", "1"}, "write /no/such/directory/chart.svg"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := simulate(c.args...)
			flag, _, _ := strings.Cut(c.args[0], "=")
			if code == 0 || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, flag) {
				t.Errorf("%d %q\n%s", code, errs, out)
			}
		})
	}
}

func TestSimulateSlots_List(t *testing.T) {
	t.Parallel()
	all := market.SlotScenarios()
	if code, out, errs := simulate("--list"); code != 0 || errs != "" || len(strings.Fields(out)) != len(all) || !strings.HasPrefix(out, all[0].Name+"\n") {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
	_, out, _ := simulate("--list", "--scenario", "80:20*", "--scenario", "50:50-burst8-60*")
	for _, name := range strings.Fields(out) {
		if !strings.HasPrefix(name, "80:20") && !strings.HasPrefix(name, "50:50-burst8-60") {
			t.Errorf("%s was not asked for", name)
		}
	}
	if n := len(strings.Fields(out)); n < 3 {
		t.Errorf("%d scenarios:\n%s", n, out)
	}
}

// simulation is what --json prints.
type simulation struct {
	Scenarios []struct {
		Name     string                        `json:"name"`
		Load     float64                       `json:"load"`
		Policies map[string]map[string]float64 `json:"policies"`
	} `json:"scenarios"`
}

func TestSimulateSlots_JSON(t *testing.T) {
	t.Parallel()
	quick := []string{"--runs", "1", "--requests", "300", "--json"}
	of := func(t *testing.T, args ...string) simulation {
		t.Helper()
		code, out, errs := simulate(append(args, quick...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%d %s", code, errs)
		}
		var s simulation
		if err := json.Unmarshal([]byte(out), &s, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return s
	}
	t.Run("the list", func(t *testing.T) {
		s := of(t)
		for i, want := range market.SlotScenarios() {
			policies := 4
			if want.Fallback {
				policies = 6
			}
			if s.Scenarios[i].Policies["clairvoyant-free"] != nil {
				policies++
			}
			if got := s.Scenarios[i]; got.Name != want.Name || got.Load != want.Load || len(got.Policies) != policies {
				t.Errorf("%s: %+v", want.Name, got)
			}
		}
	})
	t.Run("a mix", func(t *testing.T) {
		s := of(t, "--models", "70/30", "--load-time", "20s/45s", "--rate", "0.3", "--service", "8s", "--budget", "30s/60s", "--fallback", "--keys", "2", "--greedy",
			"--burst", "8", "--concurrency", "8", "--sigma", "0.5", "--turn", "5s", "--seed", "9")
		if len(s.Scenarios) != 1 || s.Scenarios[0].Name != "own" || s.Scenarios[0].Load < 0.299 || s.Scenarios[0].Load > 0.301 || len(s.Scenarios[0].Policies) != 6 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("the same seed, the same bytes", func(t *testing.T) {
		args := append([]string{"--models", "2", "--load-time", "1s", "--fallback", "--seed", "4"}, quick...)
		_, first, _ := simulate(args...)
		for range 4 { // of which a map's order would be another one in nearly all cases
			if _, again, _ := simulate(args...); again != first {
				t.Fatalf("%s\n%s", first, again)
			}
		}
	})
	t.Run("some policies", func(t *testing.T) {
		s := of(t, "--keys", "2", "--policy", "fifo", "--policy", "clairvoyant")
		if p := s.Scenarios[0].Policies; len(p) != 2 || p["fifo"] == nil || p["clairvoyant"] == nil {
			t.Errorf("%+v", s)
		}
	})
	t.Run("each flag of a mix matters", func(t *testing.T) {
		base := of(t, "--load", "60").Scenarios[0].Policies["hearth"]
		for _, flag := range []string{"--models=3", "--load-time=5s", "--service=9s", "--concurrency=2", "--sigma=0", "--rate=0.1", "--burst=8", "--budget=30s", "--fallback", "--turn=40s", "--seed=2"} {
			got := of(t, flag).Scenarios[0].Policies["hearth"]
			same := true
			for k, v := range got {
				same = same && v == base[k]
			}
			if same {
				t.Errorf("%s changes nothing: %v", flag, got)
			}
		}
	})
}

func TestSimulateSlots_Table(t *testing.T) {
	t.Parallel()
	chart := filepath.Join(t.TempDir(), "chart.svg")
	code, out, errs := simulate("--load", "30", "--runs", "2", "--requests", "300", "--chart", chart)
	if code != 0 || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	for _, want := range []string{"LOADS", "JAIN", "own", "hearth\n", "fifo\n", "no-ageing\n", "clairvoyant\n", "Averages of 2 runs of about 300 requests each, from seed 1 on"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	svg, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("chart: %v", err)
	}
	if _, out, _ = simulate("--load", "30", "--runs", "2", "--requests", "300", "--policy", "fifo"); strings.Contains(out, "hearth\n") || !strings.Contains(out, "fifo\n") {
		t.Errorf("not fifo alone:\n%s", out)
	}
	if _, out, _ = simulate("--load", "30", "--runs", "1", "--requests", "300", "--markdown"); !strings.Contains(out, "\n| own | ") {
		t.Errorf("no table in Markdown:\n%s", out)
	}
}

func TestSimulateSlots_Gates(t *testing.T) {
	t.Parallel()
	one := []string{"--models", "1", "--load-time", "1s", "--load", "10", "--runs", "1", "--requests", "300", "--gates"}
	if code, _, errs := simulate(one...); code != 0 || errs != "" {
		t.Errorf("one model on a GPU that is hardly used: %d %s", code, errs)
	}
	// Nobody can serve a model in time whose load takes longer than its requests may wait.
	code, out, errs := simulate("--models", "90/10", "--load-time", "1s/60s", "--load", "20", "--budget", "30s", "--runs", "1", "--requests", "500", "--gates", "--policy", "fifo", "--json")
	if code != 1 || !strings.Contains(errs, " gates not passed:\n") || !strings.Contains(errs, "  own: worst model served within budget: 0.") || !strings.HasPrefix(out, `{"scenarios":[`) {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
}
