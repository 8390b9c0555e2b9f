package app

import (
	"context"
	"errors"
	"log/slog"

	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/driver"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/relay"
	"myip.co.kr/hearth/internal/server"
	"myip.co.kr/hearth/internal/slot"
)

// Explain says which chain a request body would get under a configuration, as if every slot were asleep and every
// endpoint healthy. Nothing is started and no record is opened.
func Explain(ctx context.Context, cfg *config.Config, body []byte) (server.Explanation, error) {
	cat, err := cfg.Catalog()
	if err != nil {
		return server.Explanation{}, err
	}
	opt, err := relayOptions(cfg)
	if err != nil {
		return server.Explanation{}, err
	}
	log := slog.New(slog.DiscardHandler)
	fleet, err := slot.NewFleet(cat, driver.New(driver.Options{Log: log}), log)
	if err != nil {
		return server.Explanation{}, err
	}
	tracker := health.NewTracker(cat)
	rel := relay.New(opt, relay.Parts{Catalog: cat, Fleet: fleet, Health: tracker, Log: log})
	s := server.New(server.Options{}, server.Parts{Catalog: cat, Relay: rel, Fleet: fleet, Health: tracker, Log: log})
	x, err := s.Explain(body, nil)
	return x, errors.Join(err, fleet.Close(ctx))
}
