package main

import (
	"strings"
	"testing"
)

func TestShow(t *testing.T) {
	const pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.01s\n"}
{"Action":"pass","Package":"p","Elapsed":0.01}
`
	for _, c := range []struct {
		name, in, want string
		ok             bool
	}{
		{"all passed", pass, "ok  \tp\t0.01s\n1 passed, 0 failed, 0 skipped\n", true},
		{"no test ran", `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}
`, "?   \tq\t[no test files]\n0 passed, 0 failed, 0 skipped\n", false},
		{"skipped with its reason", pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:5: no disk that can be cut off\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`, "ok  \tp\t0.01s\nskipped: p TestB: b_test.go:5: no disk that can be cut off\n1 passed, 0 failed, 1 skipped\n", true},
		{"failed with its output", pass + `{"Action":"output","Package":"q","Test":"TestB","Output":"    b_test.go:5: got 1\n"}
{"Action":"output","Package":"q","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}
`, "ok  \tp\t0.01s\n    b_test.go:5: got 1\n--- FAIL: TestB (0.00s)\n1 passed, 1 failed, 0 skipped\n", false},
		{"a panic outside of the test", pass + `{"Action":"output","Package":"q","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"q","Test":"TestB","Output":"panic: nil\n"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t1s\n"}
{"Action":"fail","Package":"q","Elapsed":1}
`, "ok  \tp\t0.01s\nFAIL\tq\t1s\n=== RUN   TestB\npanic: nil\nFAIL\tq\t1s\n1 passed, 0 failed, 0 skipped\n", false},
		{"did not compile", pass + `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined: x\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","FailedBuild":"q"}
`, "ok  \tp\t0.01s\nq.go:1: undefined: x\nFAIL\tq [build failed]\nFAIL\tq [build failed]\n1 passed, 0 failed, 0 skipped\n", false},
		{"words that are not JSON", "go: no such module\n" + pass, "go: no such module\nok  \tp\t0.01s\n1 passed, 0 failed, 0 skipped\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := show(strings.NewReader(c.in), &out)
			if err != nil || ok != c.ok {
				t.Errorf("show = %v, %v, want %v", ok, err, c.ok)
			}
			if out.String() != c.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), c.want)
			}
		})
	}
}
