package relay

import "strings"

// unquote takes out of the messages of attempts what upstreams repeated of the request. The caller has been told, or is about to
// be; but a prompt is in no record, not even a piece of it. It comes before the request is let go.
func (x *exchange) unquote() {
	if !x.tally.quotes || x.chat == nil {
		return
	}
	x.tally.quotes = false
	as := x.gen.Attempts
	told := make([]string, len(as))
	for i := range as {
		told[i] = strings.ReplaceAll(as[i].Message, "\n", " ")
	}
	kept, ok := x.chat.WithoutPrompt(strings.Join(told, "\n"))
	if !ok { // the request is too large to be looked through: only our own words stay
		for i := range as {
			as[i].Message, _, _ = strings.Cut(as[i].Message, ": ")
		}
		return
	}
	for i, m := range strings.Split(kept, "\n") {
		as[i].Message = m
	}
}
