package dialect

import (
	"strings"
	"testing"
)

func TestToolCalls(t *testing.T) {
	one := func(fn string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":` + fn + `}]}}]}`
	}
	more := func(args string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":` + args + `}}]}}]}`
	}
	end := func(finish string) string {
		return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + finish + `"}]}`
	}
	big := strings.Repeat("x", maxArguments)
	for _, tt := range []struct {
		name      string
		tools     []string
		chunks    []string
		made, bad int
	}{
		{"none", nil, []string{`{"choices":[{"index":0,"delta":{"content":"{"}}]}`, end("stop")}, 0, 0},
		{"in pieces", nil, []string{one(`{"name":"f","arguments":""}`), more(`"{\"a\":"`), more(`"\"\\ud55c\"}"`), end("tool_calls")}, 1, 0},
		{"no arguments", nil, []string{one(`{"name":"f"}`), end("tool_calls")}, 1, 0},
		{"no arguments and no end", nil, []string{one(`{"name":"f"}`)}, 1, 0},
		{"arguments that are not JSON", nil, []string{one(`{"name":"f","arguments":"{\"a\":"}`), more(`"1}}"`), end("stop")}, 1, 1},
		{"arguments that stop half-way", nil, []string{one(`{"name":"f","arguments":"{\"a\":"}`), end("tool_calls")}, 1, 1},
		{"cut off at the output limit", nil, []string{one(`{"name":"f","arguments":"{\"a\":"}`), end("length")}, 1, 0},
		{"no name", nil, []string{one(`{"arguments":"{}"}`), end("tool_calls")}, 1, 1},
		{"an empty name", nil, []string{one(`{"name":"","arguments":"{}"}`), end("tool_calls")}, 1, 1},
		{"a known name", []string{"g", "f"}, []string{one(`{"name":"\u0066","arguments":"{}"}`), end("tool_calls")}, 1, 0},
		{"an unknown name", []string{"g"}, []string{one(`{"name":"f","arguments":"{}"}`), end("tool_calls")}, 1, 1},
		{"more than is kept", nil, []string{one(`{"name":"f","arguments":"{"}`), more(`"` + big + `"`), end("tool_calls")}, 1, 0},
		{"more than is kept, and more behind it", nil, []string{one(`{"name":"f","arguments":"{"}`), more(`"` + big + `"`), more(`"no"`), end("tool_calls")}, 1, 0},
		{"two, one of them bad", nil, []string{one(`{"name":"f","arguments":"{}"}`), `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"no"}}]}}]}`, end("tool_calls")}, 2, 1},
		{"of two choices, the one that was cut off is let off", nil, []string{
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}},{"index":1,"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`,
			`{"choices":[{"index":1,"delta":{},"finish_reason":"length"},{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`}, 2, 1},
		{"Google's: number 0, no id, all of it in one delta", nil, []string{
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":1}"}},{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":2}"}}]}}]}`, end("stop")}, 2, 0},
		{"a name that is repeated", nil, []string{one(`{"name":"f","arguments":"{\"a\""}`), `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":":1}"}}]}}]}`, end("tool_calls")}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stamp()
			s.Tools = tt.tools
			for _, c := range tt.chunks {
				if _, _, err := s.AppendChunk(nil, []byte(c)); err != nil {
					t.Fatal(err)
				}
			}
			if made, bad := s.ToolCalls(); made != tt.made || bad != tt.bad {
				t.Errorf("%d made, %d bad; want %d, %d", made, bad, tt.made, tt.bad)
			}
		})
	}
	t.Run("of a whole answer", func(t *testing.T) {
		a, err := ReadAnswer([]byte(`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"a","function":{"name":"f","arguments":"{"}},{"function":{"name":"g","arguments":{"a":1}}}]}}]}`), "f")
		if err != nil || a.Calls != 3 || a.BadCalls != 2 {
			t.Errorf("%v, %d made, %d bad", err, a.Calls, a.BadCalls)
		}
	})
	t.Run("what is kept is bounded", func(t *testing.T) {
		s := stamp()
		for range 3 {
			in := `{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Repeat(`{"index":0,"function":{"name":"f","arguments":"`+strings.Repeat(" ", 60<<10)+`{}"}},`, 100) + `{}]}}]}`
			if _, _, err := s.AppendChunk(nil, []byte(in)); err != nil {
				t.Fatal(err)
			}
		}
		held := 0
		for _, c := range s.calls {
			held += cap(c.args)
		}
		if held > 2*maxAllArgs || len(s.calls) > maxCalls {
			t.Errorf("%d bytes of %d calls", held, len(s.calls))
		}
	})
}
