package slot

import "time"

// turnCases are about failures, back-offs, turns, sleep and the end.
var turnCases = []stepCase{
	{
		name: "a crash is mended by a start at once, which those who wait, wait for",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       ended a
		       ask a 3 1h
		       pass 1s
		       release 1
		       ready a`,
		want: `0s start a
		       0s grant 1
		       0s start a
		       1s grant 2`,
	}, {
		name: "a crash loop: it comes up at most once in a second, in two seconds, in four",
		play: `ask a 1 1h
		       ready a
		       ended a
		       ask a 2 1h
		       ready a
		       ask a 3 1h
		       pass 200ms
		       ended a
		       ask a 4 1h
		       pass 800ms
		       ask a 5 1h
		       pass 9s
		       ready a
		       pass 1s
		       ended a
		       ask a 6 1h
		       pass 1s
		       ask a 7 1h
		       ready a
		       pass 1s
		       ended a
		       ask a 8 1h`,
		want: `0s start a
		       0s grant 1
		       0s start a
		       0s grant 2
		       200ms refuse 3 slot_failed 1s
		       200ms refuse 4 slot_failed 1s
		       1s start a
		       10s grant 5
		       11s refuse 6 slot_failed 1s
		       12s start a
		       12s grant 7
		       13s refuse 8 slot_failed 3s`,
	}, {
		name: "a crash after some time costs nobody more than the load, the second and the third too",
		play: `ask a 1 1h
		       ready a
		       pass 5s
		       ended a
		       ask a 2 1h
		       ready a
		       pass 5s
		       ended a
		       ask a 3 1h
		       ready a
		       pass 5s
		       ask a 4 1h
		       ended a
		       ready a`,
		want: `0s start a
		       0s grant 1
		       5s start a
		       5s grant 2
		       10s start a
		       10s grant 3
		       15s start a
		       15s grant 4`,
	}, {
		name: "a start that fails after a crash backs off",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       ended a
		       pass 3s
		       ended a
		       ask a 3 1h
		       pass 2s
		       ask a 4 1h`,
		want: `0s start a
		       0s grant 1
		       0s start a
		       3s refuse 2 slot_failed 2s
		       3s refuse 3 slot_failed 2s
		       5s start a`,
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
		       pass 1s
		       ask a 4 2s
		       pass 9s
		       ended a
		       ask a 5 1s
		       pass 1s`,
		want: `0s start a
		       1m30s refuse 1 slot_loading 1s
		       2m0s stop a
		       2m0s refuse 3 slot_failed 1s
		       2m3s refuse 4 slot_busy 30s
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
		       ended a
		       pass 8s
		       ask a 5 1h
		       ready a
		       pass 60s
		       ended a
		       ask a 6 1h
		       ready a
		       ended a
		       ask a 7 1h`,
		want: `0s start a
		       0s refuse 1 slot_failed 1s
		       1s start a
		       1s refuse 2 slot_failed 2s
		       3s start a
		       3s grant 3
		       1m2s start a
		       1m2s refuse 4 slot_failed 8s
		       1m10s start a
		       1m10s grant 5
		       2m10s start a
		       2m10s grant 6
		       2m10s refuse 7 slot_failed 1s`,
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
		name: "a swap goes on when its waiter leaves while the other engine stops: the retry finds the slot warm",
		play: `ask a 1 1h
		       ready a
		       release 1
		       ask b 2 6s
		       pass 8s
		       ended a
		       ready b
		       pass 1s
		       ask b 3 0s`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       6s refuse 2 slot_busy 30s
		       8s start b
		       9s grant 3`,
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
		name: "refusing lets nobody wait and keeps leases for as long as a drain may last, and the engine",
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
		       40s cut a
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
		name: "closing stops an engine that drains, once those who use it had a moment to leave",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1h
		       pass 10s
		       close
		       pass 1h
		       ended a
		       release 1`,
		want: `0s start a
		       0s grant 1
		       10s refuse 2 slot_loading 1s
		       10s cut a
		       12s stop a`,
	}, {
		name: "closing stops an engine when the last lease comes back",
		play: `ask a 1 1h
		       ready a
		       close
		       pass 1s
		       release 1`,
		want: `0s start a
		       0s grant 1
		       0s cut a
		       1s stop a`,
	},
}
