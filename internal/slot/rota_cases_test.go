package slot

// rotaCases are about turns that pay for their load, backfill, waiting in vain and votes. Loads are measured here: a start
// that takes time was seen to.
var rotaCases = []stepCase{
	{
		name: "those who waited for the engine are served in its turn though it lasts longer than that",
		play: `ask a 1 1h
		       ask a 2 1h
		       ask a 3 1h
		       pass 10s
		       ready a
		       ask b 4 1h
		       pass 9s
		       release 1
		       pass 9s
		       ask a 5 1h
		       release 2
		       pass 1s
		       release 3
		       ended a`,
		want: `0s start a
		       10s grant 1
		       19s grant 2
		       28s grant 3
		       29s stop a
		       29s start b`,
	}, {
		name: "whoever can still be served in time ends the turn, at the last moment",
		play: `ask b 1 1h
		       pass 4s
		       ready b
		       release 1
		       sleep b
		       ended b
		       ask a 2 1h
		       pass 2s
		       ready a
		       pass 20s
		       ask b 3 9s
		       pass 5s
		       release 2
		       ended a
		       pass 3s
		       ready b`,
		want: `0s start b
		       4s grant 1
		       4s stop b
		       4s start a
		       6s grant 2
		       31s stop a
		       31s start b
		       34s grant 3`,
	}, {
		name: "an idle slot that was used a moment ago is left after its load time, less if more wait",
		play: `ask a 1 1h
		       pass 6s
		       ready a
		       pass 10s
		       release 1
		       ask b 2 1h
		       ask b 3 1h
		       pass 4s
		       ended a`,
		want: `0s start a
		       6s grant 1
		       19s stop a
		       20s start b`,
	}, {
		name: "one that is seldom asked for is left at once for somebody who might be too late",
		play: `ask a 1 1h
		       pass 6s
		       ready a
		       pass 10s
		       release 1
		       ask b 2 5s
		       pass 4s
		       ended a`,
		want: `0s start a
		       6s grant 1
		       16s stop a
		       20s start b`,
	}, {
		name: "who waits in vain and has somebody else to go to is sent on at once, and its vote loads an empty card",
		play: `ask a 1 1h
		       pass 20s
		       ready a
		       sleep a
		       release 1
		       ended a
		       ask a 3 19s next
		       ask a 4 21s next
		       pass 5s
		       ask a 5 14s next
		       ask a 6 14s
		       ask a 7 16s next
		       pass 15s
		       ready a`,
		want: `0s start a
		       20s grant 1
		       20s stop a
		       20s refuse 3 slot_loading 20s
		       20s start a
		       25s refuse 5 slot_loading 15s
		       39s refuse 6 slot_loading 1s
		       40s grant 4`,
	}, {
		name: "a vote leaves a busy card alone, and swaps an idle one",
		play: `ask b 1 1h
		       pass 20s
		       ready b
		       sleep b
		       release 1
		       ended b
		       ask a 2 1h
		       pass 2s
		       ready a
		       pass 8s
		       ask b 3 19s next
		       pass 12s
		       release 2
		       pass 1s
		       ask b 4 19s next
		       pass 1s
		       ended a
		       ready b`,
		want: `0s start b
		       20s grant 1
		       20s stop b
		       20s start a
		       22s grant 2
		       30s refuse 3 slot_busy 20s
		       43s refuse 4 slot_busy 20s
		       44s stop a
		       44s start b`,
	}, {
		name: "a vote is forgotten after one load time",
		play: `ask b 1 1h
		       pass 20s
		       ready b
		       sleep b
		       release 1
		       ended b
		       ask a 2 1h
		       pass 2s
		       ready a
		       pass 8s
		       ask b 3 19s next
		       pass 21s
		       release 2
		       pass 1h`,
		want: `0s start b
		       20s grant 1
		       20s stop b
		       20s start a
		       22s grant 2
		       30s refuse 3 slot_busy 20s`,
	},
}
