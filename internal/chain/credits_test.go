package chain

import (
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

// A limit for external providers drops them alone, and says so when nobody else is there.
func TestBuild_ExternalLimit(t *testing.T) {
	cost := hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 1000} // local 0.18, acme 0.0417, beta 0.695
	for _, c := range []struct {
		name           string
		req            hearth.Request
		left, external hearth.Nano // -1 = no limit
		want           []string
		dropped        string // part of the first drop
		err            string // part of the error
	}{
		{"own slots go on", cost, -1, 0, []string{localGemma}, "could cost up to 0.0417, more than what may still be spent at external providers", ""},
		{"it bounds each for itself", cost, -1, 41_700_000, []string{localGemma, acmeGemma}, "beta:" + gemma + " @2 credits over_budget: could cost up to 0.695, more than what may", ""},
		{"a nano less", cost, -1, 41_699_999, []string{localGemma}, "0.0417", ""},
		{"own slots go on within the key's own limit", cost, 800_000_000, 0, []string{localGemma}, "may still be spent at external providers", ""},
		{"the key's own limit is told first", cost, 1, 1, nil, "more than what the key has left", "the key has 0.000000001 KRW left and the request could cost up to 0.0417"},
		{"the key could pay, but not there", with(cost, hearth.Preferences{Ignore: []string{"local-gpu"}}), 800_000_000, 30_000_000, nil, "provider.ignore", "0.03 KRW may still be spent at external providers and the request could cost up to 0.0417 there"},
		{"a debt is nothing", with(cost, hearth.Preferences{Ignore: []string{"local-gpu"}}), -1, 0, nil, "provider.ignore", "0 KRW may still be spent at external providers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			in := s.input(t, &c.req)
			if c.left >= 0 {
				in.Left = &c.left
			}
			in.LeftExternal = &c.external
			ch, err := Build(in)
			if c.err != "" {
				if err == nil || err.Type != hearth.ErrInsufficientCredits || !strings.Contains(err.Message, c.err) {
					t.Fatalf("%v, want %q", err, c.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			got := lines(ch.Candidates)
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("candidates %q, want %q", got, c.want)
			}
			if lines := dropLines(ch.Drops); len(lines) == 0 || !strings.Contains(strings.Join(lines, "\n"), c.dropped) {
				t.Errorf("drops %q, want %q", lines, c.dropped)
			}
		})
	}
}
