package httpconn

import (
	"net/http"
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
)

// References calls visit for each variable that the declaration names: at is
// the JSON Pointer of the template or expression; path the variable and the
// members below it, with * for any; optional says that it may be absent. What
// goes without saying is visited where it belongs: the wire key at its header
// or field, and args where the arguments are sent as they came.
func (k *connector) References(visit func(at string, path []string, optional bool)) {
	expression := func(at string) bool {
		return strings.HasPrefix(at, "/answer/") || strings.HasPrefix(at, "/lookup/") && !strings.HasPrefix(at, "/lookup/request/")
	}
	c := k.config
	celexpr.EachRef(c, expression, func(at string, r celexpr.Ref) { visit(at, r.Path, r.Optional) })
	if c.Key.Header != "" {
		visit("/key/header", []string{"wire_key"}, false)
	}
	if c.Key.Field != "" {
		visit("/key/field", []string{"wire_key"}, false)
	}
	if c.Request.Body == nil && k.request.HasBody() {
		visit("/request", []string{"args"}, false)
	}
	if l := c.Lookup; l != nil && asTheyCame(l.Request) {
		visit("/lookup/request", []string{"args"}, false)
	}
}

// asTheyCame reports whether a lookup sends the arguments.
func asTheyCame(r Request) bool {
	switch r.Encoding {
	case "":
		m := strings.ToUpper(r.Method)
		return r.Body == nil && (m == http.MethodPost || m == http.MethodPut || m == http.MethodPatch)
	case httpask.EncodingNone:
		return false
	}
	return r.Body == nil
}
