package slot

import "time"

// stepCase is a script of events and what comes of them. Slots a, b and c: one place, a queue of two, 90 s to
// become ready, 10 s for a place when there is another candidate; the node: 10 s turn, 5 s residence, 40 s to drain when ordered.
type stepCase struct {
	name   string
	shared bool
	sleep  time.Duration
	exit   string
	play   string
	want   string
}

// waitCases are about who is let in, who waits, how long, and what a refusal says.
var waitCases = []stepCase{
	{
		name: "cold start grants when ready",
		play: `ask a 1 1h
		       pass 20s
		       ready a`,
		want: `0s start a
		       20s grant 1`,
	}, {
		name: "two at once start one engine",
		play: `ask a 1 1h
		       ask a 2 1h
		       pass 3s
		       ready a
		       release 1`,
		want: `0s start a
		       3s grant 1
		       3s grant 2`,
	}, {
		name: "the wait ends at exactly the slot's budget",
		play: `ask a 1 1h
		       pass 30s
		       ask a 2 1h
		       pass 89s`,
		want: `0s start a
		       1m30s refuse 1 slot_loading 1s`,
	}, {
		name: "a load that took longer than the wait is there for the retry",
		play: `ask a 1 1h
		       pass 100s
		       ready a
		       ask a 2 1h`,
		want: `0s start a
		       1m30s refuse 1 slot_loading 1s
		       1m40s grant 2`,
	}, {
		name: "an alarm that comes late serves nobody past the budget",
		play: `ask a 1 10s
		       late 11s
		       ready a`,
		want: `0s start a
		       11s refuse 1 slot_loading 19s`,
	}, {
		name: "the request's own budget is shorter, retry after says the rest of the load",
		play: `ask a 1 10s
		       pass 10s`,
		want: `0s start a
		       10s refuse 1 slot_loading 20s`,
	}, {
		name: "the second load is predicted from the first",
		play: `ask a 1 1h
		       pass 8s
		       ready a
		       ask b 2 1h
		       cancel 1
		       pass 5s
		       ended a
		       pass 1s
		       ready b
		       cancel 2
		       pass 5s
		       ask a 3 0s
		       ask a 4 2s
		       ended b
		       pass 2s`,
		want: `0s start a
		       8s grant 1
		       13s stop a
		       13s start b
		       14s grant 2
		       19s refuse 3 slot_busy 8s
		       19s stop b
		       19s start a
		       21s refuse 4 slot_loading 6s`,
	}, {
		name: "no budget takes a free place or leaves",
		play: `ask a 1 0s
		       ask a 2 1h
		       ready a
		       release 2
		       ask a 3 0s
		       ask a 4 0s`,
		want: `0s refuse 1 slot_loading 30s
		       0s start a
		       0s grant 2
		       0s grant 3
		       0s refuse 4 slot_busy 1s`,
	}, {
		name: "the queue holds its number and refuses the next at once",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       ask a 3 1h
		       ask a 4 1h
		       release 1
		       ask a 5 1h`,
		want: `0s start a
		       0s grant 1
		       0s refuse 4 slot_queue_full 1s
		       0s grant 2`,
	}, {
		name: "while loading, the queue also holds who will be in the engine",
		play: `ask a 1 1h
		       ask a 2 1h
		       ask a 3 1h
		       ask a 4 1h
		       ready a`,
		want: `0s start a
		       0s refuse 4 slot_queue_full 30s
		       0s grant 1`,
	}, {
		name: "a place in a ready slot is waited for shorter when there is another candidate",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h next
		       ask a 3 1h
		       pass 2m`,
		want: `0s start a
		       0s grant 1
		       10s refuse 2 slot_busy 1s
		       1m30s refuse 3 slot_busy 1s`,
	}, {
		name: "the shorter wait begins when the slot is ready",
		play: `ask a 1 1h
		       ask a 2 1h next
		       pass 40s
		       ready a
		       pass 1m`,
		want: `0s start a
		       40s grant 1
		       50s refuse 2 slot_busy 1s`,
	}, {
		name: "first in, first out",
		play: `ask a 1 1h
		       ask a 2 1h
		       ask a 3 1h
		       ready a
		       cancel 2
		       release 1`,
		want: `0s start a
		       0s grant 1
		       0s grant 3`,
	}, {
		name: "a waiter who left is not granted and the load goes on",
		play: `ask a 1 1h
		       cancel 1
		       pass 7s
		       ready a
		       ask a 2 1h`,
		want: `0s start a
		       7s grant 2`,
	}, {
		name: "a cancellation that crosses the grant gives the place back",
		play: `ask a 1 1h
		       ask a 2 1h
		       ready a
		       cancel 1
		       release 1
		       cancel 2`,
		want: `0s start a
		       0s grant 1
		       0s grant 2`,
	},
}
