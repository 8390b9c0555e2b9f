package market

import (
	"fmt"
	"math"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// quantity is something that is measured of a request.
type quantity uint8

const (
	paid   quantity = iota // in the billing currency
	first                  // seconds to the first token, of streams
	whole                  // seconds to the end of the answer
	spoilt                 // failed tries
	burden                 // price and waiting together, in the billing currency, at the value of time that was in force
	quantities
)

// Why a record is carried over as it is.
const (
	carriedUnrouted = "not_ordered" // it does not say how its endpoint was chosen: by the caller, or by price
	carriedLocal    = "local"       // an own slot answered
	carriedOnly     = "no_choice"   // there was one candidate
	carriedMoved    = "moved"       // what was drawn could not be tried, or another one was put before it
	carriedFailed   = "failed"      // nobody answered, or the caller left
)

// fate is what a replay takes from a record.
type fate struct {
	at     time.Time
	model  string
	tier   *hearth.Routed // nil = it is carried over
	chosen int            // of its candidates
	why    string         // it is carried over
	has    [quantities]bool
	got    [quantities]float64 // with before
	before [quantities]float64 // what it came to before the choice
	tokens float64             // of the answer
}

// costOf is an amount as sums of estimates can hold it.
func costOf(n hearth.Nano) float64 { return float64(n) / 1e9 }

// fateOf reads a record that was checked.
func fateOf(g *hearth.Generation) fate {
	f := fate{at: g.CreatedAt, model: g.Model, has: [quantities]bool{paid: true, spoilt: true}}
	if f.model == "" && len(g.Requested) > 0 {
		f.model = g.Requested[0]
	}
	f.got[paid] = costOf(g.Bill.Cost)
	if f.why = f.decide(g); f.why == "" && !complete(g) {
		f.tier, f.why = nil, carriedFailed
	}
	if !complete(g) {
		return f
	}
	f.has[whole], f.got[whole], f.tokens = true, endedAfter(g), float64(g.Usage.CompletionTokens)
	if f.has[first] = g.Streamed && g.FirstToken > 0; f.has[first] {
		f.got[first] = min(g.FirstToken.Seconds(), f.got[whole])
	}
	if f.tier != nil {
		f.model = f.tier.Model
		f.has[burden], f.got[burden] = true, f.burden()
	}
	return f
}

// complete says whether the record is that of a complete answer.
func complete(g *hearth.Generation) bool {
	return g.HTTP == 200 && g.Error == "" && !g.Cancelled && g.Endpoint != ""
}

// endedAfter is how long the answer took from the arrival on, without what a slow caller added.
func endedAfter(g *hearth.Generation) float64 {
	total := g.Duration
	if g.Generating > 0 {
		before := time.Duration(0)
		for i := range g.Attempts {
			if a := &g.Attempts[i]; a.Verdict == hearth.TryNext {
				before += a.Latency
			}
		}
		total = min(total, before+g.Generating)
	}
	return total.Seconds()
}

// decide finds the choice that is made anew: that of the first tier of which something was tried. It counts failed tries.
func (f *fate) decide(g *hearth.Generation) (why string) {
	why = carriedUnrouted
	if len(g.Routing) == 0 && complete(g) && g.Local > 0 && len(g.Attempts) > 0 {
		why = carriedLocal
	}
	var before time.Duration
	for i := range g.Attempts {
		a := &g.Attempts[i]
		if a.Skip == "" && f.tier == nil && why != carriedMoved && why != carriedOnly {
			if t := tierOf(g, a.Endpoint); t != nil {
				why = f.begin(t, a.Endpoint, before)
			}
		}
		before += a.Latency
		if a.Skip == "" && a.Verdict != hearth.Served && a.Verdict != hearth.Gone {
			f.got[spoilt]++
		}
	}
	if why == carriedUnrouted && len(g.Routing) > 0 {
		why = carriedLocal
		if !complete(g) {
			why = carriedFailed
		}
	}
	return why
}

// begin takes a tier whose endpoint was tried first.
func (f *fate) begin(t *hearth.Routed, endpoint string, before time.Duration) (why string) {
	if t.Reason == string(routing.Only) || len(t.Candidates) < 2 {
		return carriedOnly
	}
	if endpoint != t.Endpoint {
		return carriedMoved
	}
	f.tier = t
	for i := range t.Candidates {
		if t.Candidates[i].Endpoint == endpoint {
			f.chosen = i
		}
	}
	f.before = [quantities]float64{first: before.Seconds(), whole: before.Seconds(), spoilt: f.got[spoilt]}
	return ""
}

// tierOf is the tier of a record that an endpoint is in, as it was ordered at first; nil = none.
func tierOf(g *hearth.Generation, endpoint string) *hearth.Routed {
	for i := range g.Routing {
		t := &g.Routing[i]
		if t.Reason == string(routing.Retry) {
			continue
		}
		if t.Endpoint == endpoint {
			return t
		}
		for k := range t.Candidates {
			if t.Candidates[k].Endpoint == endpoint {
				return t
			}
		}
	}
	return nil
}

// burden is price and waiting together, from the choice on.
func (f *fate) burden() float64 {
	wait, rest := f.seconds()
	total := f.got[whole] - f.before[whole]
	if !f.has[first] {
		c := &f.tier.Candidates[f.chosen]
		return f.got[paid] + (wait*c.TTFT+rest*c.Rest)*total/max(c.TTFT+c.Rest, 1e-9)
	}
	till := f.got[first] - f.before[first]
	return f.got[paid] + wait*till + rest*max(total-till, 0)
}

// seconds is what a second was worth before the first token, and after it.
func (f *fate) seconds() (wait, rest float64) {
	c := &f.tier.Candidates[f.chosen]
	if c.TTFT > 0 {
		wait = c.Wait / c.TTFT
	}
	if c.Rest > 0 {
		rest = c.Decode / c.Rest
	}
	return wait, rest
}

// expected is what was expected of a candidate, with the session's cache there or not.
func (f *fate) expected(i int, warm bool) (q [quantities]float64) {
	c := &f.tier.Candidates[i]
	price, ttft := routing.Expected(c, warm)
	ttft = max(ttft-c.Queue*(1-1/routing.QueueWeight), ttft/20) + failing(f.tier, c)
	wait, rest := f.seconds()
	return [quantities]float64{
		paid: price, first: ttft, whole: ttft + c.Rest, spoilt: max(c.Tries-1, 0), burden: price + wait*ttft + rest*c.Rest,
	}
}

// failing is for how many seconds a request is expected to wait for tries that fail, by what they cost. Failed is Fixed, the
// same once more by kappa, and the seconds at what one before the first token is worth.
func failing(t *hearth.Routed, c *hearth.RoutedTerms) float64 {
	if !(c.Wait > 0 && c.TTFT > 0) {
		return 0
	}
	return clamp((c.Failed-c.Fixed*(1+t.Kappa))/(c.Wait/c.TTFT), 0, patience)
}

// Bounds of what a record may say.
const (
	maxRecordSeconds = 30 * 86400.0
	maxRecordTokens  = 1e9
	maxCandidates    = 64
	maxTiers         = 64
	maxFigure        = 1e12
	anew             = "export the records anew, or leave the line out"
)

// checkRecord returns what cannot be true of a record.
func checkRecord(g *hearth.Generation) error {
	if g.CreatedAt.IsZero() {
		return fmt.Errorf("it is no record of a request: it has no created_at; %s", anew)
	}
	if g.Bill.Cost < 0 {
		return fmt.Errorf("its cost is negative; %s", anew)
	}
	if !g.Usage.Valid() || g.Usage.CompletionTokens > maxRecordTokens {
		return fmt.Errorf("its counts of tokens cannot be true; %s", anew)
	}
	for name, d := range map[string]time.Duration{"first_token": g.FirstToken, "duration": g.Duration, "generating": g.Generating} {
		if s := d.Seconds(); s < 0 || s > maxRecordSeconds {
			return fmt.Errorf("%s of %g seconds cannot be true; %s", name, s, anew)
		}
	}
	for i := range g.Attempts {
		if s := g.Attempts[i].Latency.Seconds(); s < 0 || s > maxRecordSeconds {
			return fmt.Errorf("attempts[%d].latency of %g seconds cannot be true; %s", i, s, anew)
		}
	}
	if len(g.Routing) > maxTiers {
		return fmt.Errorf("routing has %d tiers; at most %d can be true; %s", len(g.Routing), maxTiers, anew)
	}
	for i := range g.Routing {
		if err := checkTier(&g.Routing[i]); err != nil {
			return fmt.Errorf("routing[%d]%w; %s", i, err, anew)
		}
	}
	return nil
}

func checkTier(t *hearth.Routed) error {
	if len(t.Candidates) > maxCandidates {
		return fmt.Errorf(".candidates: %d of them; at most %d can be true", len(t.Candidates), maxCandidates)
	}
	if err := within(".share", t.Share, 1.001); err != nil {
		return err
	}
	if err := within(".kappa", t.Kappa, 1000); err != nil {
		return err
	}
	found := len(t.Candidates) == 0
	for i := range t.Candidates {
		c := &t.Candidates[i]
		found = found || c.Endpoint == t.Endpoint
		for _, f := range []struct {
			name     string
			is, most float64
		}{
			{"share", c.Share, 1.001}, {"explored", c.Explored, 1.001}, {"ramp", c.Ramp, 1.001}, {"error_rate", c.Errors, 1.001}, {"rate_429", c.Limits, 1.001},
			{"bad_tool_rate", c.BadTools, 1.001}, {"price", c.Price, maxFigure}, {"wait", c.Wait, maxFigure}, {"decode", c.Decode, maxFigure},
			{"failed_tries", c.Failed, maxFigure}, {"failed_fixed", c.Fixed, maxFigure}, {"quality", c.Quality, maxFigure}, {"list_price", c.List, maxFigure},
			{"other_price", c.OtherPrice, maxFigure}, {"ttft_seconds", c.TTFT, maxFigure}, {"other_ttft_seconds", c.OtherTTFT, maxFigure},
			{"rest_seconds", c.Rest, maxFigure}, {"queue_seconds", c.Queue, maxFigure}, {"tries", c.Tries, maxFigure}, {"cap", c.Cap, maxFigure}, {"knee", c.Knee, maxFigure}, {"in_flight", float64(c.InFlight), maxFigure},
		} {
			if err := within("", f.is, f.most); err != nil {
				return fmt.Errorf(".candidates[%d].%s%w", i, f.name, err)
			}
		}
		if !(c.Later <= 0 && c.Later >= -maxFigure) {
			return fmt.Errorf(".candidates[%d].later_turns: %g is not from -%g to 0", i, c.Later, maxFigure)
		}
	}
	if !found {
		return fmt.Errorf(".candidates: the endpoint in the first place is not among them")
	}
	return nil
}

// within returns what is wrong with a figure that is to be from 0 to most.
func within(name string, x, most float64) error {
	if math.IsNaN(x) || x < 0 || x > most {
		return fmt.Errorf("%s: %g is not from 0 to %g", name, x, math.Floor(most))
	}
	return nil
}
