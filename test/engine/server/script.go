package server

import (
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Marks in what a model says.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	callOpen   = "<tool_call>"
	callClose  = "</tool_call>"
)

// errScript is what llama-server says when it cannot read what the model wrote.
var errScript = errors.New("The model produced output that does not match the expected peg-native format")

// delta is one piece of an answer; members that are nil are not there.
type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning *string `json:"reasoning_content,omitempty"`
	Calls     []call  `json:"tool_calls,omitempty"`
}

// call is a piece of a tool call: the first has the name, the others only arguments.
type call struct {
	Index    *int           `json:"index,omitempty"` // nil in a whole answer
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function calledFunction `json:"function"`
}

type calledFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// script reads a model's text as it comes and tells reasoning, content and tool calls apart.
type script struct {
	tools bool // calls are looked for
	emit  func(delta) error

	held  string // not yet told
	state func(*script, bool) (bool, error)
	calls int
	args  nesting
}

func newScript(tools bool, emit func(delta) error) *script {
	return &script{tools: tools, emit: emit, state: (*script).begin}
}

// feed takes a piece of text.
func (s *script) feed(text string) error {
	s.held += text
	return s.run(false)
}

// end takes the end of the text; cut says that a limit ended it, so that anything may be unfinished.
func (s *script) end(cut bool) error {
	if err := s.run(true); err != nil && !cut {
		return err
	}
	return nil
}

// run lets the states work as long as they get on.
func (s *script) run(end bool) error {
	for {
		on, err := s.state(s, end)
		if err != nil || !on {
			return err
		}
	}
}

// begin is before the first word: an answer may open with its reasoning.
func (s *script) begin(end bool) (bool, error) {
	t := strings.TrimLeft(s.held, " \n\r\t")
	if rest, ok := strings.CutPrefix(t, thinkOpen); ok {
		s.held, s.state = rest, (*script).opening
		return true, nil
	}
	if !end && strings.HasPrefix(thinkOpen, t) {
		return false, nil
	}
	s.state = (*script).content
	return true, nil
}

// opening drops the white space before the reasoning.
func (s *script) opening(bool) (bool, error) {
	if s.held = strings.TrimLeft(s.held, " \n"); s.held == "" {
		return false, nil
	}
	s.state = (*script).thinking
	return true, nil
}

func (s *script) thinking(end bool) (bool, error) {
	text, rest, found := s.upTo(thinkClose, end)
	if found {
		s.held, s.state = rest, (*script).between
	}
	if text != "" {
		return found, s.emit(delta{Reasoning: &text})
	}
	return found, nil
}

// between drops the white space before content.
func (s *script) between(bool) (bool, error) {
	if s.held = strings.TrimLeft(s.held, " \n"); s.held == "" {
		return false, nil
	}
	s.state = (*script).content
	return true, nil
}

func (s *script) content(end bool) (bool, error) {
	mark := ""
	if s.tools {
		mark = callOpen
	}
	text, rest, found := s.upTo(mark, end)
	if found {
		s.held, s.state = rest, (*script).callHead
	}
	if text != "" {
		return found, s.emit(delta{Content: &text})
	}
	return found, nil
}

// upTo takes what is before mark out of held. White space before a mark belongs to the mark; what could become one,
// or is half a character, stays held until more comes or the text ends.
func (s *script) upTo(mark string, end bool) (text, rest string, found bool) {
	if mark != "" {
		if before, after, ok := strings.Cut(s.held, mark); ok {
			return strings.TrimRight(before, " \n"), after, true
		}
	}
	keep := len(s.held)
	if !end {
		if mark != "" {
			keep = partial(s.held, mark)
			keep = len(strings.TrimRight(s.held[:keep], " \n"))
		}
		keep = wholeRunes(s.held[:keep])
	}
	text, s.held = s.held[:keep], s.held[keep:]
	return text, "", false
}

// partial is where a suffix of text begins that could become mark, or the end of text.
func partial(text, mark string) int {
	for i := max(0, len(text)-len(mark)+1); i < len(text); i++ {
		if strings.HasPrefix(mark, text[i:]) {
			return i
		}
	}
	return len(text)
}

// wholeRunes is the length of text without the beginning of a character at its end.
func wholeRunes(text string) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

var callName = regexp.MustCompile(`^\s*\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"arguments"\s*:\s*\{`)

// callHead waits for the name of a call and the beginning of its arguments.
func (s *script) callHead(end bool) (bool, error) {
	m := callName.FindStringSubmatchIndex(s.held)
	if m == nil {
		if end || strings.Contains(s.held, callClose) {
			return false, errScript
		}
		return false, nil
	}
	name := s.held[m[2]:m[3]]
	s.held, s.args, s.state = s.held[m[1]-1:], nesting{}, (*script).callArguments
	c := call{Index: new(s.calls), ID: rand.Text(), Type: "function", Function: calledFunction{Name: name}}
	s.calls++
	return true, s.emit(delta{Calls: []call{c}})
}

// callArguments passes on the arguments as they come.
func (s *script) callArguments(end bool) (bool, error) {
	n, closed := s.args.read(s.held)
	n = wholeRunes(s.held[:n])
	text := s.held[:n]
	s.held = s.held[n:]
	if text != "" {
		if err := s.emit(delta{Calls: []call{{Index: new(s.calls - 1), Function: calledFunction{Arguments: text}}}}); err != nil {
			return false, err
		}
	}
	if closed {
		s.state = (*script).callTail
		return true, nil
	}
	if end {
		return false, errScript
	}
	return false, nil
}

// callTail waits for the end of a call; after it another may come.
func (s *script) callTail(end bool) (bool, error) {
	before, rest, ok := strings.Cut(s.held, callClose)
	switch {
	case ok && strings.TrimSpace(before) == "}":
		s.held, s.state = rest, (*script).between
		return true, nil
	case ok || end:
		return false, errScript
	}
	return false, nil
}

// nesting finds the end of a JSON object.
type nesting struct {
	depth          int
	text, escaping bool
}

// read takes the next piece of the object and returns how much of it belongs to it, and whether it ended.
func (n *nesting) read(piece string) (int, bool) {
	for i := range len(piece) {
		switch c := piece[i]; {
		case n.escaping:
			n.escaping = false
		case n.text && c == '\\':
			n.escaping = true
		case c == '"':
			n.text = !n.text
		case n.text:
		case c == '{', c == '[':
			n.depth++
		case c == '}', c == ']':
			if n.depth--; n.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(piece), false
}
