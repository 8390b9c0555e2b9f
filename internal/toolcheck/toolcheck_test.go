package toolcheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const weather = `{"type":"object","properties":{"city":{"type":"string","pattern":"^[A-Z]"},"days":{"type":"integer","minimum":1},
"unit":{"$ref":"#/$defs/unit"}},"required":["city"],"additionalProperties":false,"$defs":{"unit":{"enum":["C","F"]}}}`

// tool is a list with one function of that schema.
func tool(schema string) []byte {
	return fmt.Appendf(nil, `[{"type":"function","function":{"name":"f","parameters":%s}}]`, schema)
}

// verdict is how many of the calls are bad.
func verdict(t *testing.T, j *Judge, tools []byte, calls ...Call) (bad int) {
	t.Helper()
	bad = -1
	j.judge(answer{j.Tools(tools), calls, func(n, b int) {
		if bad = b; n != len(calls) {
			t.Errorf("%d calls, want %d", n, len(calls))
		}
	}})
	return bad
}

func TestJudge(t *testing.T) {
	chain := func(n int, last string) string { // each part refers twice to the next
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s"a%d":%s}}`, b.String(), n, last)
	}
	kind := filepath.Join(t.TempDir(), "kind.json")
	if err := os.WriteFile(kind, fmt.Appendf(nil, `{"$id":"file://%s","$schema":"https://json-schema.org/draft/2020-12/schema","$vocabulary":{"https://json-schema.org/draft/2020-12/vocab/core":true,"https://json-schema.org/draft/2020-12/vocab/validation":true}}`, kind), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, schema, args string
		bad                int
	}{
		{"as it should be", weather, `{"city":"Seoul","days":3,"unit":"C"}`, 0},
		{"a name that is missing", weather, `{"days":3}`, 1},
		{"nothing, where something is needed", weather, ``, 1},
		{"nothing, where nothing is", `{"type":"object"}`, ``, 0},
		{"a value of another kind", weather, `{"city":7}`, 1},
		{"a number with a point for an integer", weather, `{"city":"Seoul","days":1.5}`, 1},
		{"an integer with a point", weather, `{"city":"Seoul","days":2.0}`, 0},
		{"too small a number", weather, `{"city":"Seoul","days":0}`, 1},
		{"a pattern", weather, `{"city":"seoul"}`, 1},
		{"a reference within", weather, `{"city":"Seoul","unit":"K"}`, 1},
		{"a name too many", weather, `{"city":"Seoul","x":1}`, 1},
		{"no JSON", weather, `{"city":`, 1},
		{"no schema", `null`, `{"any":1}`, 0},
		{"a schema that is none", `{"type":7}`, `{"any":1}`, 0},
		{"a pattern that is none", `{"properties":{"a":{"pattern":"("}}}`, `{"a":"x"}`, 0},
		{"a reference to the network allows everything", `{"$ref":"http://127.0.0.1:1/x.json"}`, `{}`, 0},
		{"and so does one to a file", `{"$ref":"file:///etc/passwd"}`, `{}`, 0},
		{"and a schema of a kind that is elsewhere", `{"$schema":"http://127.0.0.1:1/meta","type":"string"}`, `{}`, 0},
		{"a reference to nothing", `{"$ref":"#/$defs/none"}`, `{}`, 0},
		{"a reference to itself", `{"type":"string","properties":{"a":{"$ref":"#"}}}`, `{}`, 0},
		{"references that unfold a little", chain(3, `{"type":"string"}`), `{}`, 1},
		{"references that unfold without end", chain(40, `{"type":"string"}`), `{}`, 0},
		{"references to each other", `{"type":"string","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}`, `{}`, 0},
		{"a reference with signs that stand for others", `{"$ref":"#/$defs/a~1b~0c","$defs":{"a/b~c":{"type":"string"}}}`, `{}`, 1},
		{"a reference with signs of addresses", `{"$ref":"#/$defs/a%62","$defs":{"a%62":{},"ab":{"type":"string"}}}`, `{}`, 0},
		{"a reference by another name than the place", `{"$ref":"#title","title":"x","$defs":{"a":{"$anchor":"title","type":"string"}}}`, `{}`, 0},
		{"a reference into no object", `{"$ref":"#/type/x","type":"string"}`, `{}`, 0},
		{"deeper than is looked", `{"type":"string","not":` + strings.Repeat(`{"not":`, 101) + `{}` + strings.Repeat("}", 102), `{}`, 0},
		{"as deep as is looked", `{"type":"string","not":` + strings.Repeat(`{"not":`, 97) + `{}` + strings.Repeat("}", 98), `{}`, 1},
		{"more values than are looked at", `{"enum":[` + strings.Repeat("1,", maxNodes) + `1]}`, `{}`, 0},
		{"references to whoever includes it", `{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"string","properties":{"a":{"$recursiveRef":"#"}}}`, `{}`, 0},
		{"an old name by other ways than the place", `{"type":"string","items":{"id":"http://x/"}}`, `{}`, 0},
		{"which the whole may have", `{"id":"http://x/","type":"string"}`, `{}`, 1},
		{"values that are all compared with each other", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + strings.Repeat("1,", 5000) + `1]}`, 0},
		{"some that are", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1]}`, 1},
		{"names by other ways than the place", `{"$id":"http://x/","type":"string"}`, `{}`, 0},
		{"a pattern that others choke on", `{"properties":{"a":{"pattern":"^(a+)+$"}}}`, `{"a":"` + strings.Repeat("a", 5000) + `!"}`, 1},
		{"more bytes than are looked at", weather, `{"x":"` + strings.Repeat("a", maxArgs) + `"}`, 0},
		{"a kind of schema in a file, which is not read", `{"$schema":"file://` + kind + `","type":"string"}`, `{}`, 0},
		{"more values than the schema can be held against", `{"properties":{"a":{"items":{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 200) + `{"type":"null"}]}}}}`, `{"a":[` + strings.Repeat("1,", 5000) + `1]}`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j, began := New(), time.Now()
			if got := verdict(t, j, tool(tc.schema), Call{Name: "f", Args: []byte(tc.args)}); got != tc.bad {
				t.Errorf("%d bad, want %d", got, tc.bad)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	t.Run("each call by its own function", func(t *testing.T) {
		list := []byte(`[{"type":"function","function":{"name":"f","parameters":{"required":["a"]}}},{"type":"function","function":{"name":"g"}},{"type":"custom"}]`)
		if got := verdict(t, New(), list, Call{Name: "f", Args: []byte("{}")}, Call{Name: "g"}, Call{Name: "h"}, Call{Name: "g", Bad: true}, Call{Name: "f", Args: []byte("{"), Open: true}); got != 2 {
			t.Errorf("%d bad, want the first and the one that was known to be", got)
		}
	})
	t.Run("a list that is none allows everything", func(t *testing.T) {
		if got := verdict(t, New(), []byte(`[1`), Call{Name: "f", Args: []byte("x")}); got != 0 {
			t.Errorf("%d bad", got)
		}
	})
}

// What is handed in is judged in its turn; what is too much is dropped and counted, and nobody waits.
func TestJudge_Queue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New()
		tools, heard := j.Tools(tool(weather)), 0
		told := func(_, bad int) { heard += bad }
		for i := range queued + 3 {
			if ok := j.Offer(tools, []Call{{Name: "f"}}, told); ok != (i < queued) {
				t.Fatalf("offer %d: %v", i, ok)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-done
		if heard != queued || j.Judged() != queued || j.Dropped() != 3 || j.Slow() != 0 {
			t.Errorf("heard of %d; %d judged, %d dropped, %d slow", heard, j.Judged(), j.Dropped(), j.Slow())
		}
		tools.pauses.Store(time.Now().Add(time.Second).UnixNano())
		if j.Offer(tools, []Call{{Name: "f"}}, told) {
			t.Error("taken in while its list is spared")
		}
		<-time.After(2 * time.Second)
		if !j.Offer(tools, []Call{{Name: "f"}}, told) {
			t.Error("refused when that is over")
		}
	})
	var none *Judge
	if none.Tools(tool(weather)) != nil || none.Offer(nil, []Call{{}}, nil) || New().Offer(nil, []Call{{}}, nil) {
		t.Error("judged by nothing")
	}
	j := New()
	one, again, two := j.Tools([]byte("[1]")), j.Tools([]byte("[1]")), j.Tools([]byte("[2]"))
	if j.Tools(make([]byte, maxTools+1)) != nil || one != again || one == two {
		t.Error("lists of tools are mixed up")
	}
	if j.Offer(one, nil, nil) {
		t.Error("an answer without calls is to be judged")
	}
	body := tool(weather)
	kept := j.Tools(body)
	clear(body) // the request's memory is used again
	j.judge(answer{kept, []Call{{Name: "f", Args: []byte("{}")}}, func(_, bad int) {
		if bad != 1 {
			t.Error("the schemas are in memory that is the request's")
		}
	}})
	for i := range 3 * maxKnown {
		j.Tools(fmt.Appendf(nil, "[%d]", i))
	}
	if len(j.known) > maxKnown {
		t.Errorf("%d lists are kept", len(j.known))
	}
}

// No schema and no arguments break it, or take long.
func FuzzJudge(f *testing.F) {
	f.Add(tool(weather), []byte(`{"city":"Seoul"}`))
	f.Add(tool(`{"$ref":"#/properties/a","properties":{"a":{"allOf":[{"$ref":"#"}]}}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, tools, args []byte) {
		j, began := New(), time.Now()
		if x := j.Tools(tools); x != nil {
			j.judge(answer{x, []Call{{Name: "f", Args: args}}, func(int, int) {}})
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	b.ReportAllocs()
	j := New()
	tools := j.Tools(tool(weather))
	calls := []Call{{Name: "f", Args: []byte(`{"city":"Seoul","days":3,"unit":"C"}`)}}
	for b.Loop() {
		j.judge(answer{tools, calls, func(int, int) {}})
	}
}
