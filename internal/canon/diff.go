package canon

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// MaxDiffs is the most pointers that [Diff] returns.
const MaxDiffs = 32

// Diff gives the JSON Pointers of the places where two documents differ once the options have been
// applied, sorted; none means that their canonical forms are equal. The root is "".
//
// A pointer goes as deep as it has meaning. A member that only one document has is named itself. Of
// arrays with unequal lengths the surplus elements are named if they were added at the end, else the
// array. A set, and an array from which rules remove elements, is named as a whole.
//
// At most [MaxDiffs] are given, the first in canonical order; if there are as many, there may be more.
// Pointers contain names from the documents, never values.
func Diff(a, b []byte, o *Options) ([]string, error) {
	r, err := o.rules()
	if err != nil {
		return nil, err
	}
	ca, err := Append(nil, a, o)
	if err != nil {
		return nil, fmt.Errorf("first document: %w", err)
	}
	cb, err := Append(nil, b, o)
	if err != nil {
		return nil, fmt.Errorf("second document: %w", err)
	}
	var d differ
	d.walk(ca, cb, r.root)
	slices.Sort(d.found)
	return d.found, nil
}

// differ walks two canonical documents side by side.
type differ struct {
	path  []byte // pointer to where the walk is
	found []string
}

func (d *differ) full() bool { return len(d.found) == MaxDiffs }

func (d *differ) report() {
	if !d.full() {
		d.found = append(d.found, string(d.path))
	}
}

func (d *differ) walk(a, b []byte, n *node) {
	switch {
	case bytes.Equal(a, b):
	case a[0] == '{' && b[0] == '{':
		d.objects(a, b, n)
	case a[0] == '[' && b[0] == '[' && !n.has(set) && (n == nil || !n.shifts):
		d.arrays(a, b, n)
	default:
		d.report()
	}
}

func (d *differ) objects(a, b []byte, n *node) {
	ia, ib := items{doc: a, object: true}, items{doc: b, object: true}
	moreA, moreB := ia.next(), ib.next()
	for (moreA || moreB) && !d.full() {
		order := -1 // the member comes first in, or only in, a
		if !moreA {
			order = 1
		} else if moreB {
			order = compareNames(ia.name, ib.name)
		}
		name := ia.name
		if order > 0 {
			name = ib.name
		}
		if order == 0 && bytes.Equal(ia.value, ib.value) {
			moreA, moreB = ia.next(), ib.next()
			continue
		}
		text := unescape(nil, name)
		depth := len(d.path)
		d.path = appendToken(d.path, text)
		if order == 0 {
			var kid *node
			if n != nil {
				kid = n.member(text)
			}
			d.walk(ia.value, ib.value, kid)
		} else {
			d.report()
		}
		d.path = d.path[:depth]
		if order <= 0 {
			moreA = ia.next()
		}
		if order >= 0 {
			moreB = ib.next()
		}
	}
}

func (d *differ) arrays(a, b []byte, n *node) {
	lenA, lenB, same := lengths(a, b)
	if lenA != lenB {
		if same < min(lenA, lenB) {
			d.report()
			return
		}
		for i := same; i < max(lenA, lenB) && !d.full(); i++ {
			d.at(i, func() { d.report() })
		}
		return
	}
	ia, ib := items{doc: a}, items{doc: b}
	for i := 0; ia.next() && ib.next() && !d.full(); i++ {
		if bytes.Equal(ia.value, ib.value) {
			continue
		}
		var kid *node
		if n != nil {
			kid = n.element(i)
		}
		d.at(i, func() { d.walk(ia.value, ib.value, kid) })
	}
}

// at runs f one element down.
func (d *differ) at(i int, f func()) {
	depth := len(d.path)
	d.path = strconv.AppendInt(append(d.path, '/'), int64(i), 10)
	f()
	d.path = d.path[:depth]
}

// lengths counts the elements of both arrays, and how many are equal from the start.
func lengths(a, b []byte) (lenA, lenB, same int) {
	ia, ib := items{doc: a}, items{doc: b}
	equal := true
	for moreA, moreB := ia.next(), ib.next(); moreA || moreB; {
		if equal = equal && moreA && moreB && bytes.Equal(ia.value, ib.value); equal {
			same++
		}
		if moreA {
			lenA++
			moreA = ia.next()
		}
		if moreB {
			lenB++
			moreB = ib.next()
		}
	}
	return lenA, lenB, same
}
