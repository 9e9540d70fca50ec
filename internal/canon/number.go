package canon

import "strconv"

// plainZeros is the most zeros that plain notation may add to a number's own digits.
const plainZeros = 40

// number reads the number at pos and appends its canonical form. The value is a string of digits and
// an exponent throughout; nothing is converted, so nothing is rounded, and the work is linear.
func (e *encoder) number() error {
	src, start := e.src, e.pos
	i := start
	neg := src[i] == '-'
	if neg {
		i++
	}
	whole := i
	i = digitsEnd(src, i)
	switch {
	case i == whole:
		e.pos = i
		return e.unexpected("a digit was expected after the minus sign")
	case src[whole] == '0' && i > whole+1:
		return syntaxErr(start, "a number has a leading zero", "drop it, or send an identifier as a string")
	}
	wholeEnd, frac, fracEnd := i, i, i
	if i < len(src) && src[i] == '.' {
		frac = i + 1
		fracEnd = digitsEnd(src, frac)
		if i = fracEnd; fracEnd == frac {
			e.pos = i
			return e.unexpected("a digit was expected after the decimal point")
		}
	}
	var exp int64
	if i < len(src) && src[i]|0x20 == 'e' {
		i++
		minus := false
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			minus = src[i] == '-'
			i++
		}
		digit := i
		i = digitsEnd(src, i)
		if i == digit {
			e.pos = i
			return e.unexpected("a digit was expected in the exponent")
		}
		for _, c := range src[digit:i] {
			// Enough to be out of any bound for good, and short of overflow.
			if exp < 1<<50 {
				exp = exp*10 + int64(c-'0')
			}
		}
		if minus {
			exp = -exp
		}
	}
	e.pos = i

	// The common case is an integer that is its own canonical form: no zeros at the end, or too few
	// digits for the zeros to matter.
	if wholeEnd == i && src[whole] != '0' && (src[i-1] != '0' || i-whole <= min(plainZeros, e.maxExp)) {
		e.dst = append(e.dst, src[start:i]...)
		return nil
	}

	// Digits without zeros at either end, and the power of ten of the last one.
	ds := append(append(e.scratch[:0], src[whole:wholeEnd]...), src[frac:fracEnd]...)
	e.scratch = ds
	exp -= int64(fracEnd - frac)
	for len(ds) > 0 && ds[len(ds)-1] == '0' {
		ds = ds[:len(ds)-1]
		exp++
	}
	for len(ds) > 0 && ds[0] == '0' {
		ds = ds[1:]
	}
	if len(ds) == 0 {
		e.dst = append(e.dst, '0') // also for -0
		return nil
	}
	if neg {
		e.dst = append(e.dst, '-')
	}
	return e.decimal(ds, exp, start)
}

// decimal appends ds x 10^exp. Bound and notation depend on the value alone, never on how it was
// written: on the zeros that plain notation would add after the digits, or from the point to them.
func (e *encoder) decimal(ds []byte, exp int64, start int) error {
	sci := exp + int64(len(ds)) - 1 // power of ten of the first digit
	zeros := max(exp, -sci, 0)
	if zeros > int64(e.maxExp) {
		return &SyntaxError{Offset: start, Kind: KindExponent,
			Msg:  "a number's exponent is beyond " + strconv.Itoa(e.maxExp),
			Hint: "send such a number as a string"}
	}
	switch {
	case zeros > plainZeros:
		e.dst = append(e.dst, ds[0])
		if len(ds) > 1 {
			e.dst = append(append(e.dst, '.'), ds[1:]...)
		}
		e.dst = append(e.dst, 'e')
		if sci > 0 {
			e.dst = append(e.dst, '+')
		}
		e.dst = strconv.AppendInt(e.dst, sci, 10)
	case exp >= 0:
		e.dst = append(e.dst, ds...)
		e.zeros(exp)
	case sci >= 0:
		e.dst = append(e.dst, ds[:sci+1]...)
		e.dst = append(append(e.dst, '.'), ds[sci+1:]...)
	default:
		e.dst = append(e.dst, "0."...)
		e.zeros(-sci - 1)
		e.dst = append(e.dst, ds...)
	}
	return nil
}

func (e *encoder) zeros(n int64) {
	const most = "0000000000000000000000000000000000000000" // plainZeros of them
	e.dst = append(e.dst, most[:n]...)
}

func digitsEnd(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}
