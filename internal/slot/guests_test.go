package slot

// guestCases are about requests that would take several slots, and about how many an engine takes.
var guestCases = []stepCase{
	{
		name: "the one that is asked for is started, not the other",
		play: `ask a 1 1h also b
		       pass 3s
		       ready a`,
		want: `0s start a
		       3s grant 1`,
	}, {
		name: "another that is ready with a free place serves at once",
		play: `ask b 1 1h
		       ready b
		       release 1
		       ask a 2 1h also b
		       pass 1h`,
		want: `0s start b
		       0s grant 1
		       0s grant 2`,
	}, {
		name: "whichever is ready first with a free place serves",
		play: `ask b 1 1h
		       ready b
		       ask a 2 1h also b
		       pass 4s
		       release 1`,
		want: `0s start b
		       0s grant 1
		       4s grant 2`,
	}, {
		name: "the one that is asked for serves if both can", shared: true,
		play: `ask a 1 1h
		       ask b 2 1h
		       ready a
		       ready b
		       release 1
		       release 2
		       ask b 3 1h also a
		       ask a 4 0s
		       ask b 5 0s`,
		want: `0s start a
		       0s start b
		       0s grant 1
		       0s grant 2
		       0s grant 3
		       0s grant 4
		       0s refuse 5 slot_busy 1s`,
	}, {
		name: "one budget holds for all",
		play: `ask b 1 1h
		       ready b
		       pass 1s
		       ask a 2 8s also b
		       pass 8s
		       release 1`,
		want: `0s start b
		       0s grant 1
		       9s refuse 2 slot_busy 30s
		       `,
	}, {
		name: "who came first is served first, a guest or not",
		play: `ask b 1 1h
		       ready b
		       ask b 2 1h
		       ask a 3 1h also b
		       ask b 4 1h
		       release 1
		       release 2
		       release 3`,
		want: `0s start b
		       0s grant 1
		       0s grant 2
		       0s grant 3
		       0s grant 4`,
	}, {
		name: "guests who leave are not served",
		play: `ask b 1 1h
		       ready b
		       ask a 2 1h also b
		       ask a 3 1h also b
		       cancel 2
		       release 1`,
		want: `0s start b
		       0s grant 1
		       0s grant 3`,
	}, {
		name: "a guest is not let into what is drained",
		play: `ask b 1 1h
		       ready b
		       ask a 2 1h also b
		       drain b
		       release 1
		       ended b
		       ready a`,
		want: `0s start b
		       0s grant 1
		       0s stop b
		       0s start a
		       0s grant 2`,
	}, {
		name: "a guest is not let into a slot that has another model by now", shared: true,
		play: `ask b 1 1h
		       ready b
		       ask a 2 1h also b
		       reload b model
		       release 1
		       ended b
		       ready b
		       pass 1s
		       ready a`,
		want: `0s start b
		       0s grant 1
		       0s start a
		       0s stop b
		       0s start b
		       1s grant 2`,
	}, {
		name: "the failure of the one that is asked for ends the wait",
		play: `ask b 1 1h
		       ready b
		       release 1
		       pass 5s
		       drain b
		       ended b
		       ask a 2 1h also b
		       enable b
		       ended a`,
		want: `0s start b
		       0s grant 1
		       5s stop b
		       5s start a
		       5s refuse 2 slot_failed 1s`,
	},
}

// parallelCases are about slots whose concurrency is not configured.
var parallelCases = []stepCase{
	{
		name: "one, until the engine says more, and then at once",
		play: `ask a 1 1h
		       ask a 2 1h
		       ask a 3 1h
		       ready a
		       says a 2
		       says a 1
		       release 1
		       release 2`,
		want: `0s start a
		       0s grant 1
		       0s grant 2
		       0s grant 3`,
	}, {
		name: "what the engine said holds for the queue of the next start",
		play: `ask a 1 1h
		       ready a
		       says a 3
		       release 1
		       sleep a
		       ended a
		       ask a 2 1h
		       ask a 3 1h
		       ask a 4 1h
		       ask a 5 1h
		       ask a 6 1h
		       ask a 7 1h
		       ready a`,
		want: `0s start a
		       0s grant 1
		       0s stop a
		       0s start a
		       0s refuse 7 slot_queue_full 30s
		       0s grant 2
		       0s grant 3
		       0s grant 4`,
	}, {
		name: "but not when the start line changes",
		play: `ask a 1 1h
		       ready a
		       says a 3
		       release 1
		       reload a line
		       ended a
		       ready a
		       ask a 2 0s
		       ask a 3 0s`,
		want: `0s start a
		       0s grant 1
		       0s stop a
		       0s start a
		       0s grant 2
		       0s refuse 3 slot_busy 1s`,
	}, {
		name: "nonsense counts as nothing",
		play: `ask a 1 1h
		       ready a
		       says a -5
		       says a 2000000000
		       ask a 2 0s`,
		want: `0s start a
		       0s grant 1
		       0s grant 2`,
	},
}
