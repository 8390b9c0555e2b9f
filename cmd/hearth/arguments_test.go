package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestNegatives(t *testing.T) {
	for in, want := range map[string]string{
		"keys create x --rpm -4":                  "keys create x --rpm=-4",
		"simulate slots --rate -.5 --turn -1s":    "simulate slots --rate=-.5 --turn=-1s",
		"keys create x --rpm=3 -4":                "keys create x --rpm=3 -4",
		"keys create x --rpm -4 -5":               "keys create x --rpm=-4 -5",
		"keys create x --owner -x":                "keys create x --owner -x",
		"keys create x --rpm - --tpm -. --json -": "keys create x --rpm - --tpm -. --json -",
		"wake -4 -c -4":                           "wake -4 -c -4",
		"keys create -- --rpm -4":                 "keys create -- --rpm -4",
		"":                                        "",
	} {
		if got := negatives(strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// A flag without its value is named, with what to do; a negative number is a value, and the flag says what it may be.
func TestRun_Mistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"keys create x --rpm":                  "hearth: --rpm has no value\nTry: hearth keys create --help\n",
		"keys create x --owner --config c":     "hearth: --owner has no value; if --config is meant to be it, write --owner=--config\nTry: hearth keys create --help\n",
		"keys create x --owner -a\"b":          "hearth: --owner has no value; if -a\"b is meant to be it, write --owner=-a\"b\nTry: hearth keys create --help\n",
		"simulate slots --rate -1":             "hearth: --rate: more than 0 requests per second, not -1\n",
		"simulate slots --turn":                "hearth: --turn has no value\nTry: hearth simulate slots --help\n",
		"simulate slots --turn -1s":            "hearth: --turn: a turn is between 0 and 1h, not -1s\n",
		"simulate slots --scenario --markdown": "hearth: --scenario has no value; if --markdown is meant to be it, write --scenario=--markdown\nTry: hearth simulate slots --help\n",
		"wake --no-such-flag":                  "hearth: unknown flag --no-such-flag",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := run(strings.Fields(args), streams{strings.NewReader(""), &out, &errs})
			if code == 0 || out.Len() > 0 || !strings.HasPrefix(errs.String(), want) || strings.Contains(errs.String(), "expected") {
				t.Errorf("%d %q %q", code, errs.String(), out.String())
			}
		})
	}
}
