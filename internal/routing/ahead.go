package routing

// Where the first request of a conversation goes, its cache is for all those that follow: no cache holds anything of it yet,
// but of two endpoints at the same price the one whose cache gives more is the cheaper one for the conversation.

// turnPrior is how many requests that open a conversation, and do not go on, are taken to have been seen.
const turnPrior = 1.0

// turn notes an answered request with a session: whether it went on with one that was known.
func (m *means) turn(goes bool) {
	if goes {
		m.Went++
	} else {
		m.Opened++
	}
}

// later is what part of the requests in conversations go on with one, at least 0 and less than 1.
func (m *means) later() float64 {
	went := max(m.Went, 0)
	return went / (went + max(m.Opened, 0) + turnPrior)
}

// returning is how many tokens the cache may hold of a request that goes on where it is, on average.
func (m *means) returning() float64 {
	if !(m.Ons > 0) {
		return 0
	}
	return max(m.Prefix/m.Ons, 0)
}

// ahead finds what part of a request's cost each endpoint's cache saves over a conversation: of the model's mean request,
// with the mean prefix warm there or with nothing warm, by how often requests go on. mean is the model's mean request.
func (v *view) ahead(mean query) {
	mean.kappa, mean.prefix = v.kappa, v.prefix
	for i := range v.rows {
		var warm, cold terms
		r := &v.rows[i]
		mean.trust = -1 // the prefix is a mean, and it is here
		v.cost(&warm, r, &mean, r.flight)
		mean.trust = 0
		v.cost(&cold, r, &mean, r.flight)
		r.keeps = 0
		if saved := 1 - warm.R/cold.R; saved > 0 { // not if it is no number
			r.keeps = v.later * saved
		}
	}
}
