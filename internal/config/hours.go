package config

import (
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// weekdays are the names of the days, by time.Weekday.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseWeek reads parts of a week, with commas between them: days, hours or both, such as "mon-fri 09:00-19:00, sat".
func parseWeek(text string) (spans []hearth.Span, ok bool) {
	if len(text) > maxName {
		return nil, false
	}
	for part := range strings.SplitSeq(text, ",") {
		span := hearth.Span{Days: hearth.Week, To: 24 * time.Hour}
		words := strings.Fields(part)
		if len(words) == 0 || len(words) > 2 {
			return nil, false
		}
		days, named := parseDays(words[0])
		if named {
			span.Days, words = days, words[1:]
		}
		if len(words) > 1 {
			return nil, false
		}
		if len(words) == 1 {
			if span.From, span.To, ok = parseHours(words[0]); !ok || span.From == span.To {
				return nil, false
			}
		}
		spans = append(spans, span)
	}
	return spans, true
}

// parseDays reads days with + between them: mon, mon-fri, fri-mon, sat+sun.
func parseDays(text string) (set hearth.Days, ok bool) {
	for part := range strings.SplitSeq(strings.ToLower(text), "+") {
		first, last, several := strings.Cut(part, "-")
		from, ok := weekday(first)
		if !ok {
			return 0, false
		}
		to := from
		if several {
			if to, ok = weekday(last); !ok {
				return 0, false
			}
		}
		for day := from; ; day = (day + 1) % 7 {
			if set |= 1 << day; day == to {
				break
			}
		}
	}
	return set, true
}

func weekday(name string) (time.Weekday, bool) {
	for i, word := range weekdays {
		if word == name {
			return time.Weekday(i), true
		}
	}
	return 0, false
}

// calendar is parts of a week by the clock of the configuration's zone; they were checked when the file was read.
func (c *Config) calendar(text string) hearth.Calendar {
	if text == "" {
		return hearth.Calendar{}
	}
	spans, _ := parseWeek(text)
	zone, _ := c.Location()
	return hearth.Calendar{Spans: spans, Zone: zone}
}

// keepWarm is when a slot is to be up though nobody asks for it, nil = never.
func (c *Config) keepWarm(s *Slot) *hearth.Calendar {
	switch {
	case s.Disabled:
		return nil
	case s.companion(), s.KeepWarm == "true":
		return &hearth.Calendar{}
	case s.KeepWarm == "", s.KeepWarm == "false":
		return nil
	}
	week := c.calendar(s.KeepWarm)
	return &week
}

const weekRemedy = `write such as "09:00-19:00", "mon-fri 09:00-19:00" or "mon-fri 19:00-08:00, sat+sun"`

func (k *checker) week(path, text string) {
	if !k.given(path) || k.bad[path] {
		return
	}
	if _, ok := parseWeek(text); !ok {
		k.add(path, "must be hours of a week, not "+quote(text), weekRemedy)
	}
}

func (k *checker) keepWarm(path, text string) {
	if text != "true" && text != "false" {
		k.week(path, text)
	}
}
