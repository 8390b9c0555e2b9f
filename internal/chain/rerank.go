package chain

import "myip.co.kr/hearth"

// Rerank orders the untried rest of a tier anew, from in's present views, after tried failed: the leading run of rest
// that is of tried's model and priority. The rest of the chain stays as it was built, and so does everything under the
// caller's own order or sort. It works in place and returns rest.
func Rerank(in Input, tried hearth.Candidate, rest []hearth.Candidate) []hearth.Candidate {
	p := &in.Request.Prefs
	if len(p.Order) > 0 || p.Sort != "" {
		return rest
	}
	n := 0
	for n < len(rest) && rest[n].Endpoint.Model == tried.Endpoint.Model && rest[n].Endpoint.Priority == tried.Endpoint.Priority &&
		!rest[n].LastResort {
		n++
	}
	if n > 1 {
		rank := in.Rank
		if rank == nil {
			rank = ByPrice(in.Request)
		}
		b := builder{req: in.Request, views: in.Views, now: in.Now}
		b.orderTier(rest[:n], rank)
	}
	return rest
}
