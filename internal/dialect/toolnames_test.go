package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToolNames(t *testing.T) {
	many := func(n int) string {
		var tools []string
		for i := range n {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"f%d"}}`, i))
		}
		return `"tools":[` + strings.Join(tools, ",") + `]`
	}
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"functions":                     {`"tools":[{"type":"function","function":{"name":"add","parameters":{"name":"x"}}},{"function":{"description":"d","name":"s\u0075b"},"type":"function"}]`, []string{"add", "sub"}},
		"of the older form":             {`"functions":[{"name":"add"},{"name":"sub"}]`, []string{"add", "sub"}},
		"a custom tool":                 {`"tools":[{"type":"custom","custom":{"name":"grep"}}]`, []string{"grep"}},
		"in another order":              {`"tools":[{"function":{"name":"add"}}],"functions":[{"name":"sub"}]`, []string{"add", "sub"}},
		"the last of two names":         {`"tools":[{"function":{"name":"add","name":"sub"}}]`, []string{"sub"}},
		"none":                          {`"tools":[]`, nil},
		"no list":                       {`"tools":null`, nil},
		"one without a name":            {`"tools":[{"function":{"name":"add"}},{"type":"retrieval"},{"function":{"name":"sub"}}]`, nil},
		"one with an empty name":        {`"tools":[{"function":{"name":""}}]`, nil},
		"one with a name that is none":  {`"tools":[{"function":{"name":7}}]`, nil},
		"one with a name without bound": {`"tools":[{"function":{"name":"` + strings.Repeat("x", 300) + `"}}]`, nil},
		"one that is no object":         {`"tools":["add"]`, nil},
		"too many":                      {many(maxTools + 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c1, err := DecodeChat([]byte(`{`+c.body+`,"messages":[{"role":"user","content":"x"}]}`), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, c1.ToolNames); d != "" {
				t.Error(d)
			}
		})
	}
	if c, err := DecodeChat([]byte(`{`+many(maxTools)+`,"messages":[{"role":"user","content":"x"}]}`), bytesCount); err != nil || len(c.ToolNames) != maxTools {
		t.Errorf("%v, %d names", err, len(c.ToolNames))
	}
}
