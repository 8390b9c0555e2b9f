package slot

// reloadCases are about what a newer configuration changes.
var reloadCases = []stepCase{
	{
		name: "a smaller queue counts at once",
		play: `ask a 1 1h
		       reload a queue
		       ask a 2 1h
		       pass 3s
		       ready a`,
		want: `0s start a
		       0s refuse 2 slot_queue_full 30s
		       3s grant 1`,
	}, {
		name: "a changed start line restarts an idle engine at once",
		play: `ask a 1 1h
		       ready a
		       release 1
		       reload a line
		       ended a
		       ready a
		       ask a 2 0s`,
		want: `0s start a
		       0s grant 1
		       0s stop a
		       0s start a
		       0s grant 2`,
	}, {
		name: "a changed start line waits for the idle moment",
		play: `ask a 1 1h
		       ready a
		       reload a line
		       pass 9s
		       release 1
		       ended a
		       ready a`,
		want: `0s start a
		       0s grant 1
		       9s stop a
		       9s start a`,
	}, {
		name: "a changed start line waits for a turn at most, then nobody new is let in and nobody is cut",
		play: `ask a 1 1h
		       ready a
		       pass 1m
		       reload a line
		       ask a 2 1h
		       pass 9s
		       release 1
		       ask a 3 1h
		       pass 1s
		       release 2
		       ended a
		       ready a`,
		want: `0s start a
		       0s grant 1
		       1m9s grant 2
		       1m10s stop a
		       1m10s start a
		       1m10s grant 3`,
	}, {
		name: "a stream holds up a restart for as long as it likes",
		play: `ask a 1 1h
		       ask a 2 1h
		       ready a
		       reload a line
		       pass 85s
		       ask a 3 1h
		       pass 1m
		       release 1
		       ended a
		       ready a`,
		want: `0s start a
		       0s grant 1
		       1m30s refuse 2 slot_loading 30s
		       2m25s stop a
		       2m25s start a
		       2m25s grant 3`,
	}, {
		name: "a changed start line ends a start, and the waiters wait on",
		play: `ask a 1 1h
		       pass 3s
		       reload a line
		       ended a
		       pass 4s
		       ready a`,
		want: `0s start a
		       3s stop a
		       3s start a
		       7s grant 1`,
	}, {
		name: "a changed start line ends a back-off",
		play: `ask a 1 1h
		       ended a
		       reload a line
		       ask a 2 1h`,
		want: `0s start a
		       0s refuse 1 slot_failed 1s
		       0s start a`,
	}, {
		name: "a restart lets another go first",
		play: `ask a 1 1h
		       ready a
		       pass 5s
		       ask b 2 1h
		       reload a line
		       release 1
		       ended a
		       ready b`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       5s start b
		       5s grant 2`,
	}, {
		name: "another model on the slot gets nobody who waits for the one before, and who uses that is not cut",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       reload a model
		       ask a 3 1h
		       pass 1m
		       release 1
		       ended a
		       ready a`,
		want: `0s start a
		       0s grant 1
		       0s refuse 2 slot_failed 1s
		       1m0s stop a
		       1m0s start a
		       1m0s grant 3`,
	}, {
		name: "a slot that is gone is drained, within bounds, and refuses",
		play: `ask a 1 1h
		       ready a
		       ask a 2 1h
		       reload a without
		       ask a 3 1h
		       pass 42s
		       ended a
		       wake a`,
		want: `0s start a
		       0s grant 1
		       0s refuse 2 slot_failed 1m0s
		       0s refuse 3 slot_failed 1m0s
		       40s cut a
		       42s stop a
		       42s no: no such slot`,
	}, {
		name: "a slot that is back in time goes on as if nothing had been",
		play: `ask a 1 1h
		       ready a
		       reload a without
		       pass 30s
		       reload a again
		       pass 1h
		       release 1
		       ask a 2 0s`,
		want: `0s start a
		       0s grant 1
		       1h0m30s grant 2`,
	}, {
		name: "a restart does not wait for the turn of another",
		play: `ask a 1 1h
		       ready a
		       reload a line
		       pass 5s
		       ask b 2 1h
		       pass 7s
		       ask a 3 1h
		       release 1
		       ended a`,
		want: `0s start a
		       0s grant 1
		       12s stop a
		       12s start b`,
	}, {
		name: "an engine with a changed start line is not left to the next gateway",
		exit: "keep",
		play: `ask a 1 1h
		       ready a
		       reload a line
		       close
		       release 1`,
		want: `0s start a
		       0s grant 1
		       0s cut a
		       0s stop a`,
	}, {
		name: "nothing is started any more when the gateway ends",
		play: `ask a 1 1h
		       ready a
		       release 1
		       pass 5s
		       ask b 2 1h
		       refuse
		       ended a
		       pass 1h`,
		want: `0s start a
		       0s grant 1
		       5s stop a
		       5s refuse 2 slot_loading 1s`,
	}, {
		name: "a node that is exclusive from now on keeps one engine, and cuts nobody", shared: true,
		play: `ask a 1 1h
		       ask b 2 1h
		       ready b
		       ready a
		       reload a exclusive
		       pass 1h
		       release 2
		       ended b`,
		want: `0s start a
		       0s start b
		       0s grant 2
		       0s grant 1
		       1h0m0s stop b`,
	}, {
		name: "failures are kept by a reload that changes nothing of the start",
		play: `ask a 1 1h
		       ended a
		       pass 1s
		       reload a queue
		       ask a 2 1h
		       ended a`,
		want: `0s start a
		       0s refuse 1 slot_failed 1s
		       1s start a
		       1s refuse 2 slot_failed 2s`,
	},
}
