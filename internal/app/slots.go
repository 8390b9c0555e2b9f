package app

import (
	"cmp"
	"context"
	"path/filepath"

	"myip.co.kr/hearth/internal/driver"
	"myip.co.kr/hearth/internal/slot"
)

// openSlots takes over or ends what an earlier gateway of the data directory left running, which can take as long as those
// engines take to stop, and makes the slots. Nothing is started.
func (a *App) openSlots(ctx context.Context, o Options) error {
	orders, operator, err := openOrders(a.config().DataDir) // before anything is taken over
	if err != nil {
		return err
	}
	a.orders = orders
	drivers, err := driver.New(driver.Options{
		Log: o.Log, Dir: filepath.Join(a.config().DataDir, "slots"), Ports: a.config().Local.Ports(), LockDir: cmp.Or(a.config().Local.LockDir, o.LockDir),
	})
	if err != nil {
		return err
	}
	adopted, err := drivers.Sweep(ctx, a.Catalog())
	if err != nil {
		return err
	}
	a.fleet, err = slot.NewFleet(a.Catalog(), slot.Options{
		Driver: drivers.For, Lock: drivers.Lock, Adopted: adopted, Operator: operator, Memory: a.memory(), Remote: remote(o), Log: o.Log,
	})
	if err != nil {
		return err
	}
	a.push(a.fleet.Close)
	a.remember()
	return nil
}
