package chain

import (
	"fmt"
	"slices"
	"strings"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

// noteNames says which names in the caller's conditions mean nobody. They are no error, for a list may name providers
// that serve other models or come later; but a slip of the finger in ignore must not go unnoticed.
func (b *builder) noteNames() {
	p := &b.req.Prefs
	for _, list := range [...]struct {
		field string
		names []string
	}{{"only", p.Only}, {"ignore", p.Ignore}, {"order", p.Order}} {
		for _, name := range list.names {
			if b.means(name) {
				continue
			}
			note := fmt.Sprintf("provider.%s: there is no provider %q", list.field, name)
			if near := suggest.Nearest(name, b.providerNames(), 1); len(near) > 0 {
				note += ", did you mean " + near[0] + "?"
			}
			b.chain.Notes = append(b.chain.Notes, note)
		}
	}
}

// means says whether the name means a provider or an endpoint of the catalog.
func (b *builder) means(name string) bool {
	cat := b.views.Catalog
	return slices.ContainsFunc(cat.Providers, func(p *hearth.Provider) bool {
		return strings.EqualFold(name, p.Slug) || strings.EqualFold(name, p.Name)
	}) || slices.ContainsFunc(cat.Endpoints, func(e *hearth.Endpoint) bool { return strings.EqualFold(name, e.Tag) })
}

func (b *builder) providerNames() []string {
	var names []string
	for _, p := range b.views.Catalog.Providers {
		names = append(names, p.Slug, p.Name)
	}
	for _, e := range b.views.Catalog.Endpoints {
		names = append(names, e.Tag)
	}
	return names
}
