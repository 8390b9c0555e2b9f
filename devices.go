package hearth

import "strconv"

// Device is one device of a node, such as a GPU.
type Device struct {
	ID     int   // its number on the machine
	Memory int64 // bytes that engines may take of it, 0 = not said
}

// On are the devices of its node that the slot takes: those that it names, else all. A node that names none is one device,
// with the number 0.
func (s *Slot) On() []int {
	switch {
	case len(s.Node.Devices) == 0:
		return []int{0}
	case len(s.Devices) > 0:
		return s.Devices
	}
	all := make([]int, len(s.Node.Devices))
	for i, d := range s.Node.Devices {
		all[i] = d.ID
	}
	return all
}

// Alone are names for the devices that the slot's engine has to itself, unique over all nodes: those of an exclusive node.
// A companion has none, and lives beside whatever is there.
func (s *Slot) Alone() []string {
	switch {
	case s.Node == nil || !s.Node.Exclusive || s.Companion:
		return nil
	case len(s.Node.Devices) == 0:
		return []string{s.Node.Name}
	}
	var names []string
	for _, id := range s.On() {
		names = append(names, s.Node.Name+"/"+strconv.Itoa(id))
	}
	return names
}

// Vies says whether two slots compete for a device: where the engine of one is, the other's may have to wait until it is
// gone.
func (s *Slot) Vies(o *Slot) bool {
	if s == o || s.Node != o.Node || s.Companion || o.Companion {
		return false
	}
	for _, a := range s.On() {
		for _, b := range o.On() {
			if a == b && (s.Node.Exclusive || s.Node.memory(a) > 0) {
				return true
			}
		}
	}
	return false
}

func (n *Node) memory(device int) int64 {
	for _, d := range n.Devices {
		if d.ID == device {
			return d.Memory
		}
	}
	return 0
}
