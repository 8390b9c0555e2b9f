package hearth_test

import (
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

func TestParseKappa(t *testing.T) {
	for in, want := range map[string]string{"0.85": "0.85", "1": "1", "1.0": "1", "0.050": "0.05", "100": "100", "100.000": "100", "0": "0", "0.001": "0.001", ".5": "0.5"} {
		if k, err := hearth.ParseKappa(in); err != nil || k.String() != want {
			t.Errorf("%q is %s, %v, want %s", in, k, err, want)
		}
	}
	for _, in := range []string{"", ".", "-1", "+1", "1e2", "NaN", "Inf", "100.001", "101", "0.0001", "1,5", " 1", "0x1", "1.2.3", strings.Repeat("9", 10000), "0." + strings.Repeat("0", 100)} {
		if k, err := hearth.ParseKappa(in); err == nil {
			t.Errorf("%.20q is %s", in, k)
		}
	}
}

func TestKey_TimeValue(t *testing.T) {
	for _, c := range []struct {
		key  hearth.Key
		want hearth.Kappa
	}{
		{hearth.Key{}, 0}, {hearth.Key{Kappa: 3000}, 3000}, {hearth.Key{Class: hearth.Batch}, hearth.KappaBatch}, {hearth.Key{Class: hearth.Batch, Kappa: hearth.KappaAttended}, 2000},
	} {
		if got := c.key.TimeValue(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.key, got, c.want)
		}
	}
}
