package content

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// address is what an e-mail address is, as a regular expression: too slow for a text that is full of @.
var address = regexp.MustCompile(`[\p{L}\p{N}._%+'-]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,62})\.)+\p{L}{2,24}`)

func TestEmails_AsTheExpression(t *testing.T) {
	long := func(c string, n int) string { return strings.Repeat(c, n) }
	for _, text := range []string{
		"a@b.co", "a@b.c", "a@b.c.de", "a@b.de.c", "a@-b.co", "a@b-.co", "a@b..co", "@b.co", "a@.co", "a@b", "a@b.", "a@b.co.", "a@b.c0", "a@b.co0",
		"a@@b.co", "a@b@c.co", "a@b.co@d.ef", "a@b.cod@d.ef", "가@나.다라", "é@b.co", "a\xff@b.co", "a@b.\xffco", "a@b\xff.co", "Ⅷ½@٣.co",
		long("a", 64) + "@b.co", long("a", 65) + "@b.co", long("가", 65) + "@b.co",
		"a@" + long("b", 63) + ".co", "a@" + long("b", 64) + ".co", "a@b." + long("c", 24), "a@b." + long("c", 25), "a@" + long("b.", 100) + "co",
	} {
		if got, want := emails(text), address.FindAllStringIndex(text, -1); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b.", "@", "@", ".", "-", "co", "1", "가", " ", "é", "%", "_", "Z9", "x.yz", "\xff"}), 0, 30).Draw(t, "text"), "")
		if got, want := emails(text), address.FindAllStringIndex(text, -1); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}

// A text that is made to be slow to look through takes no longer than it is long.
func TestEmails_Hostile(t *testing.T) {
	for _, part := range []string{"@", "a@", "a@b.", "%@a.b.c.d.", strings.Repeat("a.", 127) + "@", strings.Repeat("a", 255) + "@"} {
		text := strings.Repeat(part, 1<<20/len(part)) // the expression takes 10 s and more
		began := time.Now()
		emails(text)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%.20q: %v", part, took)
		}
	}
}
