package app

import (
	"context"

	"myip.co.kr/hearth/internal/toolcheck"
)

// checkTools has the tool calls of answers held against their schemas, by one worker, until the gateway is closed.
func (a *App) checkTools(ctx context.Context) {
	a.judge = toolcheck.New()
	a.metrics.Counter("hearth_tool_checks_total", "Answers whose tool calls were held against the schemas of their request.", func() float64 { return float64(a.judge.Judged()) })
	a.metrics.Counter("hearth_tool_checks_dropped_total", "Answers whose tool calls were not, because too many waited for it.", func() float64 { return float64(a.judge.Dropped()) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.judge.Run(ctx)
	}()
	a.push(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}
