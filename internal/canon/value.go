package canon

// value reads the value at pos and appends its canonical form. pos is on its first byte.
func (e *encoder) value(n *node) error {
	switch c := e.peek(); c {
	case '"':
		start := len(e.dst)
		if _, err := e.str(); err != nil {
			return err
		}
		if n != nil && n.act&(text|instant) != 0 {
			return e.rewrite(n.act, start)
		}
		return nil
	case '{':
		return e.object(n)
	case '[':
		return e.array(n)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return e.number()
	case 't':
		return e.literal("true")
	case 'f':
		return e.literal("false")
	case 'n':
		return e.literal("null")
	}
	return e.unexpected("a value was expected here")
}

func (e *encoder) literal(word string) error {
	end := e.pos + len(word)
	if end > len(e.src) || string(e.src[e.pos:end]) != word {
		return syntaxErr(e.pos, "this is not true, false or null", "strings need double quotes")
	}
	e.dst = append(e.dst, word...)
	e.pos = end
	return nil
}

// unexpected words the error for the byte at pos, with the usual cause where there is one.
func (e *encoder) unexpected(msg string) error {
	if e.pos >= len(e.src) {
		if len(e.src) == 0 {
			return syntaxErr(0, "the document is empty", "send a JSON value, {} for no arguments")
		}
		return syntaxErr(e.pos, "the document ends too early", "it may have been cut off")
	}
	hint := ""
	switch e.src[e.pos] {
	case '\'':
		hint = "JSON has double quotes only"
	case '+':
		hint = "a number has no plus sign"
	case '.':
		hint = "a number starts with a digit, as in 0.5"
	case 'N', 'I':
		hint = "JSON has no NaN, Infinity or None; send null or a string"
	case 'T', 'F':
		hint = "write true and false in lower case"
	case 'u':
		hint = "JSON has no undefined; leave the member out or send null"
	case '/', '#':
		hint = "JSON has no comments"
	case '}', ']', ',':
		hint = "a comma too many, or a value missing"
	case '"', '{', '[':
		hint = "a comma or colon may be missing"
	}
	return syntaxErr(e.pos, msg, hint)
}

// enter counts a level of nesting.
func (e *encoder) enter() error {
	if e.depth++; e.depth > e.maxDepth {
		return &SyntaxError{Offset: e.pos, Kind: KindDepth, Msg: "the document is nested too deeply",
			Hint: "flatten it, or send the inner part as a string"}
	}
	return nil
}

// array reads an array. Elements that a rule removes are cut off dst again at once.
func (e *encoder) array(n *node) error {
	if err := e.enter(); err != nil {
		return err
	}
	e.pos++
	e.dst = append(e.dst, '[')
	open, base := len(e.dst), len(e.members)
	e.space()
	if e.peek() == ']' {
		return e.leave(']')
	}
	for i := 0; ; i++ {
		start := len(e.dst)
		if start > open {
			e.dst = append(e.dst, ',')
		}
		from := len(e.dst)
		var kid *node
		if n != nil {
			kid = n.element(i)
		}
		if drop, err := e.child(kid); err != nil {
			return err
		} else if drop {
			e.dst = e.dst[:start]
		} else if n.has(set) {
			e.members = append(e.members, member{start: from, nameEnd: from, end: len(e.dst)})
		}
		e.space()
		switch e.peek() {
		case ',':
			e.pos++
			e.space()
		case ']':
			if n.has(set) {
				e.sortElements(open, base)
			}
			return e.leave(']')
		default:
			return e.unexpected("a comma or ] was expected here")
		}
	}
}

// child reads a member's or an element's value and says whether its rules remove it.
func (e *encoder) child(n *node) (drop bool, err error) {
	if n == nil {
		return false, e.value(nil)
	}
	if n.act&ignore != 0 {
		return true, e.value(nil)
	}
	start := len(e.dst)
	if err := e.value(n); err != nil {
		return false, err
	}
	return n.act&nullAbsent != 0 && string(e.dst[start:]) == "null", nil
}

func (e *encoder) leave(c byte) error {
	e.pos++
	e.depth--
	e.dst = append(e.dst, c)
	return nil
}
