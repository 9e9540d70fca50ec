package canon

import "strconv"

// Kind says which rule a document breaks; it is stable and fit for a switch or a problem report.
type Kind string

const (
	KindSyntax    Kind = "syntax"    // not the grammar of RFC 8259
	KindTrailing  Kind = "trailing"  // data after the document
	KindEncoding  Kind = "encoding"  // a byte order mark, or bytes that are not UTF-8
	KindSurrogate Kind = "surrogate" // an escape that is half of a surrogate pair
	KindDuplicate Kind = "duplicate" // a member name twice in one object
	KindDepth     Kind = "depth"     // nested deeper than Options.MaxDepth
	KindSize      Kind = "size"      // longer than Options.MaxBytes
	KindExponent  Kind = "exponent"  // a number beyond Options.MaxExponent
)

// SyntaxError says why a document was refused and what to do about it. It never contains a part of
// the document, whose values and names may be secrets: only where, which rule, and the remedy.
type SyntaxError struct {
	Offset int    // bytes from the start of the document, counted from 0
	Kind   Kind   // which rule
	Msg    string // what is wrong
	Hint   string // what to do; may be empty
}

// Error gives one line: position, fault, remedy.
func (e *SyntaxError) Error() string {
	s := "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Msg
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func syntaxErr(off int, msg, hint string) error {
	return &SyntaxError{Offset: off, Kind: KindSyntax, Msg: msg, Hint: hint}
}
