package ledger

import (
	"math"
	"time"

	"myip.co.kr/hearth"
)

// Days are counted from 1970-01-01 in the zone that a time carries, as the spend of a record is: by the date on the
// calendar, however many hours that day has.

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// dayOf is the day of t.
func dayOf(t time.Time) int {
	_, offset := t.Zone()
	return int(floorDiv(t.Unix()+int64(offset), 24*60*60))
}

// dateOf is the day written as the store has it, YYYY-MM-DD.
func dateOf(day int) string {
	return time.Unix(int64(day)*24*60*60, 0).UTC().Format(time.DateOnly)
}

// window is the period in which t lies: from its first day up to and not including to. A week begins on Monday.
func window(p hearth.Period, t time.Time) (from, to int) {
	day := dayOf(t)
	switch p {
	case hearth.Daily:
		return day, day + 1
	case hearth.Weekly:
		const thursday = 3 // 1970-01-01, counted from Monday
		monday := day - int((int64(day)+thursday)-7*floorDiv(int64(day)+thursday, 7))
		return monday, monday + 7
	case hearth.Monthly:
		y, m, _ := t.Date()
		return dayOf(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)), dayOf(time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC))
	case hearth.Forever:
	}
	return math.MinInt, math.MaxInt
}

// Every record's date lies between these.
const firstDate, lastDate = "0000-01-01", "9999-12-31"

// Window is the first and the last date (YYYY-MM-DD) of the period in which t lies, by the calendar of its zone.
func Window(p hearth.Period, t time.Time) (first, last string) {
	from, to := window(p, t)
	if from == math.MinInt {
		return firstDate, lastDate
	}
	return dateOf(from), dateOf(to - 1)
}
