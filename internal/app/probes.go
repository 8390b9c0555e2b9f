package app

import (
	"context"
	"time"

	"myip.co.kr/hearth/internal/relay"
)

// probe has endpoints that have failed asked whether they answer again, until the gateway is closed. What the configuration
// says of it holds as soon as it is reloaded.
func (a *App) probe(ctx context.Context) {
	count := a.metrics.Probes()
	p := relay.Prober{
		Current: func() *relay.Relay { return a.now.Load().relay },
		Every:   func() time.Duration { return a.config().Routing.ProbeEvery },
		Told: func(currency string, p relay.Probed) {
			count(p.Endpoint, p.Word(), currency, p.Cost)
		},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	a.push(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}
