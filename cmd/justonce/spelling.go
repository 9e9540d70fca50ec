package main

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/justonce-dev/justonce/catalog"
)

// A size is a number of bytes, spelled as in justonce.yaml: 4MiB.
type size int

func (s *size) UnmarshalText(text []byte) error {
	n, err := catalog.ParseSize(string(text))
	*s = size(n)
	return err
}

// spans lets flags spell time spans as justonce.yaml does: 30s, 7d.
var spans = kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	d, err := catalog.ParseDuration(text)
	if err != nil {
		return err
	}
	target.SetInt(int64(d))
	return nil
}))
