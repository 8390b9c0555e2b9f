package hearth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"myip.co.kr/hearth"
)

func TestSlotDevices(t *testing.T) {
	plain := &hearth.Node{Name: "plain", Exclusive: true}
	pair := &hearth.Node{Name: "pair", Exclusive: true, Devices: []hearth.Device{{ID: 0}, {ID: 3}}}
	shared := &hearth.Node{Name: "shared", Devices: []hearth.Device{{ID: 0, Memory: 24 << 30}, {ID: 1}}}
	free := &hearth.Node{Name: "free"}
	slot := func(n *hearth.Node, devices ...int) *hearth.Slot { return &hearth.Slot{Node: n, Devices: devices} }
	companion := func(n *hearth.Node, devices ...int) *hearth.Slot {
		return &hearth.Slot{Node: n, Devices: devices, Companion: true}
	}
	for _, c := range []struct {
		name  string
		a, b  *hearth.Slot
		on    []int
		alone []string // of a
		vie   bool
	}{
		{"a node without devices is one", slot(plain), slot(plain), []int{0}, []string{"plain"}, true},
		{"a companion lives beside it", companion(plain), slot(plain), []int{0}, nil, false},
		{"beside a companion", slot(plain), companion(plain), []int{0}, []string{"plain"}, false},
		{"all devices unless it says which", slot(pair), slot(pair, 3), []int{0, 3}, []string{"pair/0", "pair/3"}, true},
		{"a device each", slot(pair, 0), slot(pair, 3), []int{0}, []string{"pair/0"}, false},
		{"a device of which memory is known is vied for", slot(shared, 0), slot(shared), []int{0}, nil, true},
		{"one of which none is known is not", slot(shared, 1), slot(shared, 1), []int{1}, nil, false},
		{"nothing is vied for on a node that holds all", slot(free), slot(free), []int{0}, nil, false},
		{"nodes do not vie", slot(plain), slot(pair), []int{0}, []string{"plain"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.on, c.a.On()); d != "" {
				t.Errorf("devices (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.alone, c.a.Alone()); d != "" {
				t.Errorf("alone (-want +got):\n%s", d)
			}
			if c.a.Vies(c.b) != c.vie || c.b.Vies(c.a) != c.vie || c.a.Vies(c.a) {
				t.Errorf("vie %v, %v and with itself %v, want %v", c.a.Vies(c.b), c.b.Vies(c.a), c.a.Vies(c.a), c.vie)
			}
		})
	}
}
