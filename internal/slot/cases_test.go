package slot

import "time"

// stepCases are scripts of events and what comes of them. Slots a, b and c: one place, a queue of two, 90 s to
// become ready, 10 s for a place when there is another candidate; the node: 10 s turn, 5 s residence.
var stepCases = []struct {
	name   string
	shared bool
	sleep  time.Duration
	play   string
	want   string
}{
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
		       0s refuse 4 slot_queue_full 1s
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
	}, {
		name: "a crash fails the slot and restarts after the back-off",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       ended a
		       ask a 3 1h
		       pass 1s
		       ask a 4 1h
		       release 1
		       ready a`,
		want: `0s start a
		       0s grant 1
		       0s refuse 2 slot_failed 1s
		       0s refuse 3 slot_failed 1s
		       1s start a
		       1s grant 4`,
	}, {
		name: "failed starts back off twice as long each time",
		play: `ask a 1 1h
		       ended a
		       pass 1s
		       ask a 2 1h
		       ended a
		       pass 500ms
		       ask a 3 1h
		       pass 1500ms
		       ask a 4 1h
		       ended a`,
		want: `0s start a
		       0s refuse 1 slot_failed 1s
		       1s start a
		       1s refuse 2 slot_failed 2s
		       1.5s refuse 3 slot_failed 1.5s
		       3s start a
		       3s refuse 4 slot_failed 4s`,
	}, {
		name: "a start that takes too long has failed, and the node is free only when the engine is gone",
		play: `ask a 1 1h
		       pass 2m
		       ask b 2 1h
		       ask a 3 1h
		       pass 10s
		       ask a 4 1h
		       ended a
		       ask a 5 1s
		       pass 1s`,
		want: `0s start a
		       1m30s refuse 1 slot_loading 1s
		       2m0s stop a
		       2m0s refuse 3 slot_failed 1s
		       2m10s refuse 4 slot_failed 1s
		       2m10s start b
		       2m11s refuse 5 slot_busy 1m4s`,
	}, {
		name: "a resident gives way when idle, not before its residence",
		play: `ask a 1 1h
		       ready a
		       release 1
		       pass 2s
		       ask b 2 1h
		       pass 10s
		       ended a
		       pass 3s
		       ready b`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       12s start b
		       15s grant 2`,
	}, {
		name: "within a turn as many are served as arrive, then those in flight finish",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1h
		       pass 9s
		       ask a 3 1h
		       release 1
		       pass 1s
		       ask a 4 1h
		       pass 10s
		       release 3
		       ended a`,
		want: `0s start a
		       0s grant 1
		       9s grant 3
		       20s stop a
		       20s start b`,
	}, {
		name: "a swap whose waiter left is called off and the next is served at once",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1h
		       pass 10s
		       ask a 3 1h
		       cancel 2
		       release 1`,
		want: `0s start a
		       0s grant 1
		       10s grant 3`,
	}, {
		name: "the earliest deadline is started next",
		play: `ask a 1 1h
		       ready a
		       ask b 2 80s
		       ask c 3 30s
		       pass 10s
		       release 1
		       ended a`,
		want: `0s start a
		       0s grant 1
		       10s stop a
		       10s start c`,
	}, {
		name: "who gave way is not started again before the one it gave way to, however urgent its own",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1h
		       pass 10s
		       ask a 3 5s
		       release 1
		       ended a
		       ready b
		       cancel 2`,
		want: `0s start a
		       0s grant 1
		       10s stop a
		       10s start b
		       10s grant 2`,
	}, {
		name: "of two with the same deadline the one with more waiting is next",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1m
		       ask c 3 1m
		       ask c 4 1m
		       pass 10s
		       release 1
		       ended a`,
		want: `0s start a
		       0s grant 1
		       10s stop a
		       10s start c`,
	}, {
		name: "a crash after a long run is a first failure again",
		play: `ask a 1 1h
		       ended a
		       pass 1s
		       ask a 2 1h
		       ended a
		       pass 2s
		       ask a 3 1h
		       ready a
		       pass 59s
		       ended a
		       ask a 4 1h
		       pass 4s
		       ask a 5 1h
		       ready a
		       pass 60s
		       ended a
		       ask a 6 1h`,
		want: `0s start a
		       0s refuse 1 slot_failed 1s
		       1s start a
		       1s refuse 2 slot_failed 2s
		       3s start a
		       3s grant 3
		       1m2s refuse 4 slot_failed 4s
		       1m6s start a
		       1m6s grant 5
		       2m6s refuse 6 slot_failed 1s`,
	}, {
		name: "busy with another model is said as such, with drain and load",
		play: `ask a 1 1h
		       ready a
		       ask b 2 8s
		       pass 8s`,
		want: `0s start a
		       0s grant 1
		       8s refuse 2 slot_busy 30s`,
	}, {
		name: "a stop for nobody does not happen: a waiter that left before the turn",
		play: `ask a 1 1h
		       ready a
		       ask b 2 3s
		       release 1
		       pass 1h`,
		want: `0s start a
		       0s grant 1
		       3s refuse 2 slot_busy 32s`,
	}, {
		name:  "idle sleep unloads after quiet time",
		sleep: time.Minute,
		play: `ask a 1 1h
		       ready a
		       pass 30s
		       release 1
		       pass 59s
		       ask a 2 1h
		       release 2
		       pass 2m
		       ended a
		       ask a 3 1h`,
		want: `0s start a
		       0s grant 1
		       1m29s grant 2
		       2m29s stop a
		       3m29s start a`,
	}, {
		name:   "slots of a shared node do not wait for each other",
		shared: true,
		play: `ask a 1 1h
		       ask b 2 1h
		       ready b
		       ready a`,
		want: `0s start a
		       0s start b
		       0s grant 2
		       0s grant 1`,
	}, {
		name: "refusing lets nobody wait and keeps leases",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       ask b 3 1h
		       refuse
		       ask a 4 1h
		       pass 1h
		       release 1
		       ask a 5 1h`,
		want: `0s start a
		       0s grant 1
		       0s refuse 2 slot_loading 1s
		       0s refuse 3 slot_loading 1s
		       0s refuse 4 slot_loading 1s
		       1h0m0s refuse 5 slot_loading 1s`,
	}, {
		name: "closing stops a start",
		play: `ask a 1 1h
		       close
		       close
		       ended a
		       ask a 2 1h`,
		want: `0s start a
		       0s refuse 1 slot_loading 1s
		       0s stop a
		       0s refuse 2 slot_loading 1s`,
	}, {
		name: "closing stops an engine that drains",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1h
		       pass 10s
		       close
		       ended a
		       release 1`,
		want: `0s start a
		       0s grant 1
		       10s refuse 2 slot_loading 1s
		       10s stop a`,
	},
}
