package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/driver"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/relay"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/server"
	"myip.co.kr/hearth/internal/slot"
)

// Explain says which chain a request body would get under a configuration, as if every slot were asleep and every
// endpoint healthy and not measured yet. Nothing is started and nothing is written. key is the key whose policy counts, by its name, id or
// label; "" is one that may do everything. What a key has spent does not count here.
func Explain(ctx context.Context, cfg *config.Config, body []byte, key string) (server.Explanation, error) {
	cat, err := catalogOf(cfg)
	if err != nil {
		return server.Explanation{}, err
	}
	opt, err := relayOptions(cfg)
	if err != nil {
		return server.Explanation{}, err
	}
	var caller *hearth.Key
	if key != "" {
		if caller, err = keyOf(ctx, cfg, key); err != nil {
			return server.Explanation{}, err
		}
	}
	log := slog.New(slog.DiscardHandler)
	drivers, err := driver.New(driver.Options{Log: log})
	if err != nil {
		return server.Explanation{}, err
	}
	fleet, err := slot.NewFleet(cat, slot.Options{Driver: drivers.For, Remote: notAsked, Log: log})
	if err != nil {
		return server.Explanation{}, err
	}
	tracker, router := health.NewTracker(cat), routing.NewRouter(cat, routingOptions(cfg), time.Now())
	rel := relay.New(opt, relay.Parts{Catalog: cat, Fleet: fleet, Health: tracker, Router: router, Media: fetcher(cfg, ""), Log: log}) // nothing is downloaded
	s := server.New(server.Options{}, server.Parts{Catalog: cat, Relay: rel, Fleet: fleet, Health: tracker, Log: log})
	x, err := s.Explain(body, caller)
	return x, errors.Join(err, fleet.Close(ctx))
}

// keyOf finds a key in the database of a configuration. A gateway may be running on it.
func keyOf(ctx context.Context, cfg *config.Config, which string) (*hearth.Key, error) {
	if _, err := os.Stat(databasePath(cfg)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there are no keys in data_dir %s yet: start hearth once, or make one with hearth keys create", cfg.DataDir)
	}
	keys, err := openDirect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	k, err := keys.Find(ctx, which)
	return &k, errors.Join(err, keys.Close())
}
