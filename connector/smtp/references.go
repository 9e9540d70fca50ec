package smtpconn

import (
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// References calls visit for each variable that the declaration names: at is
// the JSON Pointer of the template or expression; path the variable and the
// members below it, with * for any; optional says that it may be absent. The
// defaults of the message are visited, too, and so are the wire key and the
// Message-ID made of it, which every mail carries.
func (k *connector) References(visit func(at string, path []string, optional bool)) {
	expression := func(at string) bool {
		return strings.HasPrefix(at, "/lookup/") && !strings.HasPrefix(at, "/lookup/request/")
	}
	c := k.config
	celexpr.EachRef(c, expression, func(at string, r celexpr.Ref) { visit(at, r.Path, r.Optional) })
	visit("/message", []string{"wire_key"}, false)
	visit("/message", []string{"message_id"}, false)
	if len(c.Message.To)+len(c.Message.Cc)+len(c.Message.Bcc) == 0 {
		visit("/message/to", []string{"args", "to"}, false)
	}
	if c.Message.Subject == "" {
		visit("/message/subject", []string{"args", "subject"}, false)
	}
}
