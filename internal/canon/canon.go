package canon

import (
	"bytes"
	"sync"
)

// Append appends the canonical form of the JSON document src to dst and returns the extended slice.
// On an error it returns dst as it was given.
//
// A refused document gives a [*SyntaxError]; any other error means that the options cannot be used
// (see [Options.Check]) or that Normalize gave invalid UTF-8. src is not kept or changed and must not
// overlap the free capacity of dst. The canonical form of a canonical form is itself under nil
// options, provided it is still within the limits (writing out 1e40 makes a document longer).
//
// Time and memory are linear in len(src), but for sorting members and for moving the bytes of an
// object once for each enclosing object that came unsorted.
func Append(dst, src []byte, o *Options) ([]byte, error) {
	r, err := o.rules()
	if err != nil {
		return dst, err
	}
	e := encoders.Get().(*encoder)
	e.rules, e.dst = r, dst
	err = e.document(src, r.root)
	out := e.dst
	e.release()
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Valid reports the error that [Append] would give, or nil.
func Valid(src []byte, o *Options) error {
	r, err := o.rules()
	if err != nil {
		return err
	}
	e := encoders.Get().(*encoder)
	defer e.release()
	e.rules, e.dst = r, e.spare[:0]
	err = e.document(src, r.root)
	e.spare = e.dst[:0]
	return err
}

// Lookup gives the canonical form of the value at p in src, and whether there is one. The whole of
// src must be valid under the default limits. The result is the caller's. To look at several places,
// or to have options applied, use [Append] once and [Find] on its result.
func Lookup(src []byte, p Pointer) (canonical []byte, ok bool, err error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	e.rules, e.dst = defaults, e.spare[:0]
	err = e.document(src, nil)
	e.spare = e.dst[:0]
	if err != nil {
		return nil, false, err
	}
	v, ok := Find(e.dst, p)
	return bytes.Clone(v), ok, nil
}

// encoder does one document: it reads src and appends to dst. It is passed a node all the way down,
// which is nil wherever no rule can apply; then it costs nothing.
type encoder struct {
	*rules
	src     []byte
	pos     int // next byte of src
	dst     []byte
	depth   int
	members []member // of all the objects (and sets) that are open, innermost last
	scratch []byte   // never held across a value
	spare   []byte   // output nobody wants to keep
}

// Encoders are pooled for their buffers, without which a typical call would allocate twice.
var encoders = sync.Pool{New: func() any { return &encoder{members: make([]member, 0, 32)} }}

func (e *encoder) release() {
	const most = 64 << 10 // one large document must not pin its memory for good
	e.rules, e.src, e.dst, e.pos, e.depth, e.members = nil, nil, nil, 0, 0, e.members[:0]
	if cap(e.scratch) > most || cap(e.spare) > most || cap(e.members) > most/64 {
		return
	}
	encoders.Put(e)
}

// document reads all of src under the rules of n.
func (e *encoder) document(src []byte, n *node) error {
	e.src, e.pos = src, 0
	if len(src) > e.maxBytes {
		return &SyntaxError{Offset: e.maxBytes, Kind: KindSize, Msg: "the document is too large",
			Hint: "send less, or a reference to the data"}
	}
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		return &SyntaxError{Kind: KindEncoding, Msg: "the document starts with a byte order mark",
			Hint: "send UTF-8 without one"}
	}
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return &SyntaxError{Kind: KindEncoding, Msg: "the document is UTF-16", Hint: "send UTF-8"}
	}
	e.space()
	if err := e.value(n); err != nil {
		return err
	}
	e.space()
	if e.pos < len(src) {
		return &SyntaxError{Offset: e.pos, Kind: KindTrailing, Msg: "there is data after the document",
			Hint: "send exactly one JSON value"}
	}
	return nil
}

// space skips white space.
func (e *encoder) space() {
	for e.pos < len(e.src) {
		switch e.src[e.pos] {
		case ' ', '\t', '\n', '\r':
			e.pos++
		default:
			return
		}
	}
}

// peek gives the next byte, 0 at the end; a NUL is nowhere valid, so the two need not be told apart
// before the error is worded.
func (e *encoder) peek() byte {
	if e.pos < len(e.src) {
		return e.src[e.pos]
	}
	return 0
}
