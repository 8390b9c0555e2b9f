package node

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// TestPicture: a view that crosses the wire is the same, to the millisecond, by the receiver's clock.
func TestPicture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Map(rapid.Int64Range(0, 1e10), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond })
		here := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
		there := here.Add(span.Draw(t, "clock")) // the other machine's
		count := rapid.IntRange(0, 1000)
		figured := rapid.Custom(func(t *rapid.T) hearth.Figures {
			return hearth.Figures{P50: span.Draw(t, "p50"), P95: span.Draw(t, "p95"), Min: span.Draw(t, "min"), N: count.Draw(t, "n")}
		})
		v := hearth.SlotView{
			State: hearth.SlotState(rapid.IntRange(0, int(hearth.SlotFailed)).Draw(t, "state")), Since: there.Add(-span.Draw(t, "since")),
			Inflight: count.Draw(t, "inflight"), Waiting: count.Draw(t, "waiting"), OtherBusy: rapid.Bool().Draw(t, "other"),
			LoadRest: span.Draw(t, "rest"), WaitRest: span.Draw(t, "wait"), Soonest: span.Draw(t, "soonest"), LastError: rapid.String().Draw(t, "error"), LoadTime: span.Draw(t, "load"), StopTime: span.Draw(t, "stop"),
			Loads: rapid.Uint64().Draw(t, "loads"), Served: rapid.Uint64().Draw(t, "served"),
			Learned:  hearth.Learned{Load: figured.Draw(t, "loads"), Stop: figured.Draw(t, "stops"), Drain: figured.Draw(t, "drains"), Service: figured.Draw(t, "services")},
			Disabled: rapid.Bool().Draw(t, "disabled"), Drained: rapid.Bool().Draw(t, "drained"), Foreign: rapid.Bool().Draw(t, "foreign"),
			Facts: hearth.SlotFacts{Window: count.Draw(t, "window"), Parallel: count.Draw(t, "parallel"), Model: rapid.String().Draw(t, "model"), Warning: rapid.String().Draw(t, "warning")},
		}
		v.Votes, v.Next, v.NextWhy = count.Draw(t, "votes"), rapid.Bool().Draw(t, "next"), rapid.String().Draw(t, "why")
		if rapid.Bool().Draw(t, "limited") {
			v.Turn = there.Add(-max(span.Draw(t, "turn"), time.Millisecond))
		}
		if rapid.Bool().Draw(t, "paused") {
			v.Paused = there.Add(max(span.Draw(t, "until"), time.Millisecond))
		}
		if rapid.Bool().Draw(t, "shut") {
			v.Shut = there.Add(max(span.Draw(t, "opens"), time.Millisecond))
		}
		b, err := json.Marshal(&picture{Number: 7, At: 5, Slots: []seen{see(&hearth.Slot{Name: "a", Model: &hearth.Model{ID: "x/a"}}, &v, there)}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := readPicture(b)
		if err != nil || p.Number != 7 || p.At != 5 || len(p.Slots) != 1 {
			t.Fatalf("%s: %+v, %v", b, p, err)
		}
		want := v
		want.Since = here.Add(v.Since.Sub(there))
		if !v.Turn.IsZero() {
			want.Turn = here.Add(v.Turn.Sub(there))
		}
		if !v.Paused.IsZero() {
			want.Paused = here.Add(v.Paused.Sub(there))
		}
		if !v.Shut.IsZero() {
			want.Shut = here.Add(v.Shut.Sub(there))
		}
		if d := cmp.Diff(want, p.Slots[0].view(here)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestStateOf(t *testing.T) {
	for s := hearth.SlotAsleep; s <= hearth.SlotFailed; s++ {
		if got := stateOf(s.String()); got != s {
			t.Errorf("%s: %s", s, got)
		}
	}
	if got := stateOf("flying"); got != hearth.SlotFailed {
		t.Errorf("an unknown word: %s", got)
	}
}

// FuzzPicture: what a machine may send neither panics nor makes times that overflow.
func FuzzPicture(f *testing.F) {
	for _, s := range []string{
		`{"number":1,"at_ms":5,"slots":[{"name":"a","model":"x/a","state":"ready","since_ms":9}]}`,
		`{"number":1,"at_ms":9223372036854775807,"slots":[{"since_ms":-9223372036854775808,"paused_ms":9223372036854775807}]}`,
		`[]`, `{"slots":[null]}`,
	} {
		f.Add([]byte(s))
	}
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPicture(b)
		if err != nil {
			return
		}
		s := sight{at: now, leaving: p.Leaving, slots: p.Slots}
		conf := &hearth.Slot{Name: "a", Model: &hearth.Model{ID: "x/a"}}
		v := s.view(conf, now)
		if v.Since.After(now) || v.LoadRest < 0 || v.LoadTime < 0 || !v.Paused.IsZero() && v.Paused.Before(now) {
			t.Errorf("%s: %+v", b, v)
		}
		_ = s.free(conf)
		if slices.IndexFunc(p.Slots, func(q seen) bool { return q.Name == "a" && q.Model == "x/a" }) < 0 && s.refuses(conf, now, "n") == nil {
			t.Errorf("%s: a slot that was not seen may be asked", b)
		}
	})
}

func TestReadMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":503,"message":"the model is loading"}}`: "the model is loading",
		`{"error":{}}`: "the machine of the slot refuses the request", "": "the machine of the slot refuses the request", "<html>": "the machine of the slot refuses the request",
	} {
		if got := readMessage([]byte(body)); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
	long, err := json.Marshal(map[string]any{"error": map[string]any{"message": string(make([]rune, 5000))}})
	if err != nil {
		t.Fatal(err)
	}
	if got := readMessage(long); len([]rune(got)) != maxMessage {
		t.Errorf("%d characters", len([]rune(got)))
	}
}

func BenchmarkView(b *testing.B) {
	s := sight{at: time.Now(), slots: []seen{{Name: "a", Model: "x/a", State: "ready"}, {Name: "b", Model: "x/b", State: "asleep"}}}
	conf := &hearth.Slot{Name: "b", Model: &hearth.Model{ID: "x/b"}}
	b.ReportAllocs()
	for b.Loop() {
		s.at = time.Now()
		if v := s.view(conf, s.at); v.Unknown {
			b.Fatal(v)
		}
	}
}
