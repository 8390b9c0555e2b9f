package dialect

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func costOf(t interface{ Fatal(...any) }, members string) string {
	a, err := ReadAnswer([]byte(`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,` + members + `}}`))
	if err != nil || !a.Usage.Reported {
		t.Fatal(err, a)
	}
	return a.Usage.Cost
}

// TestUsage_cost: what an upstream says that an answer cost is kept digit for digit, and what is no such amount is not said.
func TestUsage_cost(t *testing.T) {
	for members, want := range map[string]string{
		`"cost":0.1`:                           "0.1",
		`"cost":"0.1"`:                         "0.1",
		`"cost":0.10`:                          "0.1",
		`"cost":0`:                             "0",
		`"cost":1.4e-05`:                       "0.000014",
		`"cost":1E+2`:                          "100",
		`"cost":0.12345678901234567890123`:     "0.12345678901234567890123",
		`"cost":9007199254740993.000000000001`: "9007199254740993.000000000001",
		`"cost":"\u0030.5"`:                    "0.5",
		`"cost":null`:                          "",
		`"cost":""`:                            "",
		`"cost":true`:                          "",
		`"cost":-0.1`:                          "",
		`"cost":"1,5"`:                         "",
		`"cost":"$1"`:                          "",
		`"cost":"0x10"`:                        "",
		`"cost":" 1"`:                          "",
		`"cost":"NaN"`:                         "",
		`"cost":[1]`:                           "",
		`"cost":1e400000000`:                   "",
		`"cost":1e-400000000`:                  "",
		`"cost":1e-33`:                         "",
		`"cost":0.` + strings.Repeat("1", 80):  "",
		`"cost":{"input_tokens_cost":0.1,"total_cost":"0.3","x":{"total_cost":9}}`:     "0.3",
		`"cost":{"input_tokens_cost":0.1}`:                                             "",
		`"cost":{}`:                                                                    "",
		`"estimated_cost":6.5e-06`:                                                     "0.0000065",
		`"estimated_cost":null`:                                                        "",
		`"estimated_cost":2,"cost":1`:                                                  "1",
		`"cost_in_usd_ticks":1966000`:                                                  "0.0001966",
		`"cost_in_usd_ticks":2709000,"cost":0.0002709`:                                 "0.0002709",
		`"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":19}`:     "19.95",
		`"is_byok":true,"cost_details":{"upstream_inference_cost":19},"cost":0`:        "19",
		`"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":null}`:   "0.95",
		`"cost":0.95,"is_byok":true,"cost_details":null`:                               "0.95",
		`"cost":0.95,"is_byok":false,"cost_details":{"upstream_inference_cost":0.95}`:  "0.95",
		`"cost":0.95,"is_byok":"true","cost_details":{"upstream_inference_cost":0.95}`: "0.95",
		`"is_byok":true,"cost_details":{"upstream_inference_cost":19}`:                 "",
		`"costs":1`: "",
	} {
		t.Run(members, func(t *testing.T) {
			if got := costOf(t, members); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestUsage_costIsExact: the text of a cost is the same number as was said, without an exponent.
func TestUsage_costIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.StringMatching(`(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?`).Draw(t, "digits")
		if rapid.Bool().Draw(t, "exponent") {
			said += fmt.Sprintf("e%+d", rapid.IntRange(-12, 32).Draw(t, "exp"))
		}
		for _, v := range []string{said, `"` + said + `"`} {
			got := costOf(t, `"cost":`+v)
			want, ok := new(big.Rat).SetString(said)
			is, ok2 := new(big.Rat).SetString(got)
			if !ok || !ok2 || is.Cmp(want) != 0 || strings.ContainsAny(got, "eE+") {
				t.Fatalf("%s is read as %q", v, got)
			}
		}
	})
}
