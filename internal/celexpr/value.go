package celexpr

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Value parses one JSON text for use as a variable. Integers that fit 64 bits
// become CEL's int or uint. Other numbers become doubles; those that a double
// cannot hold exactly keep their digits beside it, so that passing them on
// loses nothing.
func Value(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return toCEL(v), nil
}

// Null is the value of JSON's null.
var Null any = types.NullValue

func toCEL(v any) ref.Val {
	switch v := v.(type) {
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case json.Number:
		return number(string(v))
	case []any:
		list := make([]ref.Val, len(v))
		for i, e := range v {
			list[i] = toCEL(e)
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case map[string]any:
		m := make(map[ref.Val]ref.Val, len(v))
		names := make([]string, 0, len(v))
		for name, e := range v {
			m[types.String(name)] = toCEL(e)
			names = append(names, name)
		}
		sort.Strings(names)
		return sortedMap{types.NewRefValMap(types.DefaultTypeAdapter, m), names}
	}
	return types.NullValue
}

// sortedMap is a map that is iterated by sorted key.
type sortedMap struct {
	traits.Mapper
	names []string
}

func (m sortedMap) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, m.names).Iterator()
}

// exactNumber is a double that is only near the number it was read from. It
// compares as the double, and is passed on with all its digits.
type exactNumber struct {
	types.Double
	text string
}

func (n exactNumber) Equal(other ref.Val) ref.Val {
	if o, ok := other.(exactNumber); ok {
		return types.Bool(sameDecimal(n.text, o.text))
	}
	return types.False // no double is it
}

func number(text string) ref.Val {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(i)
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return types.Uint(u)
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && len(text) <= 400 && sameDecimal(text, strconv.FormatFloat(f, 'g', -1, 64)) {
		return types.Double(f)
	}
	return exactNumber{types.Double(f), text}
}

// sameDecimal compares two decimals by value. Exponents out of any reasonable
// bound make them different, which keeps the digits.
func sameDecimal(a, b string) bool {
	if a == b {
		return true
	}
	if wide(a) || wide(b) {
		return false
	}
	x, okx := new(big.Rat).SetString(a)
	y, oky := new(big.Rat).SetString(b)
	return okx && oky && x.Cmp(y) == 0
}

func wide(s string) bool {
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return false
	}
	e, err := strconv.Atoi(strings.TrimPrefix(s[i+1:], "+"))
	return err != nil || e > 400 || e < -400
}
