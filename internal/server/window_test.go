package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/relay"
	"myip.co.kr/hearth/internal/slot"
)

// windowServer has one model in a slot whose engine, once loaded, tells of 8192 tokens.
func windowServer(t *testing.T) *Server {
	t.Helper()
	m, node := &hearth.Model{ID: "a/b"}, &hearth.Node{Name: "gpu-1", Exclusive: true}
	at := &hearth.Slot{Name: "b", Node: node, Model: m, Driver: "exec", Queue: 64, Wait: time.Minute, StartTimeout: time.Minute, DrainMax: time.Minute}
	p := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW"}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{p}, Nodes: []*hearth.Node{node}, Slots: []*hearth.Slot{at},
		Endpoints: []*hearth.Endpoint{{Model: m, Provider: p, Tag: "own", Slot: at}}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	f, err := slot.NewFleet(c, slot.Options{Driver: func(*hearth.Slot) (slot.Driver, error) { return &memEngine{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return New(Options{PublicCatalog: true}, Parts{Catalog: c, Fleet: f, Health: health.NewTracker(c)})
}

// A window that nobody configured is what the engine says, once it was loaded; one that is configured is that, or less.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := windowServer(t)
		e := s.Catalog.Endpoints[0]
		check := func(when string, configured, want int) {
			t.Helper()
			e.Context = configured
			list, _, _ := s.list(t, "a/b")
			if got := list["own"]["context_length"]; got != float64(want) {
				t.Errorf("%s, %d is configured: %v in the list of endpoints, want %d", when, configured, got, want)
			}
			m := s.modelJSON(e.Model, hearth.Money{Currency: "KRW"})
			x := &relay.Explained{In: chain.Input{Request: &hearth.Request{}, Views: chain.Views{Catalog: s.Catalog, Slots: s.Fleet.Views(s.Catalog.Slots, nil)}}}
			c := s.candidate(x, hearth.Candidate{Endpoint: e})
			if d := cmp.Diff([]*int{orNull(want), orNull(want), orNull(want)}, []*int{m.ContextLength, m.TopProvider.ContextLength, c.Context}); d != "" {
				t.Errorf("%s, %d is configured: the model, its top provider, explained: %s", when, configured, d)
			}
		}
		check("never loaded", 0, 0)
		check("never loaded", 4096, 4096)
		for _, o := range []struct {
			when string
			verb slot.Verb
		}{{"loaded", slot.Wake}, {"asleep again", slot.Sleep}} {
			if err := s.Fleet.Order(t.Context(), slot.Order{Slot: "b", Verb: o.verb}); err != nil {
				t.Fatal(err)
			}
			pass(3 * time.Second)
			check(o.when, 0, 8192)
			check(o.when, 4096, 4096)
			check(o.when, 32768, 8192)
		}
	})
}
