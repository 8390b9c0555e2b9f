package chain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// TestRank: what a rank is asked about is what really goes first, so that its first place is tried first.
func TestRank(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given func(*scene)
		tools bool
		asked []string // as they were given, "" = not at all
		want  []string
	}{
		{"the whole tier", func(*scene) {}, true, []string{acmeGemma, betaGemma}, []string{localGemma, betaGemma, acmeGemma}},
		{"those who declare tools", func(s *scene) {
			s.at(acmeGemma).Params, s.at(betaGemma).Params = toolParams, toolParams
			s.serve("gamma", "1")
			s.serve("delta", "2")
		}, true, []string{acmeGemma, betaGemma}, []string{localGemma, betaGemma, acmeGemma, "delta " + gemma, "gamma " + gemma}},
		{"nobody, if one alone declares them", func(s *scene) {
			s.at(betaGemma).Params = toolParams
			s.serve("gamma", "1")
		}, true, nil, []string{localGemma, betaGemma, "gamma " + gemma, acmeGemma}},
		{"everybody, if no tools are needed", func(s *scene) { s.at(betaGemma).Params = toolParams }, false, []string{acmeGemma, betaGemma},
			[]string{localGemma, betaGemma, acmeGemma}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.given(s)
			in := s.input(t, &hearth.Request{Models: []string{gemma}, Tools: tc.tools})
			var asked []string
			in.Rank = func(tier []hearth.Candidate) {
				asked = append(asked, lines(tier)...)
				slices.SortFunc(tier, func(x, y hearth.Candidate) int { return strings.Compare(line(y.Endpoint), line(x.Endpoint)) })
			}
			c, err := Build(in)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(asked)
			if d := cmp.Diff(tc.asked, asked); d != "" {
				t.Errorf("asked about (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.want, lines(c.Candidates)); d != "" {
				t.Errorf("chain (-want +got):\n%s", d)
			}
		})
	}
}
