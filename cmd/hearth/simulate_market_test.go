package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/config"
)

// trade runs hearth simulate.
func trade(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(append([]string{"simulate"}, args...), streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// files are a small market and what comes to it.
func files(t *testing.T) (market, workload string) {
	t.Helper()
	dir := t.TempDir()
	market, workload = filepath.Join(dir, "m.csv"), filepath.Join(dir, "w.csv")
	rows := "seconds,input,output,session,shared\n" + strings.Repeat("0,500,100,a,0\n30,700,100,a,500\n60,400,50,,0\n", 20)
	for name, text := range map[string]string{market: "a,0.2,0.8,0.05,0.8,60,99.5\nb,0.3,0.9,0.1,0.4,120,99.9\n", workload: rows} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return market, workload
}

func TestSimulateMarket(t *testing.T) {
	t.Parallel()
	m, w := files(t)
	t.Run("files of one's own, as a table, JSON and a page", func(t *testing.T) {
		t.Parallel()
		page := filepath.Join(t.TempDir(), "r.html")
		own := []string{"--market", m, "--workload", w, "--policy", "routing-cost,price,inverse-square", "--seed", "1,2", "--html", page}
		code, out, errs := trade(own...)
		if code != 0 || errs != "" || !strings.Contains(out, "routing-cost vs price\n") || !strings.HasSuffix(out, "Means over seeds 1, 2.\n") {
			t.Errorf("%d %s\n%s", code, errs, out)
		}
		if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte("<svg ")) {
			t.Error(err)
		}
		_, a, _ := trade(append(own, "--json")...)
		if _, b, _ := trade(append(own, "--json")...); a != b {
			t.Error("the same call prints something else")
		}
	})
	t.Run("the comparisons of a suite", func(t *testing.T) {
		t.Parallel()
		code, out, errs := trade("--market", m, "--workload", w, "--json", "--seed", "1")
		type vs map[string]map[string]float64
		var got struct {
			Vs        vs `json:"vs"`
			Scenarios []struct {
				Vs       vs                        `json:"vs"`
				Policies map[string]map[string]any `json:"policies"`
			} `json:"scenarios"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatal(code, err, errs)
		}
		for _, v := range []vs{got.Vs, got.Scenarios[0].Vs} {
			for _, other := range []string{"inverse-square", "price-cooldown"} {
				for _, k := range []string{"ttft", "e2e", "rate_429", "cost", "user_cost"} {
					if _, ok := v[other][k]; !ok {
						t.Errorf("no %s against %s", k, other)
					}
				}
			}
		}
		if len(got.Scenarios[0].Policies) != 4 {
			t.Errorf("%d policies", len(got.Scenarios[0].Policies))
		}
	})
	t.Run("where the requests went", func(t *testing.T) {
		t.Parallel()
		code, out, errs := trade("--market", m, "--workload", w, "--json", "--seed", "1,2", "--policy", "price")
		var got struct {
			Scenarios []struct {
				Policies map[string]struct {
					Shares []struct {
						Endpoint string
						Share    float64
						Over     []float64
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &got, json.MatchCaseInsensitiveNames(true)); err != nil || code != 0 {
			t.Fatal(code, err, errs)
		}
		s := got.Scenarios[0].Policies["price"].Shares
		if len(s) != 2 || s[0].Endpoint != "a" || s[1].Endpoint != "b" || s[0].Share <= s[1].Share || math.Abs(s[0].Share+s[1].Share-1) > 1e-9 || len(s[1].Over) != 12 {
			t.Fatalf("%+v", s)
		}
		for i := range s[0].Over { // requests come at the beginning, in the middle and at the end
			want := 0.0
			if i == 0 || i == 6 || i == 11 {
				want = 1
			}
			if all := s[0].Over[i] + s[1].Over[i]; math.Abs(all-want) > 1e-9 {
				t.Errorf("of interval %d %v and %v", i, s[0].Over, s[1].Over)
			}
		}
	})
	t.Run("a value of time of 0", func(t *testing.T) {
		t.Parallel()
		w := filepath.Join(t.TempDir(), "w.csv") // one after the other: in a burst all are full, and time buys nothing
		rows := "seconds,input,output,session,shared\n"
		for i := range 200 {
			rows += fmt.Sprintf("%d,500,100,,0\n", 10*i)
		}
		if err := os.WriteFile(w, []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
		cost := func(policy string, args ...string) float64 {
			code, out, errs := trade(append(args, "--market", m, "--workload", w, "--json", "--seed", "1", "--policy", policy)...)
			var got struct {
				Scenarios []struct {
					Policies map[string]struct{ Cost float64 }
				}
			}
			if err := json.Unmarshal([]byte(out), &got, json.MatchCaseInsensitiveNames(true)); err != nil || code != 0 {
				t.Fatal(code, err, errs)
			}
			return got.Scenarios[0].Policies[policy].Cost
		}
		none, own, usual := cost("routing-cost", "--kappa", "0"), cost("routing-cost@0"), cost("routing-cost@20")
		if none != own || none >= usual {
			t.Errorf("%v with --kappa 0, %v as routing-cost@0, %v as routing-cost@20", none, own, usual)
		}
	})
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a policy that there is not", []string{"--policy", "cheap"}, `--policy: there is no policy "cheap"; there are routing-cost,`},
		{"a scenario that there is not", []string{"--scenario", "x"}, `--scenario: the list has no "x"`},
		{"no value of time", []string{"--kappa=-1"}, "--kappa: from 0 to 100, not -1"},
		{"a value of time of nobody", []string{"--kappa", "0.5", "--policy", "price,routing-cost@0.1"}, "--kappa is of routing-cost, which is not among the policies"},
		{"scenarios of no list", []string{"--scenarios", "0", "--suite", "random"}, "--scenarios: between 1 and 10000, not 0"},
		{"a number of scenarios that are not drawn", []string{"--scenarios", "3"}, "--scenarios is of --suite random"},
		{"a scenario with files", []string{"--market", m, "--scenario", "x"}, "--scenario is of a suite"},
		{"a file that there is not", []string{"--workload", m + "x"}, "--workload: open "},
		{"a page that cannot be written", []string{"--market", m, "--workload", w, "--policy", "price", "--seed", "1", "--html", "/no/such/directory/page.html"}, "--html: write /no/such/directory/page.html"},
		{"the wrong file", []string{"--market", w}, "line 1 names no column name; wanted are name, input price"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			t.Parallel()
			if code, out, errs := trade(c.args...); code == 0 || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("%d %s %s", code, out, errs)
			}
		})
	}
}

// The defaults that --help tells are those of a configuration.
func TestSimulate_Defaults(t *testing.T) {
	typ := reflect.TypeFor[config.Routing]()
	premium, _ := typ.FieldByName("MaxPremium")
	kappa, _ := typ.FieldByName("Kappa")
	part, err := strconv.ParseFloat(strings.TrimSuffix(premium.Tag.Get("default"), "%"), 64)
	if err != nil {
		t.Fatal(err)
	}
	cmd := reflect.TypeFor[simulateMarketCmd]()
	for name, want := range map[string]string{"MaxPremium": fmt.Sprintf("(default: %g; 0 is none)", part/100), "Kappa": fmt.Sprintf("(default: %s, and", kappa.Tag.Get("default"))} {
		if f, ok := cmd.FieldByName(name); !ok || !strings.Contains(f.Tag.Get("help"), want) {
			t.Errorf("%s: %s; want %s", name, f.Tag.Get("help"), want)
		}
	}
}
