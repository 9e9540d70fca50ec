package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// diff tells, a line for each difference, how got differs from want; "" if it
// does not. Times are the same if they are the same instant; an empty slice or
// map is the same as none.
func diff(got, want any) string {
	var d differ
	d.compare("", reflect.ValueOf(got), reflect.ValueOf(want))
	return strings.Join(d.lines, "\n")
}

type differ struct{ lines []string }

func (d *differ) report(path string, got, want any) {
	d.lines = append(d.lines, fmt.Sprintf("\t%s: got %s, want %s",
		strings.TrimPrefix(path, "."), show(got), show(want)))
}

// show keeps big bodies out of the test log.
func show(v any) string {
	s := fmt.Sprintf("%+v", v)
	switch v := v.(type) {
	case string:
		s = fmt.Sprintf("%q", v)
	case json.RawMessage:
		s = fmt.Sprintf("%q", string(v))
	}
	if len(s) > 200 {
		s = fmt.Sprintf("%s… (%d bytes)", s[:200], len(s))
	}
	return s
}

func (d *differ) compare(path string, got, want reflect.Value) {
	if !got.IsValid() || !want.IsValid() || got.Type() != want.Type() {
		if got.IsValid() || want.IsValid() {
			d.report(path, got, want)
		}
		return
	}
	switch g := got.Interface().(type) {
	case time.Time:
		if w := want.Interface().(time.Time); !g.Equal(w) {
			d.report(path, g.UTC().Format(time.RFC3339Nano), w.UTC().Format(time.RFC3339Nano))
		}
		return
	case json.RawMessage:
		if w := want.Interface().(json.RawMessage); !bytes.Equal(g, w) {
			d.report(path, g, w)
		}
		return
	}
	switch got.Kind() {
	case reflect.Pointer:
		if got.IsNil() || want.IsNil() {
			if got.IsNil() != want.IsNil() {
				d.report(path, got.Interface(), want.Interface())
			}
			return
		}
		d.compare(path, got.Elem(), want.Elem())
	case reflect.Struct:
		for i := range got.NumField() {
			name := "." + got.Type().Field(i).Name
			if got.Type().Field(i).Anonymous {
				name = ""
			}
			d.compare(path+name, got.Field(i), want.Field(i))
		}
	case reflect.Slice:
		if got.Len() != want.Len() {
			d.report(path+".len", got.Len(), want.Len())
		}
		for i := range min(got.Len(), want.Len()) {
			d.compare(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))
		}
	case reflect.Map:
		if got.Len() != want.Len() {
			d.report(path+".len", got.Len(), want.Len())
		}
		for _, k := range want.MapKeys() {
			d.compare(fmt.Sprintf("%s[%v]", path, k), got.MapIndex(k), want.MapIndex(k))
		}
	default:
		if got.Interface() != want.Interface() {
			d.report(path, got.Interface(), want.Interface())
		}
	}
}
