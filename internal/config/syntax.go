package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. Parsing is quadratic in the keys of one mapping: 30,000 tokens, all in one, take about two
// seconds. A configuration with 500 offers has 15,000, in many small mappings.
const (
	maxFile   = 1 << 20
	maxTokens = 30_000
	maxDepth  = 64
	maxValues = 100_000 // values read, those reached through aliases counted each time
)

// parseYAML reads the one document of a file. The parser's own error texts hold pieces of the file, so only
// their line and their wording without quoted parts are used.
func parseYAML(data []byte) (root ast.Node, problem *Problem) {
	defer func() {
		if recover() != nil { // the parser panics on a few malformed inputs
			root, problem = nil, &Problem{Message: "is not valid YAML", Remedy: "check quotes, brackets and indentation"}
		}
	}()
	if len(data) > maxFile {
		return nil, &Problem{Message: "is larger than 1 MiB", Remedy: "a configuration is far smaller: check that this is the right file"}
	}
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > maxTokens {
		return nil, &Problem{Message: fmt.Sprintf("has more than %d words and signs", maxTokens), Remedy: "share repeated parts with anchors"}
	}
	if line := tooDeep(tokens); line > 0 {
		return nil, &Problem{Line: line, Message: fmt.Sprintf("nests deeper than %d levels", maxDepth), Remedy: "check brackets and dashes"}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err, data)
	}
	return oneDocument(file)
}

func oneDocument(file *ast.File) (ast.Node, *Problem) {
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, &Problem{Line: doc.Body.GetToken().Position.Line, Message: "a second document begins here", Remedy: "put everything into one document, without a line ---"}
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &Problem{Message: "holds no settings", Remedy: "start from hearth.example.yaml"}
	}
	return body, nil
}

// tooDeep finds the line on which brackets, or dashes on one line, nest too deep for a recursive parser.
func tooDeep(tokens token.Tokens) int {
	depth, dashes, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			dashes++
		}
		if t.Position.Line != line {
			dashes, line = 0, t.Position.Line
		}
		if depth > maxDepth || dashes > maxDepth {
			return line
		}
	}
	return 0
}

var quoted = regexp.MustCompile(`"(?:\\.|[^"\\])*"?`)

func syntaxProblem(err error, data []byte) *Problem {
	p := &Problem{Message: "is not valid YAML", Remedy: "check quotes, brackets and indentation on this line and the one above"}
	var e interface {
		error
		GetMessage() string
		GetToken() *token.Token
	}
	if !errors.As(err, &e) {
		return p
	}
	if t := e.GetToken(); t != nil && t.Position != nil {
		p.Line = t.Position.Line
	}
	message := e.GetMessage()
	p.Message += ": " + quoted.ReplaceAllString(message, "…")
	lines := strings.Split(string(data), "\n")
	if strings.Contains(message, "must be specified") && p.Line > 0 && p.Line <= len(lines) && strings.Contains(lines[p.Line-1], "${") {
		p.Remedy = `inside [ ] and { } put quotes around ${…}, as in "${port}"`
	}
	return p
}
