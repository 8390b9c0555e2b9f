package hearth

import (
	"slices"
	"testing"
)

func TestParams(t *testing.T) {
	t.Run("every name is its own set", func(t *testing.T) {
		var all Params
		for _, n := range ParamNames() {
			p := ParamOf(n)
			if p == 0 || all&p != 0 || !slices.Equal(p.Names(), []string{n}) {
				t.Errorf("%s: set %b, names %q", n, p, p.Names())
			}
			all |= p
		}
		if got := all.Names(); !slices.Equal(got, ParamNames()) {
			t.Errorf("all of them: %q", got)
		}
	})
	t.Run("an unknown name is no parameter", func(t *testing.T) {
		if p := ParamOf("temprature"); p != 0 {
			t.Errorf("got %b", p)
		}
	})
	t.Run("tools and formats are usual", func(t *testing.T) {
		if UsualParams&ParamTools == 0 || UsualParams&ParamResponseFormat == 0 {
			t.Error("they are not")
		}
	})
}
