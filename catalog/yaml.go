package catalog

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file: far above any catalog, low enough that a hostile one costs
// little.
const (
	DefaultMaxBytes = 1 << 20
	maxNesting      = 64
	maxNodes        = 200_000 // aliases counted each time they are used
	maxMarks        = 1_000   // anchors and aliases
	maxTools        = 1_000
)

// parseYAML reads one YAML 1.2 document of plain data. An empty one is an empty
// mapping. The error is a *yamlError.
func parseYAML(file string, data []byte, maxBytes int) (n *node, err error) {
	r := &yamlReader{file: file, anchors: map[string]*node{}}
	defer func() {
		// The parser is somebody else's; a file must never bring the process down.
		if p := recover(); p != nil {
			n, err = nil, r.errorf(Position{File: file}, "the file cannot be read as YAML")
		}
	}()
	if len(data) > maxBytes {
		return nil, r.errorf(Position{File: file}, "the file is larger than %d bytes", maxBytes)
	}
	if i := invalidUTF8(data); i >= 0 {
		return nil, r.errorf(Position{File: file, Line: 1 + strings.Count(string(data[:i]), "\n"), Column: 1}, "the file is not valid UTF-8")
	}
	tokens := lexer.Tokenize(string(data))
	if err := r.bounded(tokens); err != nil {
		return nil, err
	}
	f, perr := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if perr != nil {
		var e yaml.Error
		if errors.As(perr, &e) && e.GetToken() != nil {
			at := r.at(e.GetToken())
			return nil, &yamlError{at, wording(e.GetMessage()), flowHint(string(data), at.Line, e.GetMessage())}
		}
		return nil, r.errorf(Position{File: file}, "the file cannot be read as YAML")
	}
	var body ast.Node
	for _, d := range f.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType || d.Body.Type() == ast.CommentGroupType {
			continue
		}
		if d.Body.Type() == ast.DirectiveType {
			return nil, r.errorf(r.at(d.Body.GetToken()), "directives are not supported")
		}
		if body != nil {
			return nil, r.errorf(r.at(d.Body.GetToken()), "the file has more than one document")
		}
		body = d.Body
	}
	if body == nil {
		return &node{kind: kindMap, at: Position{File: file}, size: 1}, nil
	}
	return r.value(body, 0)
}

// A yamlError is why a file is no catalog. It quotes no values.
type yamlError struct {
	at      Position
	message string
	hint    string
}

func (e *yamlError) Error() string { return e.at.String() + ": " + e.message }

// wording drops what a parser's message quotes of the file.
func wording(m string) string {
	m = strings.ReplaceAll(m, "\t", "tab")
	if i := strings.IndexAny(m, "\"`'"); i > 0 {
		if s := strings.TrimSpace(m[:i]); len(s) > 12 && !strings.HasSuffix(s, "character") {
			return s + " …"
		}
	}
	return m
}

// flowHint says what to do about a template that stands without quotes in
// {…} or […], whose brackets end it early; "" if the line has none.
func flowHint(data string, line int, message string) string {
	lines := strings.Split(data, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	depth := 0
	if strings.HasPrefix(message, "',' or ") { // the brackets may open further up
		depth = 1
	}
	quote, before := byte(0), byte(0) // before is what a value may follow
	for s := lines[line-1]; s != ""; s = s[1:] {
		c := s[0]
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' && len(s) > 1 {
				s = s[1:]
			} else if c == quote {
				quote = 0
			}
			before = 'x'
			continue
		case strings.HasPrefix(s, "${") && depth > 0:
			return `in {…} and […] write it in quotes, as in "${args.a}"`
		case (c == '"' || c == '\'') && strings.IndexByte("\x00{[,:-", before) >= 0:
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if c != ' ' {
			before = c
		}
	}
	return ""
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

type yamlReader struct {
	file    string
	anchors map[string]*node // nil while its value is being read
}

func (r *yamlReader) at(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{File: r.file}
	}
	return Position{File: r.file, Line: t.Position.Line, Column: t.Position.Column}
}

func (r *yamlReader) errorf(at Position, format string, a ...any) error {
	return &yamlError{at: at, message: fmt.Sprintf(format, a...)}
}

// bounded refuses what would make the parser recurse too deeply.
func (r *yamlReader) bounded(tokens token.Tokens) error {
	depth, marks, run, line := 0, 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.AnchorType, token.AliasType:
			marks++
		case token.TagType:
			return r.errorf(r.at(t), "tags are not supported; quote a value to make it text")
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != line {
				run, line = 0, t.Position.Line
			}
			run++
		}
		switch {
		case depth > maxNesting, run > maxNesting:
			return r.errorf(r.at(t), "it is nested more than %d levels deep", maxNesting)
		case marks > maxMarks:
			return r.errorf(r.at(t), "the file has more than %d anchors and aliases", maxMarks)
		}
	}
	return nil
}
