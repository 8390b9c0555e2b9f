package app

import (
	"context"
	"time"

	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/routing"
)

// routeEvery is how often what the router goes by is made anew from what it has learned.
const routeEvery = 250 * time.Millisecond

// routingOptions are what the configuration says of routing.
func routingOptions(cfg *config.Config) routing.Options {
	r := &cfg.Routing
	o := routing.Options{
		Kappa: r.Kappa.InexactFloat64(), MaxPremium: r.MaxPremium.InexactFloat64(), TimeValue: r.TimeValue.InexactFloat64(), Explore: r.Explore.InexactFloat64(),
		Kappas: map[string]float64{}, MaxPremiums: map[string]float64{},
	}
	none := func(v *float64) {
		if *v == 0 {
			*v = -1
		}
	}
	none(&o.Explore)
	none(&o.MaxPremium)
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Kappa != nil {
			o.Kappas[m.ID] = m.Kappa.InexactFloat64()
		}
		if m.MaxPremium != nil {
			own := m.MaxPremium.InexactFloat64()
			none(&own)
			o.MaxPremiums[m.ID] = own
		}
	}
	return o
}

// route keeps the router's view fresh until the gateway is closed. What it learns it learns whether or not it orders
// anything, so that it knows the endpoints when it is to.
func (a *App) route(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(routeEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-t.C:
				a.now.Load().router.Refresh(now)
			}
		}
	}()
	a.push(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}
