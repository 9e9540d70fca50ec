package canon

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// member is one member of an open object: where its canonical bytes lie in dst.
type member struct {
	key     uint64 // first eight bytes of a simple name: most comparisons end here
	start   int    // opening quote of the name
	nameEnd int    // after the closing quote
	end     int    // after the value
	src     int    // the name in src, for errors
	simple  bool   // the name is ASCII without escapes
	drop    bool
}

// object reads an object. Members are appended as they come; only if they did not come in order, or
// a rule removes or adds one, is the object's text put together again.
func (e *encoder) object(n *node) error {
	if err := e.enter(); err != nil {
		return err
	}
	e.pos++
	e.dst = append(e.dst, '{')
	open, base := len(e.dst), len(e.members)
	tidy := true
	e.space()
	if e.peek() != '}' {
		for {
			m := member{start: len(e.dst), src: e.pos}
			if m.start > open {
				e.dst = append(e.dst, ',')
				m.start++
			}
			if e.peek() != '"' {
				return e.unexpected("a member name in double quotes was expected here")
			}
			var err error
			if m.simple, err = e.str(); err != nil {
				return err
			}
			m.nameEnd = len(e.dst)
			if m.simple {
				m.key = prefix(e.dst[m.start+1 : m.nameEnd-1])
			}
			e.space()
			if e.peek() != ':' {
				return e.unexpected("a colon was expected here")
			}
			e.pos++
			e.dst = append(e.dst, ':')
			e.space()
			var kid *node
			if n != nil {
				kid = n.member(e.name(m))
			}
			if m.drop, err = e.child(kid); err != nil {
				return err
			}
			m.end = len(e.dst)
			if m.drop {
				tidy = false
			} else if tidy && len(e.members) > base {
				tidy = e.compare(&e.members[len(e.members)-1], &m) < 0
			}
			e.members = append(e.members, m)
			e.space()
			if e.peek() == ',' {
				e.pos++
				e.space()
				continue
			}
			if e.peek() != '}' {
				return e.unexpected("a comma or } was expected here")
			}
			break
		}
	}
	if n != nil && len(n.fill) > 0 && e.fill(n, base) {
		tidy = false
	}
	if !tidy {
		if err := e.sortMembers(open, base); err != nil {
			return err
		}
	}
	e.members = e.members[:base]
	return e.leave('}')
}

// name gives a member's unescaped name; it is valid until scratch is used again.
func (e *encoder) name(m member) []byte {
	name := e.dst[m.start+1 : m.nameEnd-1]
	if m.simple || bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	e.scratch = unescape(e.scratch[:0], name)
	return e.scratch
}

// fill appends the members that the object lacks; a null that counts as absent is replaced.
func (e *encoder) fill(n *node, base int) (added bool) {
next:
	for _, f := range n.fill {
		m := member{simple: f.simple, start: len(e.dst)}
		quoted := f.member[:f.quoted]
		if f.simple {
			m.key = prefix(quoted[1 : f.quoted-1])
		}
		m.nameEnd = m.start + f.quoted
		m.end = m.start + len(f.member)
		for i := base; i < len(e.members); i++ {
			old := &e.members[i]
			if !bytes.Equal(e.dst[old.start:old.nameEnd], quoted) {
				continue
			}
			if old.drop {
				m.src = old.src
				*old = m
				e.dst = append(e.dst, f.member...)
				added = true
				// The name may come again; the duplicate is found when sorting.
			}
			continue next
		}
		e.members = append(e.members, m)
		e.dst = append(e.dst, f.member...)
		added = true
	}
	return added
}

// sortMembers puts the text of dst[open:] together again from the members since base, in order and
// without those dropped. Equal names end up next to each other, which is where they are refused.
func (e *encoder) sortMembers(open, base int) error {
	ms := e.members[base:]
	if len(ms) <= 12 {
		for i := 1; i < len(ms); i++ {
			for j := i; j > 0 && e.compare(&ms[j], &ms[j-1]) < 0; j-- {
				ms[j], ms[j-1] = ms[j-1], ms[j]
			}
		}
	} else {
		slices.SortFunc(ms, func(a, b member) int { return e.compare(&a, &b) })
	}
	for i := 1; i < len(ms); i++ {
		if e.compare(&ms[i-1], &ms[i]) == 0 {
			return &SyntaxError{Offset: max(ms[i-1].src, ms[i].src), Kind: KindDuplicate,
				Msg:  "an object has the same member name twice",
				Hint: "give each member once; escapes do not make names differ"}
		}
	}
	e.rebuild(open, ms)
	return nil
}

// sortElements does the same for a set.
func (e *encoder) sortElements(open, base int) {
	ms := e.members[base:]
	old := e.dst
	slices.SortFunc(ms, func(a, b member) int {
		return bytes.Compare(old[a.start:a.end], old[b.start:b.end])
	})
	e.rebuild(open, ms)
	e.members = e.members[:base]
}

func (e *encoder) rebuild(open int, ms []member) {
	e.scratch = append(e.scratch[:0], e.dst[open:]...)
	e.dst = e.dst[:open]
	for i := range ms {
		m := &ms[i]
		if m.drop {
			continue
		}
		if len(e.dst) > open {
			e.dst = append(e.dst, ',')
		}
		e.dst = append(e.dst, e.scratch[m.start-open:m.end-open]...)
	}
}

// compare orders two members by the UTF-16 code units of their names.
func (e *encoder) compare(a, b *member) int {
	if a.simple && b.simple {
		if a.key < b.key {
			return -1
		}
		if a.key > b.key {
			return 1
		}
		return bytes.Compare(e.dst[a.start+1:a.nameEnd-1], e.dst[b.start+1:b.nameEnd-1])
	}
	return compareNames(e.dst[a.start+1:a.nameEnd-1], e.dst[b.start+1:b.nameEnd-1])
}

// prefix packs the first eight bytes so that integers order as the bytes do. Padding with zeros is
// safe: a simple name has no NUL.
func prefix(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	var k uint64
	for _, c := range name {
		k = k<<8 | uint64(c)
	}
	return k << (8 * (8 - len(name)) & 63)
}
