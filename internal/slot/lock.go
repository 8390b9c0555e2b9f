package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// lockRetry is the pace of asking for the lock of a node that another gateway owns.
const lockRetry = 5 * time.Second

// own makes sure that nobody else owns the node, now or, asking again and again, as soon as that is so. It reports
// whether the node is ours now.
func (n *node) own(hn *hearth.Node, lock func(*hearth.Node) (release func(), err error)) bool {
	release, err := lock(hn)
	if err == nil {
		n.runs.Go(func() { <-n.done; release() })
		return true
	}
	n.log.Warn("the node cannot be locked, as when another gateway owns it: its slots are not used", "error", err)
	n.runs.Go(func() {
		t := time.NewTicker(lockRetry)
		defer t.Stop()
		for {
			select {
			case <-n.done:
				return
			case <-t.C:
			}
			if release, err := lock(hn); err == nil {
				n.log.Info("the node is ours")
				n.tell(message{event: event{kind: evOwned}})
				<-n.done
				release()
				return
			}
		}
	})
	return false
}
