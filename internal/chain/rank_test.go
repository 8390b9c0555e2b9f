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
		{"that one, if one alone declares them", func(s *scene) {
			s.at(betaGemma).Params = toolParams
			s.serve("gamma", "1")
		}, true, []string{betaGemma}, []string{localGemma, betaGemma, "gamma " + gemma, acmeGemma}},
		{"one that is alone at its priority", func(s *scene) { s.at(acmeGemma).Priority = 60 }, false, []string{acmeGemma, betaGemma},
			[]string{localGemma, betaGemma, acmeGemma}},
		{"one that is left", func(s *scene) { s.at(acmeGemma).Disabled = true }, false, []string{betaGemma}, []string{localGemma, betaGemma}},
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

// TestRank_OwnOrder: one that is alone is not ranked where the caller chose the order, nor is an own slot.
func TestRank_OwnOrder(t *testing.T) {
	for _, prefs := range []hearth.Preferences{{Order: []string{"beta"}}, {Sort: hearth.SortPrice}} {
		s := newScene()
		s.at(acmeGemma).Priority = 60
		in := s.input(t, &hearth.Request{Models: []string{gemma}, Prefs: prefs})
		in.Rank = func(tier []hearth.Candidate) { t.Errorf("asked about %v", lines(tier)) }
		if _, err := Build(in); err != nil {
			t.Fatal(err)
		}
	}
	s := newScene()
	in := s.input(t, &hearth.Request{Models: []string{gemma}, Prefs: hearth.Preferences{Only: []string{"local-gpu"}}})
	in.Rank = func(tier []hearth.Candidate) { t.Errorf("asked about %v", lines(tier)) }
	if _, err := Build(in); err != nil {
		t.Fatal(err)
	}
}
