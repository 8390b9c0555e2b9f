package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// benched is a model that acme serves twice and beta once, and an own slot, and a model of beta's alone.
func benched(t *testing.T) *hearth.Catalog {
	t.Helper()
	own := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "USD"}
	acme, beta := &hearth.Provider{Slug: "acme", Currency: "USD"}, &hearth.Provider{Slug: "beta", Currency: "USD"}
	acme.Kind, beta.Kind = hearth.External, hearth.External
	m, n := &hearth.Model{ID: "x/a"}, &hearth.Model{ID: "x/b"}
	slot := &hearth.Slot{Name: "s", Node: &hearth.Node{Name: "gpu"}, Model: m}
	c := &hearth.Catalog{
		Currency: "USD", Models: []*hearth.Model{m, n}, Aliases: map[string]string{"short": "x/a"}, Slots: []*hearth.Slot{slot},
		Endpoints: []*hearth.Endpoint{
			{Model: m, Provider: own, Tag: "local-gpu/gpu", Slot: slot}, {Model: m, Provider: acme, Tag: "acme/fp8"}, {Model: m, Provider: acme, Tag: "acme/int4"},
			{Model: m, Provider: beta, Tag: "beta"}, {Model: n, Provider: beta, Tag: "beta"},
		},
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return c
}

const benchHead = "model,provider,score,sigma\n"

func TestMeasured(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		flagged    []string // ids
		fine       []string
		others     int
	}{
		{"two sigma below are borne, more are not", benchHead + "x/a,beta,0.7,0.02\nx/a,acme/fp8,0.66,0.02\nx/a,acme/int4,0.6,0.02\nx/a,other,0.7,0.02\nx/a,third,0.8,0.02\n",
			[]string{"acme/int4:x/a"}, []string{"acme/fp8:x/a", "beta:x/a"}, 2},
		{"a slug is all variants", benchHead + "x/a,ACME,1,0.1\nx/a,beta,2,0.1\nx/a,else,2,0.1\n", []string{"acme/fp8:x/a", "acme/int4:x/a"}, []string{"beta:x/a"}, 1},
		{"an own sigma counts, not the others'", benchHead + "x/a,acme/fp8,1,0.6\nx/a,acme/int4,1,0.4\nx/a,beta,2,0.1\nx/a,else,2,0.1\nx/a,more,2,0.1\n",
			[]string{"acme/int4:x/a"}, []string{"acme/fp8:x/a", "beta:x/a"}, 2},
		{"without one the spread of the scores does", "provider,score,model\nbeta,10,x/a\no,11,x/a\np,12,x/a\nq,13,x/a\nacme/fp8,9,x/a\nacme/int4,2,x/a\n",
			[]string{"acme/int4:x/a"}, []string{"acme/fp8:x/a", "beta:x/a"}, 3},
		{"above is never too far", benchHead + "x/a,beta,9,0.1\nx/a,acme/fp8,1,0.1\nx/a,acme/int4,1,0.1\n", nil, []string{"acme/fp8:x/a", "acme/int4:x/a", "beta:x/a"}, 0},
		{"aliases are models, own slots are nobody's offer", benchHead + "short,beta,1,0.1\nx/a,local-gpu,0,0.1\nx/a,local-gpu/gpu,0,0.1\nx/none,beta,3,1\n", nil, []string{"beta:x/a"}, 3},
		{"JSON", `[{"model":"x/b","provider":"beta","score":0.5,"sigma":0.01},{"model":"x/b","provider":"o","score":0.7},{"model":"x/b","provider":"p","score":0.7}]`,
			[]string{"beta:x/b"}, nil, 2},
		{"comments, spaces and a byte order mark", "\xef\xbb\xbf# by hand\nModel, Provider, Score, Sigma\nx/a, beta , 1 ,0.1\n", nil, []string{"beta:x/a"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of, others, err := measured(benched(t), []byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			var flagged, fine []string
			for _, e := range benched(t).Endpoints {
				if m, ok := of[e.ID]; ok && m.why() != "" {
					flagged = append(flagged, e.ID)
				} else if ok {
					fine = append(fine, e.ID)
				}
			}
			if d := cmp.Diff(tc.flagged, flagged) + cmp.Diff(tc.fine, fine); d != "" || others != tc.others {
				t.Errorf("%d others, %s", others, d)
			}
		})
	}
}

func TestMeasured_Refused(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"nothing", " \n", "line 1: the head must name the columns model, provider, score and perhaps sigma"},
		{"a head alone", benchHead, "the benchmark has no scores"},
		{"another head", "model,score\nx/a,1\n", "line 1: the head must name"},
		{"every line that is wrong", benchHead + "x/a,beta,good,\nx/a,,1,0.1\n,beta,1,0.1\nx/a,beta,1,-1\nx/a,beta,1,many\nx/a,beta,NaN,1\nx/a,beta,1,0.1\n",
			"line 2: the score \"good\" is not a number\nline 3: there is no provider\nline 4: there is no model\nline 5: the sigma must be a number from 0 on\nline 6: the sigma \"many\" is not a number\nline 7: the score is out of all bounds"},
		{"a quote that does not end", benchHead + "x/a,\"beta,1,0.1\n", "this is not CSV"},
		{"no sigma, and nothing to tell it from", benchHead + "x/a,beta,1,0.1\nx/a,acme/fp8,1,\n", "line 3: there is no sigma, and fewer than 4 different scores of \"x/a\""},
		{"half of a JSON", `[{"model":"x/a"`, "this is not JSON"},
		{"JSON of another kind", `[{"model":1}]`, "at /0/model: it is not what it should be"},
		{"JSON without a score", `[{"model":"x/a","provider":"beta"}]`, "line 1: there is no score"},
		{"long names are cut", benchHead + "x/a,beta," + strings.Repeat("9x", 400) + ",\n", "…\" is not a number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := measured(benched(t), []byte(tc.body))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if err != nil && len(err.Error()) > 600 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
		})
	}
}

// Whatever is given as a benchmark, it is taken in or refused, and nothing breaks.
func FuzzMeasured(f *testing.F) {
	f.Add([]byte(benchHead + "x/a,beta,1,0.1\n"))
	f.Add([]byte(`[{"model":"x/b","provider":"beta","score":0.5,"sigma":0.01}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		of, _, err := measured(benched(t), body)
		if err != nil && of != nil {
			t.Error("scores and an error")
		}
	})
}
