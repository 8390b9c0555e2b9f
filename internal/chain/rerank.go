package chain

import (
	"strings"

	"myip.co.kr/hearth"
)

// Rerank orders the untried rest of a tier anew, from in's present views, after tried failed: the leading run of rest
// that is of tried's model and priority. The rest of the chain stays as it was built, and so does everything under the
// caller's own order or sort. It works in place and returns rest.
func Rerank(in Input, tried hearth.Candidate, rest []hearth.Candidate) []hearth.Candidate {
	n := 0
	for n < len(rest) && rest[n].Endpoint.Model == tried.Endpoint.Model && rest[n].Endpoint.Priority == tried.Endpoint.Priority && !rest[n].LastResort {
		n++
	}
	if n < 2 || chosen(&in, tried.Endpoint.Model) {
		return rest
	}
	b := builder{Input: in}
	b.weigh()
	b.orderTier(rest[:n], false)
	if b.bars {
		b.demote(rest[:n])
	}
	b.makerFirst(rest[:n], false)
	return rest
}

// chosen says whether the caller chose the order of a model's endpoints.
func chosen(in *Input, m *hearth.Model) bool {
	p := &in.Request.Prefs
	if len(p.Order) > 0 || p.Sort != "" {
		return true
	}
	for _, name := range in.Request.Models {
		if strings.IndexByte(name, ':') < 0 {
			if in.Views.Catalog.Resolve(name) == m {
				return false
			}
		} else if w := resolve(in.Views.Catalog, name); w.model == m {
			return w.sort != ""
		}
	}
	return false
}
