package main

import (
	"regexp"
	"strconv"
	"strings"
)

// negatives makes one argument of a flag and a negative number behind it, as in --rpm -4: no flag is called by a digit, so
// the number can only be meant as the flag's value, which then says itself what it may be.
func negatives(args []string) []string {
	var list []string
	for i, a := range args {
		if a == "--" {
			return append(list, args[i:]...)
		}
		if n := len(list); n > 0 && negative(a) && longFlag(args[i-1]) {
			list[n-1] += "=" + a
			continue
		}
		list = append(list, a)
	}
	return list
}

func longFlag(a string) bool { return len(a) > 2 && a[:2] == "--" && !strings.Contains(a, "=") }

func negative(a string) bool {
	a, ok := strings.CutPrefix(a, "-")
	a = strings.TrimPrefix(a, ".")
	return ok && a != "" && '0' <= a[0] && a[0] <= '9'
}

// noValue is what the parser says of a flag without its value.
var noValue = regexp.MustCompile(`^(--[a-z-]+): expected .+ value but got ("(?:[^"\\]|\\.)*") \((.*?)\)`)

// mistake says what is wrong with the command line, and what to do about it.
func mistake(err error) string {
	m := noValue.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	next, failed := strconv.Unquote(m[2])
	if failed != nil || !strings.HasPrefix(next, "-") {
		return m[1] + " has no value"
	}
	return m[1] + " has no value; if " + next + " is meant to be it, write " + m[1] + "=" + next
}
