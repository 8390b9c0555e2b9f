package market

import (
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/health"
)

// opening is the instant at which every world begins.
var opening = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a world's time as the gateway's clock shows it.
func at(seconds float64) time.Time { return opening.Add(time.Duration(seconds * float64(time.Second))) }

// modelID is what all endpoints of a market serve.
const modelID = "market/model"

// catalog is the configuration of a gateway that buys from all endpoints of a market.
func catalog(list []Listing) (*hearth.Catalog, error) {
	m := &hearth.Model{ID: modelID}
	c := &hearth.Catalog{Currency: "USD", Models: []*hearth.Model{m}}
	for i := range list {
		p := &hearth.Provider{Slug: list[i].Name, Name: list[i].Name, Kind: hearth.External, Currency: "USD"}
		p.Limits.FirstByte = time.Duration(patience * float64(time.Second))
		c.Providers = append(c.Providers, p)
		c.Endpoints = append(c.Endpoints, &hearth.Endpoint{
			Model: m, Provider: p, Tag: list[i].Name, Priority: 50, List: hearth.Price{
				Prompt: decimal.NewFromFloat(list[i].In), Completion: decimal.NewFromFloat(list[i].Out), CacheRead: decimal.NewFromFloat(list[i].Cache),
			},
		})
	}
	return c, c.Seal()
}

// gateway is what all policies have in common: the chain is built as it is built for a caller, endpoints that failed three
// times in a row are left alone for a minute, and rate limits are respected.
type gateway struct {
	catalog *hearth.Catalog
	health  *health.Tracker
	rank    func(a *Arrival, id int, tier []hearth.Candidate, now float64)
	request hearth.Request
	view    func(now float64) []hearth.EndpointHealth
}

func newGateway(list []Listing) (*gateway, error) {
	c, err := catalog(list)
	if err != nil {
		return nil, err
	}
	g := &gateway{catalog: c, health: health.NewTracker(c), request: hearth.Request{Models: []string{modelID}, Stream: true}}
	g.view = func(float64) []hearth.EndpointHealth { return g.health.View() }
	return g, nil
}

func (g *gateway) order(a *Arrival, id int, now float64) []int {
	g.request.Estimate, g.request.Tools = a.In, a.Tools
	ch, err := chain.Build(chain.Input{
		Request: &g.request, Now: at(now), Views: chain.Views{Catalog: g.catalog, Health: g.view(now)},
		Rank: func(tier []hearth.Candidate) { g.rank(a, id, tier, now) },
	})
	if err != nil {
		return nil
	}
	list := make([]int, len(ch.Candidates))
	for i, c := range ch.Candidates {
		list[i] = c.Endpoint.Index
	}
	return list
}

func (g *gateway) again(_ *Arrival, _ int, rest []int, _ float64) []int { return rest }

// sent takes the permit of an endpoint; it is false while the endpoint is out.
func (g *gateway) sent(_ *Arrival, q *try, now float64) bool {
	p, ok := g.health.Take(q.endpoint, at(now))
	q.permit = p
	return ok
}

func (g *gateway) first(q *try, now float64) { q.permit.Answering(at(now)) }

func (g *gateway) ended(_ *Arrival, q *try, e ending, _ bool, _, now float64) {
	q.permit.Done([...]health.Outcome{answered: health.Success, failed: health.Failure, limited: health.RateLimited, broken: health.Failure}[e], 0, at(now))
}

func (g *gateway) beat(float64) {}

// reload makes the catalog of new lists hold.
func (g *gateway) reload(list []Listing) error {
	c, err := catalog(list)
	if err != nil {
		return err
	}
	from := c.From(g.catalog)
	g.catalog, g.health = c, g.health.Next(c, from)
	return nil
}
