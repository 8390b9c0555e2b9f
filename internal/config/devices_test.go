package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"myip.co.kr/hearth"
)

const house = `
timezone: Asia/Seoul
nodes:
  - name: pair
    exclusive: false
    devices: [{id: 0, memory: 23GiB}, 1]
    available: "mon-fri 09:00-19:00, sat+sun, fri-mon 22:00-06:30"
    slots:
      - {name: both, model: x/a, command: [e, "${port}"], memory: 20GiB, keep_warm: "Mon 08:30-18:00", env: {CUDA_DEVICE_ORDER: FASTEST_FIRST}}
      - {name: embed, model: x/b, command: [e, "${port}"], devices: [0], memory: 2GiB, resident: always}
      - {name: own, model: x/c, command: [e, "${port}"], devices: [1], env: {CUDA_VISIBLE_DEVICES: "7"}, keep_warm: true}
      - {name: theirs, model: x/d, driver: always, url: "http://127.0.0.1:1", devices: [1], keep_warm: false}
      - {name: off, model: x/e, command: [e, "${port}"], devices: [1], resident: always, disabled: true}
  - name: four
    devices: 4
    slots:
      - {name: wide, model: x/a, command: [e, "${port}"], devices: [3, 0]}
  - name: plain
    slots:
      - {name: single, model: x/a, command: [e, "${port}"], env: {A: b}}
`

// TestDevices: what a file says of devices, memory, companions and hours is what the catalog says of them.
func TestDevices(t *testing.T) {
	c, err := Parse("x", []byte(house), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cat, err := c.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Hour
	pair := cat.Nodes[0]
	if d := cmp.Diff([]hearth.Device{{ID: 0, Memory: 23 << 30}, {ID: 1}}, pair.Devices); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
	if n := len(cat.Nodes[1].Devices); n != 4 || cat.Nodes[1].Devices[3].ID != 3 || !cat.Nodes[1].Exclusive || cat.Nodes[2].Devices != nil {
		t.Errorf("counted devices: %+v, none: %+v", cat.Nodes[1], cat.Nodes[2])
	}
	week := []hearth.Span{
		{Days: 0b0111110, From: 9 * hour, To: 19 * hour},
		{Days: 0b1000001, To: 24 * hour},
		{Days: 0b1100011, From: 22 * hour, To: 6*hour + 30*time.Minute},
	}
	if d := cmp.Diff(week, pair.Available.Spans); d != "" || pair.Available.Zone.String() != seoul.String() {
		t.Errorf("available in %v (-want +got):\n%s", pair.Available.Zone, d)
	}
	type is struct {
		Devices   []int
		Memory    int64
		Companion bool
		Warm      string
		Env       string
	}
	want := map[string]is{
		"both":   {nil, 20 << 30, false, "1 spans", "CUDA_DEVICE_ORDER=FASTEST_FIRST CUDA_VISIBLE_DEVICES=0,1"},
		"embed":  {[]int{0}, 2 << 30, true, "always", "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0"},
		"own":    {[]int{1}, 0, false, "always", "CUDA_VISIBLE_DEVICES=7"},
		"theirs": {[]int{1}, 0, false, "never", ""},
		"off":    {[]int{1}, 0, true, "never", "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1"},
		"wide":   {[]int{3, 0}, 0, false, "never", "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,0"},
		"single": {nil, 0, false, "never", "A=b"},
	}
	got := map[string]is{}
	for _, s := range cat.Slots {
		warm := "never"
		switch {
		case s.KeepWarm != nil && len(s.KeepWarm.Spans) == 0:
			warm = "always"
		case s.KeepWarm != nil:
			warm = "1 spans"
			if d := cmp.Diff([]hearth.Span{{Days: 1 << time.Monday, From: 8*hour + 30*time.Minute, To: 18 * hour}}, s.KeepWarm.Spans); d != "" {
				t.Errorf("keep_warm of %s (-want +got):\n%s", s.Name, d)
			}
		}
		var env []string
		for _, name := range sorted(s.Env) {
			env = append(env, name+"="+s.Env[name].Reveal())
		}
		got[s.Name] = is{s.Devices, s.Memory, s.Companion, warm, strings.Join(env, " ")}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("slots (-want +got):\n%s", d)
	}
	if env := c.Nodes[0].Slots[1].Env; env != nil {
		t.Errorf("the configuration itself got an environment: %v", env)
	}
}

// TestDevicesFollow: changes of devices are told by their ids.
func TestDevicesFollow(t *testing.T) {
	parse := func(text string) *Config {
		c, err := Parse("x", []byte(text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	_, changes := parse(strings.Replace(house, "memory: 23GiB}, 1]", "memory: 24GiB}, 1, 5]", 1)).Follow(parse(house))
	want := []Change{{"nodes.pair.devices.0.memory", "changed", false}, {"nodes.pair.devices.5", "added", false}}
	if d := cmp.Diff(want, changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestWarningsOfHoursAndRoom(t *testing.T) {
	slot := func(name, more string) string {
		return "{name: " + name + ", model: x/" + name + ", command: [e, '${port}'], context: 8, concurrency: 1, price: {prompt: 1, completion: 1}" + more + "}"
	}
	file := func(node string, slots ...string) string {
		return "default_model: x/a\nnodes:\n- {name: n" + node + ", slots: [\n" + strings.Join(slots, ",\n") + "]}\n" +
			"providers: [{slug: p, base_url: 'https://p.example/v1', api_key_file: k, models: [{model: x/z, context: 8, price: {prompt: 1, completion: 1}}]}]\n"
	}
	const shared = ", exclusive: false, devices: [{id: 0, memory: 24GiB}]"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"within the node's hours", file(", available: '09:00-19:00'", slot("a", ", keep_warm: '18:00-20:00'")), nil},
		{"outside of the node's hours", file(", available: '09:00-19:00'", slot("a", ", keep_warm: '19:00-20:00'")), []string{
			"x:4: nodes[0].slots[0].keep_warm: lies outside of available of the node",
		}},
		{"outside of them, on other days", file(", available: 'mon-fri'", slot("a", ", keep_warm: sat+sun")), []string{
			"x:4: nodes[0].slots[0].keep_warm: lies outside of available of the node",
		}},
		{"two at once", file("", slot("a", ", keep_warm: true"), slot("b", ", keep_warm: '20:00-21:00'")), []string{
			"x:5: nodes[0].slots[1].keep_warm: is kept warm at the same time as a, beside which it has no room",
		}},
		{"one after the other", file("", slot("a", ", keep_warm: '08:00-20:00'"), slot("b", ", keep_warm: '20:00-08:00'")), nil},
		{"overnight, into the hours of the other", file("", slot("a", ", keep_warm: 'mon 20:00-08:00'"), slot("b", ", keep_warm: 'tue 07:00-09:00'")), []string{
			"x:5: nodes[0].slots[1].keep_warm: is kept warm at the same time as a",
		}},
		{"beside a companion", file("", slot("a", ", keep_warm: true"), slot("b", ", resident: always")), nil},
		{"with room for both", file(shared, slot("a", ", memory: 12GiB, keep_warm: true"), slot("b", ", memory: 12GiB, keep_warm: true")), nil},
		{"without room for both", file(shared, slot("c", ", memory: 2GiB, resident: always"), slot("a", ", memory: 12GiB, keep_warm: true"), slot("b", ", memory: 11GiB, keep_warm: true")), []string{
			"x:6: nodes[0].slots[2].keep_warm: is kept warm at the same time as a",
		}},
		{"a device each", file(", devices: 2", slot("a", ", devices: [0], keep_warm: true"), slot("b", ", devices: [1], keep_warm: true")), nil},
		{"room for two, but exclusive", file(", devices: [{id: 0, memory: 24GiB}]", slot("a", ", memory: 12GiB"), slot("b", ", memory: 12GiB"), slot("c", ", memory: 24GiB")), []string{
			"x:3: nodes[0]: b and a would have room together by what they take, but only one is up at a time",
		}},
		{"no room for two, and exclusive", file(", devices: [{id: 0, memory: 24GiB}]", slot("a", ", memory: 13GiB"), slot("b", ", memory: 12GiB")), nil},
		{"exclusive devices of which memory is not said", file(", devices: [{id: 0, memory: 24GiB}]", slot("a", ""), slot("b", ", memory: 1GiB")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := Parse("x", []byte(c.text), nil, func(string) ([]byte, error) { return []byte("key"), nil })
			if err != nil {
				t.Fatal(err)
			}
			got := cfg.Warnings()
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i, w := range got {
				if !strings.HasPrefix(w.String(), c.want[i]) {
					t.Errorf("got %s, want %s", w, c.want[i])
				}
			}
		})
	}
}
