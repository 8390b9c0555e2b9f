package relay

import (
	"strings"
	"testing"
	"testing/synctest"
)

// The record says whose request it was and how many own slots stood in its chain, whoever answered.
func TestRecord_UserAndLocal(t *testing.T) {
	own := part{local: true, serve: answers}
	for name, c := range map[string]struct {
		extra string
		parts []part
		user  string
		local int
	}{
		"own slots behind":  {`, "user": "kim"`, []part{good, own, own}, "kim", 2},
		"no own slot":       {"", []part{good}, "", 0},
		"one is left out":   {`, "user": "` + strings.Repeat("가", 1000) + `", "provider": {"ignore": ["local-gpu/gpu-1"]}`, []part{good, own, own}, strings.Repeat("가", maxText/3), 1},
		"control and UTF-8": {`, "user": "a\u0000b"`, []part{own}, "a\x00b", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.parts...)
				a := s.ask(t.Context(), chat(c.extra))
				g := s.record(a.id)
				if a.err != nil || g.User != c.user || g.Local != c.local {
					t.Errorf("%v: user %q, %d own slots", a.err, g.User, g.Local)
				}
			})
		})
	}
}
