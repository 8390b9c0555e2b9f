package app

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

// TestRoutingOptions: what the configuration says of routing reaches the router, and nothing is not the default.
func TestRoutingOptions(t *testing.T) {
	const models = "default_model: a/b\nproviders: [{slug: p, base_url: 'https://p.example/v1', api_key: k, models: [{model: a/b, price: {prompt: 1, completion: 1}}]}]\n"
	for _, c := range []struct {
		text string
		want routing.Options
	}{
		{models, routing.Options{Kappa: 1.5, MaxPremium: 0.05, TimeValue: 0.36, Explore: 0.03, Kappas: map[string]float64{}, MaxPremiums: map[string]float64{}}},
		{
			models + "routing: {kappa: 0.5, max_premium: 0%, time_value: 2.5, explore: 0%}\nmodels: [{id: a/b, kappa: 0.2, max_premium: 0%}]\n",
			routing.Options{Kappa: 0.5, MaxPremium: -1, TimeValue: 2.5, Explore: -1, Kappas: map[string]float64{"a/b": 0.2}, MaxPremiums: map[string]float64{"a/b": -1}},
		},
		{
			models + "routing: {explore: 5%}\nmodels: [{id: a/b, max_premium: 9%}]\n",
			routing.Options{Kappa: 1.5, MaxPremium: 0.05, TimeValue: 0.36, Explore: 0.05, Kappas: map[string]float64{}, MaxPremiums: map[string]float64{"a/b": 0.09}},
		},
	} {
		cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte(c.text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, routingOptions(cfg)); d != "" {
			t.Errorf("%s\n(-want +got):\n%s", c.text, d)
		}
	}
}

// TestRecall: the next gateway of a directory knows who is out, and what the router went by. What is larger than anything that
// is ever kept is not even read.
func TestRecall(t *testing.T) {
	k, log := keeperOf(t, 1, 2)
	k.answers(0, 3)
	was := k.app.now.Load()
	for range health.Threshold {
		p, _ := was.health.Take(1, time.Now())
		p.Done(health.Failure, 0, time.Now())
	}
	k.keep(t.Context())
	next := func() (out bool, sessions int) {
		s := &snapshot{catalog: was.catalog, health: health.NewTracker(was.catalog), router: routing.NewRouter(was.catalog, routing.Options{}, time.Now())}
		k.app.recall(t.Context(), s)
		return s.health.View()[1].Skip == hearth.SkipCooldown, len(s.router.State(time.Now()).Sessions)
	}
	if out, sessions := next(); !out || sessions != 3 || log.Len() > 0 {
		t.Errorf("out %v, %d sessions; log %s", out, sessions, log)
	}
	state := append([]byte(k.kept(t)), bytes.Repeat([]byte(" "), learnedMost)...)
	if err := k.app.store.SaveLearned(t.Context(), learnedVersion, state); err != nil {
		t.Fatal(err)
	}
	if out, sessions := next(); out || sessions != 0 || !strings.Contains(log.String(), "is learned anew") {
		t.Errorf("out %v, %d sessions; log %s", out, sessions, log)
	}
}

// TestLearn: what is learned is kept every few seconds and at the end, even of a start whose context has ended, and what was
// known at first is no news.
func TestLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, log := keeperOf(t, 1, 2)
		k.answers(0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		k.app.learn(ctx)
		cancel()
		stored := func() int {
			_, b, err := k.app.store.Learned(t.Context())
			if err != nil {
				return -1
			}
			return strings.Count(string(b), `"armed":true`)
		}
		<-time.After(learnedEvery + time.Second)
		if n := stored(); n != -1 {
			t.Errorf("%d sessions are kept without news", n)
		}
		k.answers(1, 1)
		<-time.After(learnedEvery)
		if n := stored(); n != 2 {
			t.Errorf("%d sessions are kept after %v", n, learnedEvery)
		}
		k.answers(2, 1)
		for _, end := range k.app.closers {
			if err := end(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := stored(); n != 3 || log.Len() > 0 {
			t.Errorf("%d sessions are kept at the end; log %s", n, log)
		}
	})
}
