package server

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// told is what a script's reader makes of a text, as one line.
func told(t *testing.T, tools, cut bool, pieces ...string) (string, error) {
	t.Helper()
	out := new(collected)
	s := newScript(tools, func(d delta) error {
		for _, text := range []*string{d.Content, d.Reasoning} {
			if text != nil && !utf8.ValidString(*text) {
				t.Errorf("half a character is told: %q", *text)
			}
		}
		for _, c := range d.Calls {
			if !utf8.ValidString(c.Function.Arguments) {
				t.Errorf("half a character is told: %q", c.Function.Arguments)
			}
		}
		return out.delta(d)
	})
	for _, p := range pieces {
		if err := s.feed(p); err != nil {
			return "", err
		}
	}
	err := s.end(cut)
	var b strings.Builder
	if out.Reasoning != "" {
		b.WriteString("think(" + out.Reasoning + ")")
	}
	b.WriteString(out.Content)
	for _, c := range out.Calls {
		if c.ID == "" || c.Type != "function" || c.Index != nil {
			t.Errorf("call %+v", c)
		}
		b.WriteString("call " + c.Function.Name + c.Function.Arguments)
	}
	return b.String(), err
}

func TestScript(t *testing.T) {
	call := "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"한\", \"b\": [{}]}}\n</tool_call>"
	heard := `call f{"a": "}\"한", "b": [{}]}`
	for _, c := range []struct {
		name, text, want string
		plain            bool // no tools were offered
	}{
		{"content", "Hello 모델 there", "Hello 모델 there", false},
		{"white space stays", " Hello  \n there \n", " Hello  \n there \n", true},
		{"reasoning", "<think>\nLet me see.\n</think>\n\nHello", "think(Let me see.)Hello", false},
		{"reasoning in another script", "<think>생각 중</think>", "think(생각 중)", false},
		{"reasoning only at the beginning", "Hello <think>no</think>", "Hello <think>no</think>", false},
		{"nothing but reasoning", "<think>Let me see.</think>", "think(Let me see.)", false},
		{"what looks like a mark for a while", "<thin air> <tool box>", "<thin air> <tool box>", false},
		{"a call", call, heard, false},
		{"a call behind all else", "<think>x</think>Wait.\n" + call, "think(x)Wait." + heard, false},
		{"two calls", call + "\n" + call, heard + heard, false},
		{"nobody offered tools", call, call, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := told(t, !c.plain, false, c.text); err != nil || got != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
			if got, err := told(t, !c.plain, false, strings.Split(c.text, "")...); err != nil || got != c.want {
				t.Errorf("character by character: %q, %v, want %q", got, err, c.want)
			}
			var bytes []string
			for i := range len(c.text) {
				bytes = append(bytes, c.text[i:i+1])
			}
			if got, err := told(t, !c.plain, false, bytes...); err != nil || got != c.want {
				t.Errorf("byte by byte: %q, %v, want %q", got, err, c.want)
			}
		})
	}
	for _, text := range []string{
		"<tool_call>hello</tool_call>", "<tool_call>", `<tool_call>{"name": "f", "arguments": {`,
		`<tool_call>{"name": "f", "arguments": 1}</tool_call>`, `<tool_call>{"name": "f", "arguments": {}}} </tool_call>`,
		`<tool_call>{"name": "f", "arguments": {}}`,
	} {
		if got, err := told(t, true, false, text); !errors.Is(err, errScript) {
			t.Errorf("%s gives %q, %v", text, got, err)
		}
	}
	if got, err := told(t, true, true, `<tool_call>{"name": "f", "arguments": {"a`); err != nil || got != `call f{"a` {
		t.Errorf("cut by a limit: %q, %v", got, err)
	}
}

func TestStopper(t *testing.T) {
	feed := func(text string, stops ...string) (string, bool) {
		s := stopper{stops: stops}
		var b strings.Builder
		for _, c := range strings.Split(text, "") {
			out, found := s.feed(c)
			if b.WriteString(out); found {
				return b.String(), true
			}
		}
		return b.String() + s.held, false
	}
	for _, c := range []struct {
		text  string
		stops []string
		want  string
		found bool
	}{
		{"one two three", nil, "one two three", false},
		{"one two three", []string{" two"}, "one", true},
		{"one two three", []string{"three", "two"}, "one ", true},
		{"aab", []string{"ab"}, "a", true},
		{"one tw", []string{"two"}, "one tw", false},
	} {
		if got, found := feed(c.text, c.stops...); got != c.want || found != c.found {
			t.Errorf("%q until %q: %q, %v", c.text, c.stops, got, found)
		}
	}
}
