package slot

// orderCases are about operators' orders, other gateways and devices that are not free.
var orderCases = []stepCase{
	{
		name: "a slot that is drained while the node is emptied for it is not started when it may be used again",
		play: `ask a 1 1h
		       ready a
		       release 1
		       pass 1m
		       wake b
		       drain b
		       enable b
		       ended a
		       pass 1h`,
		want: `0s start a
		       0s grant 1
		       1m0s stop a`,
	}, {
		name: "wake starts a slot for nobody, and it stays",
		play: `wake a
		       pass 3s
		       ready a
		       ask a 1 0s
		       pass 1h
		       wake a`,
		want: `0s start a
		       3s grant 1`,
	}, {
		name: "a slot that is woken waits for its turn like a request",
		play: `ask a 1 1h
		       ready a
		       pass 1s
		       wake b
		       pass 30s
		       release 1
		       ended a
		       ready b`,
		want: `0s start a
		       0s grant 1
		       31s stop a
		       31s start b`,
	}, {
		name: "wake ends a back-off",
		play: `ask a 1 1h
		       ended a
		       pass 100ms
		       wake a
		       ready a
		       ask a 2 0s`,
		want: `0s start a
		       0s refuse 1 slot_failed 1s
		       100ms start a
		       100ms grant 2`,
	}, {
		name: "wake ends a back-off even before the failed engine is gone",
		play: `ask a 1 1h
		       pass 2m
		       wake a
		       ended a
		       pass 0s`,
		want: `0s start a
		       1m30s refuse 1 slot_loading 1s
		       2m0s stop a
		       2m0s start a`,
	}, {
		name: "sleep stops an idle engine at once, and the next request wakes it",
		play: `ask a 1 1h
		       ready a
		       release 1
		       sleep a
		       ended a
		       pass 1h
		       ask a 2 1h
		       ready a`,
		want: `0s start a
		       0s grant 1
		       0s stop a
		       1h0m0s start a
		       1h0m0s grant 2`,
	}, {
		name: "sleep waits for those who use the engine, as long as a drain may last, and lets nobody in meanwhile",
		play: `ask a 1 1h
		       ready a
		       pass 1s
		       sleep a
		       ask a 2 1h
		       pass 41s
		       pass 1h`,
		want: `0s start a
		       0s grant 1
		       41s cut a
		       43s stop a
		       1m31s refuse 2 slot_loading 30s`,
	}, {
		name: "what becomes of others does not make a drain last longer",
		play: `ask a 1 1h
		       ready a
		       sleep a
		       pass 20s
		       enable b
		       reload b queue
		       sleep a
		       pass 20s`,
		want: `0s start a
		       0s grant 1
		       40s cut a`,
	}, {
		name: "a lease that comes back after the cut ends the drain",
		play: `ask a 1 1h
		       ready a
		       sleep a
		       pass 41s
		       release 1`,
		want: `0s start a
		       0s grant 1
		       40s cut a
		       41s stop a`,
	}, {
		name: "sleep that is taken back does not cut",
		play: `ask a 1 1h
		       ready a
		       sleep a
		       pass 20s
		       wake a
		       pass 1h
		       ask a 2 0s
		       release 1
		       ask a 3 0s`,
		want: `0s start a
		       0s grant 1
		       1h0m20s refuse 2 slot_busy 1s
		       1h0m20s grant 3`,
	}, {
		name: "sleep ends a start",
		play: `wake a
		       sleep a
		       ended a
		       pass 1h`,
		want: `0s start a
		       0s stop a`,
	}, {
		name: "drain refuses who waits and who comes, until the slot is woken",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       drain a
		       ask a 3 1h
		       release 1
		       ended a
		       ask a 4 1h
		       pass 1h
		       wake a
		       ready a
		       ask a 5 0s`,
		want: `0s start a
		       0s grant 1
		       0s refuse 2 slot_failed 1m0s
		       0s refuse 3 slot_failed 1m0s
		       0s stop a
		       0s refuse 4 slot_failed 1m0s
		       1h0m0s start a
		       1h0m0s grant 5`,
	}, {
		name: "a disabled slot is not woken before it is enabled",
		play: `disable a
		       wake a
		       ask a 1 1h
		       enable a
		       ask a 2 1h`,
		want: `0s no: the slot is disabled: enable it first
		       0s refuse 1 slot_failed 1m0s
		       0s start a`,
	}, {
		name: "a drained slot makes room for another at once",
		play: `ask a 1 1h
		       ready a
		       ask b 2 1h
		       release 1
		       drain a
		       ended a
		       ready b`,
		want: `0s start a
		       0s grant 1
		       0s stop a
		       0s start b
		       0s grant 2`,
	}, {
		name: "a pause gives the node back and ends by itself",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       pause 2h
		       ask b 3 1h
		       release 1
		       ended a
		       wake a
		       pass 119m
		       ask a 4 1h
		       pass 1m
		       ask a 5 1h`,
		want: `0s start a
		       0s grant 1
		       0s refuse 2 slot_busy 1h0m0s
		       0s refuse 3 slot_busy 1h0m0s
		       0s stop a
		       0s no: the node is paused until 2026-05-01T11:00:00Z
		       1h59m0s refuse 4 slot_busy 1m0s
		       2h0m0s start a`,
	}, {
		name: "a pause cuts at the end of the longest drain, and resume ends it",
		play: `ask a 1 1h
		       ready a
		       pause
		       pass 43s
		       ended a
		       resume
		       ask a 2 1h`,
		want: `0s start a
		       0s grant 1
		       40s cut a
		       42s stop a
		       43s start a`,
	}, {
		name: "an engine whose users were told to leave is stopped, even if the reason has gone",
		play: `ask a 1 1h
		       ready a
		       pause
		       pass 41s
		       resume
		       ask a 2 1h
		       pass 1s
		       ended a
		       ready a`,
		want: `0s start a
		       0s grant 1
		       40s cut a
		       42s stop a
		       42s start a
		       42s grant 2`,
	}, {
		name: "a pause that ends before the drain does lets the engine go on",
		play: `ask a 1 1h
		       ready a
		       pause 30s
		       pass 1h
		       release 1
		       ask a 2 0s`,
		want: `0s start a
		       0s grant 1
		       1h0m0s grant 2`,
	}, {
		name: "a pause that ends in the moment in which the last one leaves stops nothing",
		play: `ask a 1 1h
		       ready a
		       pause 30s
		       late 30s
		       release 1
		       ask a 2 0s`,
		want: `0s start a
		       0s grant 1
		       30s grant 2`,
	}, {
		name: "a node of another gateway is busy until it is ours",
		play: `foreign
		       ask a 1 1h
		       wake a
		       pass 1m
		       owned
		       ask a 2 1h`,
		want: `0s refuse 1 slot_busy 5s
		       0s no: the GPU belongs to another gateway
		       1m0s start a`,
	}, {
		name: "a device that is not free is nobody's failure and is asked for again after 5 s",
		play: `ask a 1 1h
		       busy a
		       ask a 2 1h
		       pass 4s
		       ask a 3 1h
		       pass 1s
		       ask a 4 1h
		       busy a
		       pass 5s
		       ask a 5 1h
		       ended a`,
		want: `0s start a
		       0s refuse 1 slot_busy 5s
		       0s refuse 2 slot_busy 5s
		       4s refuse 3 slot_busy 1s
		       5s start a
		       5s refuse 4 slot_busy 5s
		       10s start a
		       10s refuse 5 slot_failed 1s`,
	}, {
		name: "who gave way is started again when the other does not come up",
		play: `ask a 1 1h
		       ready a
		       release 1
		       pass 5s
		       ask b 2 1h
		       ended a
		       ended b
		       pass 1s
		       ready a
		       ask a 3 0s`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       5s start b
		       5s refuse 2 slot_failed 1s
		       5s start a
		       6s grant 3`,
	}, {
		name: "who gave way is not started again when somebody waits for a third, but if that fails too",
		play: `ask a 1 1h
		       ready a
		       release 1
		       pass 5s
		       ask b 2 1h
		       ask c 3 1h
		       ended a
		       ended b
		       ended c
		       ended a
		       pass 1h`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       5s start b
		       5s refuse 2 slot_failed 1s
		       5s start c
		       5s refuse 3 slot_failed 1s
		       5s start a`,
	}, {
		name: "who was sent to sleep meanwhile is not started again",
		play: `ask a 1 1h
		       ready a
		       release 1
		       pass 5s
		       ask b 2 1h
		       ended a
		       sleep a
		       ended b
		       pass 1h`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       5s start b
		       5s refuse 2 slot_failed 1s`,
	}, {
		name: "an engine that says it is not ready gets nobody until it says it is",
		play: `ask a 1 1h
		       ready a
		       unready a
		       release 1
		       ask a 2 1h
		       ask a 3 1h next
		       pass 10s
		       says a 0`,
		want: `0s start a
		       0s grant 1
		       10s refuse 3 slot_loading 1s
		       10s grant 2`,
	}, {
		name: "the ready engine of a slot that says so is left to the next gateway",
		exit: "keep",
		play: `ask a 1 1h
		       ready a
		       release 1
		       close`,
		want: `0s start a
		       0s grant 1
		       0s leave a`,
	}, {
		name: "an engine that is not ready is not left to the next gateway",
		exit: "keep",
		play: `ask a 1 1h
		       close`,
		want: `0s start a
		       0s refuse 1 slot_loading 1s
		       0s stop a`,
	}, {
		name: "nor is one that the operator drains",
		exit: "keep",
		play: `ask a 1 1h
		       ready a
		       drain a
		       close
		       pass 2s`,
		want: `0s start a
		       0s grant 1
		       0s cut a
		       2s stop a`,
	},
}
