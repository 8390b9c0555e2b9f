package routing

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestSpeeds(t *testing.T) {
	w := NewWindows(2)
	now := time.Now()
	for i := range 10 {
		w.Add(1, Sample{At: now, Latency: time.Duration(i+1) * time.Second, Total: 10 * time.Second, Tokens: 10 * (i + 1), Calls: 2, BadCalls: i % 2})
	}
	got := w.Speeds()
	if got[0] != (hearth.EndpointSpeed{}) {
		t.Errorf("nothing was measured at endpoint 0, yet %+v", got[0])
	}
	want := hearth.EndpointSpeed{At: now, Samples: 10, Calls: 20, BadCalls: 5,
		Latency:    hearth.Percentiles{P50: 5, P75: 8, P90: 9, P99: 10},
		Throughput: hearth.Percentiles{P50: 6, P75: 3, P90: 2, P99: 1}}
	if got[1] != want {
		t.Errorf("%+v\nwant %+v", got[1], want)
	}
}
