package toolcheck

import (
	"fmt"
	"strings"
	"testing"
)

// A list of tools by which judging takes long is judged once, and then spared.
func TestJudge_Slow(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"a":{"items":{"allOf":[` + strings.Repeat(`{"pattern":"^(a|aa)+$"},`, 100) + `{"type":"string"}]}}}}`
	args := `{"a":[` + strings.Repeat(`"`+strings.Repeat("a", 50)+`!",`, 400) + `"b"]}`
	j := New()
	tools := j.Tools(tool(schema))
	calls := []Call{{Name: "f", Args: []byte(args)}}
	bad := -1
	j.judge(answer{tools, calls, func(_, b int) { bad = b }})
	if bad != 1 || j.Slow() != 1 || j.Judged() != 1 {
		t.Errorf("%d bad; %d judged, %d slow", bad, j.Judged(), j.Slow())
	}
	if j.Offer(tools, calls, nil) {
		t.Error("what took long is taken in again")
	}
	if !j.Offer(j.Tools(tool(weather)), calls, nil) {
		t.Error("another list is spared for it")
	}
	if tools.raw != nil {
		t.Error("the text of a list that was read is kept")
	}
}

// Of a list whose schemas take long to read only the first ones are.
func TestTools_Many(t *testing.T) {
	t.Parallel()
	const n = 400
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `,{"type":"function","function":{"name":"f%d","parameters":{"required":["x"],"properties":{"x":{"pattern":"^(a|b|c){1,%d}$"}}}}}`, i, 20+i)
	}
	x := New().Tools([]byte("[" + list.String()[1:] + "]"))
	if x == nil {
		t.Fatalf("%d bytes are too many", list.Len())
	}
	x.once.Do(x.read)
	if first, last := x.of["f0"], x.of[fmt.Sprint("f", n-1)]; len(x.of) != n || first.schema == nil || last == nil || last.schema != nil {
		t.Errorf("of %d functions the first is %+v, the last %+v", len(x.of), first, last)
	}
	if !x.allow(&Call{Name: fmt.Sprint("f", n-1), Args: []byte("{}")}) || x.allow(&Call{Name: "f0", Args: []byte("{}")}) {
		t.Error("calls are not judged by what was read")
	}
}
