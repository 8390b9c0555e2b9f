package dialect

import "testing"

func TestStringEnd(t *testing.T) {
	for in, want := range map[string]int{
		`""x`: 2, `"a"`: 3, `"\""x`: 4, `"\\"x`: 4, `"\\\""x`: 6, `"a\\\\"x`: 7, `"open`: 5, `"open\"`: 7,
	} {
		for _, before := range []string{"", `{"\\":`} {
			if got := stringEnd([]byte(before+in), len(before)); got != len(before)+want {
				t.Errorf("%s%s: %d, want %d", before, in, got, len(before)+want)
			}
		}
	}
}
