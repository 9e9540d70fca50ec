package canon

import (
	"errors"
	"fmt"
	"sync"
)

// Limits that hold where [Options] gives none.
const (
	DefaultMaxBytes    = 1 << 20 // 1 MiB: far above any tool's arguments, small enough to hold and to store
	DefaultMaxDepth    = 128     // hand-written schemas stay below 20
	DefaultMaxExponent = 400     // every finite float64 fits (5e-324 to 1.8e308)

	maxBytes    = 1 << 30
	maxDepth    = 10_000 // parsing recurses once per level: this keeps the stack in single megabytes
	maxExponent = 1_000_000
	maxNodes    = 10_000 // rule nodes after wildcards have been multiplied out
)

// Options say what, beyond JSON itself, counts as equal. The zero value and nil are the defaults: no
// rules, default limits.
//
// Paths are those of the document as sent: a rule for "/items/1" means the second element received,
// whatever else is removed. All rules that match a value apply, in this order: Ignore; NFC; Instants;
// NullIsAbsent; Defaults; Sets. A rule whose value has another type (a Set that is no array) does
// nothing.
//
// Do not change or copy Options after first use; they may then be used concurrently.
type Options struct {
	// Ignore lists members and array elements that are removed. They must still be valid JSON.
	Ignore []Pointer

	// Sets lists arrays whose order does not matter: elements are sorted by their canonical bytes.
	// They are multisets, [1,1] differs from [1]: charging the same item twice is not charging it once.
	Sets []Pointer

	// Instants lists strings that are RFC 3339 date-times and are compared as points in time: written
	// in UTC with "Z", trailing zeros of the fraction removed, any precision kept. A string that is
	// not such a date-time, or is a leap second, or leaves the years 0000 to 9999 in UTC, stays as it is.
	Instants []Pointer

	// NFC lists strings that are passed through Normalize: text for people, never identifiers or
	// passwords. Values only, not member names.
	NFC []Pointer

	// Normalize is the text normaliser for NFC, usually Unicode NFC; required if NFC is not empty. It
	// gets and returns unescaped UTF-8, must be deterministic, idempotent and safe for concurrent use,
	// and must not keep its argument. It may return its argument, changed or not.
	Normalize func([]byte) []byte

	// NullIsAbsent lists members and array elements that are removed when they are null.
	NullIsAbsent []Pointer

	// Defaults fill in members that are absent from an object that exists. Where several match one
	// member the first listed holds.
	Defaults []Default

	MaxBytes    int // longest document accepted; 0 means DefaultMaxBytes, 1 GiB at most
	MaxDepth    int // deepest nesting of objects and arrays, [] being 1; 0 means DefaultMaxDepth, 10,000 at most
	MaxExponent int // most zeros that a number written out would have at either end; 0 means DefaultMaxExponent, 1,000,000 at most

	once     sync.Once
	compiled *rules
	err      error
}

// Default is the value a member has when it is absent. A filled-in value obeys the rules for its
// path, so an absent member equals one that spells the default out.
type Default struct {
	Pointer Pointer // the member; its last token must be a name, not "*"
	Value   []byte  // JSON
}

// Check reports why the options cannot be used, in words for whoever wrote them. Every function that
// takes Options returns the same error; Check lets a configuration fail early.
func (o *Options) Check() error {
	_, err := o.rules()
	return err
}

// defaults is never written to.
var defaults = &rules{maxBytes: DefaultMaxBytes, maxDepth: DefaultMaxDepth, maxExp: DefaultMaxExponent}

func (o *Options) rules() (*rules, error) {
	if o == nil {
		return defaults, nil
	}
	o.once.Do(func() {
		if o.compiled, o.err = compile(o); o.err != nil {
			o.err = fmt.Errorf("canonical form: options: %w", o.err)
		}
	})
	return o.compiled, o.err
}

// limit gives v, or def for 0, or an error outside 1..most.
func limit(name string, v, def, most int) (int, error) {
	if v == 0 {
		return def, nil
	}
	if v < 0 || v > most {
		return 0, fmt.Errorf("%s must be between 1 and %d, or 0 for the default", name, most)
	}
	return v, nil
}

func compile(o *Options) (*rules, error) {
	r := &rules{normalize: o.Normalize}
	var err error
	if r.maxBytes, err = limit("MaxBytes", o.MaxBytes, DefaultMaxBytes, maxBytes); err != nil {
		return nil, err
	}
	if r.maxDepth, err = limit("MaxDepth", o.MaxDepth, DefaultMaxDepth, maxDepth); err != nil {
		return nil, err
	}
	if r.maxExp, err = limit("MaxExponent", o.MaxExponent, DefaultMaxExponent, maxExponent); err != nil {
		return nil, err
	}
	if len(o.NFC) > 0 && o.Normalize == nil {
		return nil, errors.New("NFC is declared but Normalize is not set")
	}

	var pats []pattern
	for _, list := range []struct {
		name  string
		paths []Pointer
		act   action
		root  bool // makes sense for the whole document
	}{
		{"Ignore", o.Ignore, ignore, false},
		{"Sets", o.Sets, set, true},
		{"Instants", o.Instants, instant, true},
		{"NFC", o.NFC, text, true},
		{"NullIsAbsent", o.NullIsAbsent, nullAbsent, false},
	} {
		for _, p := range list.paths {
			if len(p) == 0 && !list.root {
				return nil, fmt.Errorf("%s: the whole document cannot be left out", list.name)
			}
			pats = append(pats, pattern{path: p, act: list.act})
		}
	}
	for i, d := range o.Defaults {
		if len(d.Pointer) == 0 || d.Pointer[len(d.Pointer)-1] == "*" {
			return nil, fmt.Errorf("default for %q: the pointer must end in a member name", d.Pointer)
		}
		pats = append(pats, pattern{path: d.Pointer, fill: &o.Defaults[i]})
	}
	for _, p := range pats {
		if len(p.path) > r.maxDepth {
			return nil, fmt.Errorf("pointer of %d tokens is deeper than MaxDepth, %d", len(p.path), r.maxDepth)
		}
	}
	if len(pats) == 0 {
		return r, nil
	}
	b := builder{rules: r}
	r.root, err = b.build(pats, 0)
	return r, err
}
