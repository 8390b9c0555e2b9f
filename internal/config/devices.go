package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"myip.co.kr/hearth"
)

// Device is one device of a node, such as a GPU. A plain number in its place is one with that id.
type Device struct {
	// ID is its number, as nvidia-smi counts.
	ID int `yaml:"id" need:"yes" min:"0" max:"1023" example:"0"`
	// Memory is how much of its memory engines may take together: less than it has, as something is always in use. Each slot
	// on it then says in memory what it takes. Default: not said.
	Memory Size `yaml:"memory" min:"1MiB" max:"100TiB" example:"23GiB"`
}

// maxDevices bounds the devices of one node.
const maxDevices = 64

var (
	deviceType  = reflect.TypeFor[Device]()
	devicesType = reflect.TypeFor[[]Device]()
)

// devices reads a node's devices where they are given as how many there are.
func (d *decoder) devices(path string, n ast.Node, v reflect.Value) {
	count := 0
	d.scalar(path, n, reflect.ValueOf(&count).Elem(), fieldRules{min: "1", max: strconv.Itoa(maxDevices)})
	list := make([]Device, max(0, min(count, maxDevices)))
	for i := range list {
		list[i].ID = i
	}
	v.Set(reflect.ValueOf(list))
}

// hasText says whether the node is a single value.
func hasText(n ast.Node) bool {
	_, ok := scalarText(n)
	return ok && !absent(n)
}

// device is a device of the node by its id, nil if there is none.
func (n *Node) device(id int) *Device {
	for i := range n.Devices {
		if n.Devices[i].ID == id {
			return &n.Devices[i]
		}
	}
	return nil
}

// on are the devices that a slot of the node takes.
func (n *Node) on(s *Slot) (list []*Device) {
	for i := range n.Devices {
		if len(s.Devices) == 0 || slices.Contains(s.Devices, n.Devices[i].ID) {
			list = append(list, &n.Devices[i])
		}
	}
	return list
}

// companion says whether a slot lives beside whatever is there.
func (s *Slot) companion() bool { return s.Resident == residentAlways }

const residentAlways = "always"

func (k *checker) nodeDevices(path string, n *Node) {
	if k.given(path+".devices") && len(n.Devices) == 0 && !k.bad[path+".devices"] {
		k.add(path+".devices", "lists no device", "write how many there are, or [{id: 0}], or remove the line")
	}
	if len(n.Devices) > maxDevices {
		k.add(path+".devices", "has more than "+strconv.Itoa(maxDevices)+" members", "make several nodes")
	}
	seen := map[string]string{}
	for i, d := range n.Devices {
		here := at(path+".devices", i)
		if k.bad[here] || k.bad[here+".id"] {
			continue
		}
		if k.given(here + ".id") {
			here += ".id"
		}
		k.unique(seen, strconv.Itoa(d.ID), here, "the device "+strconv.Itoa(d.ID))
	}
}

// slotDevices checks what a slot takes of its node's devices.
func (k *checker) slotDevices(path string, n *Node, s *Slot) {
	k.slotDeviceList(path+".devices", n, s)
	k.slotMemory(path, n, s)
	if !s.companion() {
		return
	}
	if s.IdleSleep > 0 {
		k.add(path+".idle_sleep", "stands beside resident: always, which never sleeps", "remove one of the two")
	}
	if k.given(path + ".keep_warm") {
		k.add(path+".keep_warm", "stands beside resident: always, which is up at all times", "remove one of the two")
	}
}

func (k *checker) slotDeviceList(path string, n *Node, s *Slot) {
	switch {
	case !k.given(path) || k.bad[path]:
		return
	case len(n.Devices) == 0:
		k.add(path, "is for nodes with devices", "add devices to the node, or remove it")
		return
	case len(s.Devices) == 0:
		k.add(path, "lists no device", "write the ids of devices of the node, or remove the line: then it takes all")
	}
	seen := map[string]string{}
	for i, id := range s.Devices {
		here := at(path, i)
		if n.device(id) == nil {
			var ids []string
			for _, d := range n.Devices {
				ids = append(ids, strconv.Itoa(d.ID))
			}
			k.add(here, "is no device of the node", "known here: "+strings.Join(ids, ", "))
			continue
		}
		k.unique(seen, strconv.Itoa(id), here, "the device "+strconv.Itoa(id))
	}
}

// slotMemory checks that a slot and all companions have room on each of its devices.
func (k *checker) slotMemory(path string, n *Node, s *Slot) {
	here := path + ".memory"
	known := slices.ContainsFunc(n.on(s), func(d *Device) bool { return d.Memory > 0 })
	switch {
	case k.bad[path+".devices"] || k.bad[here]:
		return
	case !known && k.given(here):
		k.add(here, "is for devices that say how much memory they have", "add memory to the devices of the node, or remove it")
		return
	case known && s.Memory == 0 && !n.Exclusive:
		k.add(here, "is missing: models share the devices by what they take", "write what the engine takes of each of its devices, all included")
		return
	}
	for _, d := range n.on(s) {
		if d.Memory == 0 {
			continue
		}
		if s.Memory > d.Memory {
			k.add(here, fmt.Sprintf("is more than device %d has: %s", d.ID, sizeWord(d.Memory)), "lower it, or let the slot take several devices")
			return
		}
		var kept Size
		for i := range n.Slots {
			if o := &n.Slots[i]; o != s && o.companion() && slices.Contains(n.on(o), d) {
				kept += o.Memory
			}
		}
		if s.Memory > d.Memory-kept {
			k.add(here, fmt.Sprintf("is more than device %d has beside its slots with resident: always: %s of %s are theirs", d.ID, sizeWord(kept), sizeWord(d.Memory)),
				"lower it, or move one of them to another device")
			return
		}
	}
}

// sizeWord is a size in the largest unit that holds it without a rest.
func sizeWord(s Size) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if u := Size(sizeUnits[unit]); s >= u && s%u == 0 {
			return strconv.FormatInt(int64(s/u), 10) + unit
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// catalogDevices are a node's devices for the catalog.
func (n *Node) catalogDevices() (list []hearth.Device) {
	for _, d := range n.Devices {
		list = append(list, hearth.Device{ID: d.ID, Memory: int64(d.Memory)})
	}
	return list
}

// The variables by which an engine is shown only some of the machine's devices, and by which they are counted as nvidia-smi
// does.
const (
	visibleDevices = "CUDA_VISIBLE_DEVICES"
	deviceOrder    = "CUDA_DEVICE_ORDER"
)

// environment is the environment of a slot's engine: on a node with devices it sees its own ones only, unless it says so
// itself.
func (s *Slot) environment(n *hearth.Node) map[string]hearth.Secret {
	if _, ok := s.Env[visibleDevices]; ok || s.Driver != "exec" || len(n.Devices) == 0 {
		return s.Env
	}
	env := map[string]hearth.Secret{deviceOrder: "PCI_BUS_ID"}
	maps.Copy(env, s.Env)
	var ids []string
	for _, id := range (&hearth.Slot{Node: n, Devices: s.Devices}).On() {
		ids = append(ids, strconv.Itoa(id))
	}
	env[visibleDevices] = hearth.Secret(strings.Join(ids, ","))
	return env
}
