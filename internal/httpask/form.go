package httpask

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"sort"
	"strconv"
	"strings"
)

// form encodes a JSON object as application/x-www-form-urlencoded: members of
// inner objects as a[b]=…, elements of arrays as a[0]=…, numbers with their own
// digits, sorted by name. Null and empty arrays are left out.
func form(object json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("body: it is not JSON")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("body: a form is made of an object")
	}
	var pairs []string
	for name, kid := range m {
		if strings.ContainsAny(name, "[]") {
			return nil, errors.New("body: a member name with a bracket is refused in a form")
		}
		var err error
		if pairs, err = formPairs(pairs, name, kid); err != nil {
			return nil, err
		}
	}
	sort.Strings(pairs)
	return []byte(strings.Join(pairs, "&")), nil
}

func formPairs(pairs []string, name string, v any) ([]string, error) {
	add := func(s string) ([]string, error) {
		return append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(s)), nil
	}
	switch v := v.(type) {
	case string:
		return add(v)
	case json.Number:
		return add(string(v))
	case bool:
		return add(strconv.FormatBool(v))
	case []any:
		for i, kid := range v {
			var err error
			if pairs, err = formPairs(pairs, name+"["+strconv.Itoa(i)+"]", kid); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for inner, kid := range v {
			if strings.ContainsAny(inner, "[]") {
				return nil, errors.New("body: a member name with a bracket is refused in a form")
			}
			var err error
			if pairs, err = formPairs(pairs, name+"["+inner+"]", kid); err != nil {
				return nil, err
			}
		}
	}
	return pairs, nil
}
