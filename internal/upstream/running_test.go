package upstream

import (
	"fmt"
	"testing"

	"myip.co.kr/hearth"
)

// TestRunningCounts: a count on the way is no sign that an answer is complete, wherever it stands, and the last one counts.
func TestRunningCounts(t *testing.T) {
	empty := func(made int) string {
		return event(fmt.Sprintf(`{"id":"up-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`, made))
	}
	timed := event(`{"id":"up-1","choices":[{"index":0,"delta":{}}],"timings":{"prompt_n":3,"predicted_n":4}}`)
	const cut = "the stream ended without a finish reason"
	for _, c := range []struct {
		name, body, want string
		made             int64
		unbilled         int
	}{
		{"cut after a count on the way", soFar("one", 1) + empty(2), "broken one: " + cut, 2, 0},
		{"cut after a second count", word("one") + empty(1) + empty(2), "broken one: " + cut, 2, 0},
		{"cut after timings", word("one") + timed, "broken one: " + cut, 4, 0},
		{"cut after content that no count covers", soFar("one", 1) + word("two"), "broken onetwo: " + cut, 1, 1},
		{"complete", soFar("one", 1) + empty(2) + finish + usage + done, "served one", 2, 0},
		{"complete, and counted once more", soFar("one", 1) + finish + empty(2), "served one", 2, 0},
		{"complete by its usage alone", word("one") + usage, "served one", 2, 0},
		{"a count of nothing covers nothing", word("one") + empty(0) + finish, "served one", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(chunked+part(c.body)+lastPart, false))
			client, e := endpoint(t, p.url())
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
			want := hearth.Usage{PromptTokens: 3, CompletionTokens: c.made, Reported: true}
			if r.String() != c.want || r.stream.Usage != want || r.stream.Unbilled != c.unbilled {
				t.Errorf("%v, %+v, %d unbilled", r, r.stream.Usage, r.stream.Unbilled)
			}
		})
	}
}
