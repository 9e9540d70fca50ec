package catalog

import (
	"regexp"
	"strings"
)

// secretNames are the members, headers and parameters that hold secrets, with
// - and _ removed.
var secretNames = map[string]bool{
	"authorization": true, "proxyauthorization": true, "xapikey": true, "apikey": true, "xauthtoken": true,
	"xaccesstoken": true, "accesstoken": true, "authtoken": true, "token": true, "bearer": true,
	"password": true, "passwd": true, "passphrase": true, "secret": true, "clientsecret": true,
	"privatekey": true, "cookie": true, "apitoken": true, "secretkey": true, "apisecret": true, "xgitlabtoken": true,
	"xshopifyaccesstoken": true, "xpostmarkservertoken": true,
}

// secretShapes are values that are secrets wherever they stand.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`\b[sr]k_(live|test)_[0-9A-Za-z]{8,}`),          // Stripe
	regexp.MustCompile(`\bgh[pousr]_[0-9A-Za-z]{20,}`),                 // GitHub
	regexp.MustCompile(`\bgithub_pat_[0-9A-Za-z_]{20,}`),               // GitHub
	regexp.MustCompile(`\bxox[abeoprs]-[0-9A-Za-z-]{10,}`),             // Slack
	regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`),                         // AWS
	regexp.MustCompile(`\bSG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}`), // SendGrid
	regexp.MustCompile(`\bre_[0-9A-Za-z]{8}_[0-9A-Za-z]{20,}`),         // Resend
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`),
	regexp.MustCompile(`\beyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}\.`), // a signed token
}

// userinfo finds a password in a URL.
var userinfo = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@:\s]*:([^/?#@\s]+)@`)

// literal reports whether a value where a secret belongs is one written out:
// nothing in it comes from elsewhere.
func literal(s string) bool {
	for rest := s; ; {
		i := strings.Index(rest, "${")
		if i < 0 {
			return strings.TrimSpace(s) != ""
		}
		if i > 0 && rest[i-1] == '$' {
			rest = rest[i+2:]
			continue
		}
		inside := strings.TrimSpace(rest[i+2:])
		if inside != "" && inside[0] != '"' && inside[0] != '\'' && inside[0] != '}' {
			return false
		}
		rest = rest[i+2:]
	}
}

// leak reports why a value must not be in the file; "" if it may.
func leak(key string, n *node) (message, hint string) {
	if n.kind != kindText && n.kind != kindNumber {
		return "", ""
	}
	name := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	if secretNames[name] && literal(n.text) {
		return key + " is written out in the file", "write ${env:NAME} or ${file:PATH}"
	}
	if m := userinfo.FindStringSubmatch(n.text); m != nil && !strings.HasPrefix(m[1], "${") {
		return "the URL has a password in it", "write ${env:NAME} or ${file:PATH} for it"
	}
	for _, r := range secretShapes {
		if r.MatchString(n.text) {
			return "this looks like a secret", "write ${env:NAME} or ${file:PATH} and replace the secret, as the file has been seen"
		}
	}
	return "", ""
}

// leaks reports whether a connector block holds a secret written out.
func leaks(block *node) bool {
	found := false
	block.walk("", "", func(_, key string, n *node) {
		if m, _ := leak(key, n); m != "" {
			found = true
		}
	})
	return found
}

// literalSecrets finds the secrets that are written out in the file: by shape
// everywhere, by name in what is sent and in the settings.
func (c *Catalog) literalSecrets(root *node, found *findings) {
	for _, m := range root.members {
		if m.name == "tools" && m.value.kind == kindMap {
			for _, t := range m.value.members {
				for _, f := range t.value.members {
					c.literalsIn(f.value, f.name, t.name, found)
				}
			}
			continue
		}
		c.literalsIn(m.value, m.name, "", found)
	}
}

func (c *Catalog) literalsIn(n *node, name, tool string, found *findings) {
	// A schema speaks of passwords without holding any.
	byName := name != "schema" && name != "equal"
	n.walk("", name, func(_, key string, n *node) {
		if !byName {
			key = ""
		}
		if message, hint := leak(key, n); message != "" {
			found.add("secret-literal", n.at, tool, hint, "%s", message)
		}
	})
}
