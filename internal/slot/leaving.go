package slot

import (
	"maps"
	"slices"

	"myip.co.kr/hearth"
)

// Leaving is a slot of this machine that the configuration has no more, while something of its engine is left.
type Leaving struct {
	Slot *hearth.Slot // as it was configured last
	View hearth.SlotView
}

// Leaving are the slots that drain or stop since a reload took them out of the configuration. It takes no lock.
func (f *Fleet) Leaving() []Leaving {
	var list []Leaving
	for _, c := range f.table.Load().leaving {
		v := c.now()
		if v.State == hearth.SlotAsleep || v.State == hearth.SlotFailed && c.engine.Load() == nil {
			continue
		}
		list = append(list, Leaving{c.conf.Load(), v})
	}
	return list
}

// leaving are the cells of all nodes of this machine that are in none of a catalog's places, by node.
func (f *Fleet) leaving(t *table) (cells []*cell) {
	for _, name := range slices.Sorted(maps.Keys(f.locals)) {
		for _, c := range f.locals[name].plan {
			if at := t.names[c.conf.Load().Name]; at == nil || at.cell != c {
				cells = append(cells, c)
			}
		}
	}
	return cells
}
