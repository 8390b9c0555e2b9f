package hearth_test

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata"

	"myip.co.kr/hearth"
	"pgregory.net/rapid"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

const weekdays = hearth.Days(0b0111110)

func TestCalendar(t *testing.T) {
	office := []hearth.Span{{Days: weekdays, From: 9 * time.Hour, To: 19 * time.Hour}}
	night := []hearth.Span{{Days: hearth.Week, From: 22 * time.Hour, To: 6 * time.Hour}}
	friday := []hearth.Span{{Days: 1 << time.Friday, From: 22 * time.Hour, To: 6 * time.Hour}}
	early := []hearth.Span{{Days: hearth.Week, From: 2*time.Hour + 30*time.Minute, To: 4 * time.Hour}}
	for _, c := range []struct {
		name, zone string
		spans      []hearth.Span
		at         string // and what follows: whether it is open, and when that changes
		open       bool
		next       string
	}{
		{"no spans are always", "UTC", nil, "2026-11-30T08:00:00Z", true, ""},
		{"every hour of the week never changes", "UTC", []hearth.Span{{Days: hearth.Week, To: 24 * time.Hour}}, "2026-11-30T08:00:00Z", true, ""},
		{"before it opens", "Asia/Seoul", office, "2026-11-30T08:59:59+09:00", false, "2026-11-30T09:00:00+09:00"},
		{"the first instant belongs to it", "Asia/Seoul", office, "2026-11-30T09:00:00+09:00", true, "2026-11-30T19:00:00+09:00"},
		{"the last instant does not", "Asia/Seoul", office, "2026-11-30T19:00:00+09:00", false, "2026-12-01T09:00:00+09:00"},
		{"over a weekend", "Asia/Seoul", office, "2026-12-04T19:00:00+09:00", false, "2026-12-07T09:00:00+09:00"},
		{"the zone counts, not the zone of the question", "Asia/Seoul", office, "2026-11-30T00:30:00Z", true, "2026-11-30T19:00:00+09:00"},
		{"over midnight", "UTC", night, "2026-11-30T23:00:00Z", true, "2026-12-01T06:00:00Z"},
		{"after midnight", "UTC", night, "2026-12-01T05:59:59Z", true, "2026-12-01T06:00:00Z"},
		{"over midnight, of one day: it ends on the day after", "UTC", friday, "2026-12-05T05:00:00Z", true, "2026-12-05T06:00:00Z"},
		{"over midnight, of one day: the day itself has no morning", "UTC", friday, "2026-12-04T05:00:00Z", false, "2026-12-04T22:00:00Z"},
		{"a night in which the clocks are put forward is short", "America/New_York", night, "2026-03-08T01:59:59-05:00", true, "2026-03-08T06:00:00-04:00"},
		{"what begins within the hour that is skipped begins after it", "America/New_York", early, "2026-03-08T01:00:00-05:00", false, "2026-03-08T03:00:00-04:00"},
		{"what begins within the hour that comes twice begins twice", "America/New_York",
			[]hearth.Span{{Days: hearth.Week, From: 90 * time.Minute, To: 105 * time.Minute}}, "2026-11-01T01:45:00-04:00", false, "2026-11-01T01:30:00-05:00"},
		{"the hour that comes twice, the other way round", "America/New_York",
			[]hearth.Span{{Days: hearth.Week, From: 30 * time.Minute, To: 90 * time.Minute}}, "2026-11-01T01:40:00-04:00", false, "2026-11-01T01:00:00-05:00"},
		{"only on the day of which the morning is skipped", "America/New_York",
			[]hearth.Span{{Days: 1 << time.Sunday, From: 2 * time.Hour, To: 3 * time.Hour}}, "2026-03-07T12:00:00-05:00", false, "2026-03-15T02:00:00-04:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cal := hearth.Calendar{Spans: c.spans, Zone: zone(t, c.zone)}
			at, err := time.Parse(time.RFC3339, c.at)
			if err != nil {
				t.Fatal(err)
			}
			next := cal.Next(at)
			got := next.In(at.Location()).Format(time.RFC3339)
			if want, err := time.Parse(time.RFC3339, c.next); err == nil && next.Equal(want) || c.next == "" && next.IsZero() {
				got = c.next
			}
			if open := cal.Contain(at); open != c.open || got != c.next {
				t.Errorf("at %s: %v until %s, want %v until %s", c.at, open, got, c.open, c.next)
			}
		})
	}
}

// TestCalendarNext holds Next against a walk by the minute, in zones with all kinds of changes of their clocks.
func TestCalendarNext(t *testing.T) {
	zones := []string{"UTC", "Asia/Seoul", "America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "Africa/Casablanca"}
	rapid.Check(t, func(t *rapid.T) {
		z := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		minute := rapid.IntRange(0, 24*60)
		cal := hearth.Calendar{Zone: z}
		for range rapid.IntRange(1, 3).Draw(t, "spans") {
			cal.Spans = append(cal.Spans, hearth.Span{
				Days: hearth.Days(rapid.IntRange(1, int(hearth.Week)).Draw(t, "days")),
				From: time.Duration(minute.Draw(t, "from")) * time.Minute, To: time.Duration(minute.Draw(t, "to")) * time.Minute,
			})
		}
		near := rapid.SampledFrom([]string{"2026-03-08", "2026-11-01", "2026-03-29", "2026-10-25", "2026-04-05", "2026-10-04", "2026-02-15", "2026-12-31"}).Draw(t, "day")
		day, err := time.ParseInLocation(time.DateOnly, near, z)
		if err != nil {
			t.Fatal(err)
		}
		at := day.Add(time.Duration(rapid.IntRange(-3*24*3600, 24*3600).Draw(t, "second")) * time.Second)
		next, open := cal.Next(at), cal.Contain(at)
		if want := asText(cal, at); open != want {
			t.Fatalf("%v: %v, want %v", at, open, want)
		}
		m := at.Truncate(time.Minute)
		for range 9 * 24 * 60 {
			if m = m.Add(time.Minute); cal.Contain(m) != open {
				break
			}
		}
		if cal.Contain(m) == open {
			if !next.IsZero() && !next.After(m) {
				t.Fatalf("%v until %v, but nothing changes until %v", at, next, m)
			}
			return
		}
		if !next.Equal(m) {
			t.Fatalf("%v until %v, want %v", at, next, m)
		}
	})
}

// asText is Contain by way of the clock's face.
func asText(c hearth.Calendar, t time.Time) bool {
	face := func(d time.Duration) string {
		return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	}
	local := t.In(c.Zone)
	now, today := local.Format(time.TimeOnly), local.Weekday()
	for _, s := range c.Spans {
		on := func(day time.Weekday) bool { return uint(s.Days)&(1<<uint(day)) != 0 }
		from, to := face(s.From), face(s.To)
		if from < to && on(today) && from <= now && now < to {
			return true
		}
		if from >= to && (on(today) && now >= from || on((today+6)%7) && now < to) {
			return true
		}
	}
	return false
}
