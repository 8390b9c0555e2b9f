package relay

import (
	"errors"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// elsewhere is the slot word of a failure that is no engine's: the machine that owns the slot refused the request, or
// cannot be reached. Nobody is to blame for it. "" = the failure is another one.
func elsewhere(f *upstream.Failure) hearth.SkipReason {
	refusal, ok := errors.AsType[*slot.Refusal](f.Err)
	if !ok {
		return ""
	}
	f.Blame, f.TimedOut, f.Message, f.RetryAfter = hearth.BlameNobody, false, refusal.Message, refusal.RetryAfter
	return refusal.Word
}

// waitedElsewhere adds what a request waited at another machine to its slot waits.
func (x *exchange) waitedElsewhere(l *slot.Lease, o *outcome) time.Duration {
	if l == nil || l.Waited == nil {
		return 0
	}
	d := l.Waited()
	o.SlotWait += d
	x.waitLeft = max(x.waitLeft-d, 0)
	return d
}
