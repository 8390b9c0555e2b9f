package driver

import (
	"context"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// findLimit is how long an engine may take to say whether it runs, when a gateway starts.
const findLimit = 10 * time.Second

// find looks for engines that are started by orders and run already: an earlier gateway has left them. At most one per
// device of an exclusive node is added to engines, which holds those that are adopted already; the others are stopped.
func (d *Drivers) find(ctx context.Context, c *hearth.Catalog, engines map[string]slot.Engine) {
	all := make([]*ordered, len(c.Slots))
	var asking sync.WaitGroup
	for i, s := range c.Slots {
		if s.Node.Remote != nil || s.Driver != Command && s.Driver != HTTP && s.Driver != Docker {
			continue
		}
		asking.Go(func() { all[i] = d.running(ctx, s) })
	}
	asking.Wait()
	var stopping sync.WaitGroup
	for i, e := range all {
		if e == nil {
			continue
		}
		s := c.Slots[i]
		var err error
		if e.place, err = d.occupy(ctx, s); err == nil {
			d.o.Log.Info("engine that runs already is adopted", "slot", s.Name)
			engines[s.Name] = e
			go e.begin(false)
			continue
		}
		close(e.watched)
		stopping.Go(func() {
			d.o.Log.Info("engine that runs already is stopped: its node cannot be had", "slot", s.Name, "error", err)
			if err := e.Stop(ctx, s.StopGrace); err != nil {
				d.o.Log.Error("engine that runs already is left", "slot", s.Name, "error", err)
			}
		})
	}
	stopping.Wait()
}

// running is the engine of a slot if it runs, else nil: what cannot be asked will say so when it is started.
func (d *Drivers) running(ctx context.Context, s *hearth.Slot) *ordered {
	o, err := d.ordered(s)
	if err != nil {
		return nil
	}
	e, err := o.engine(s, nil)
	if err != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	state, err := e.do.status(limited)
	if state == unsure && err == nil { // it has no status: then it runs if it answers
		if report, bad := e.look.look(limited, e.url, s.APIKey); bad == nil && report.Ready {
			state = runs
		}
	}
	if state != runs {
		e.letGo()
		return nil
	}
	return e
}
