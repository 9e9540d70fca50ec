// Package news packs the names of operations that have changed into payloads
// that stores send each other. It knows the domain, so unlike its neighbours it
// is no leaf: it lies between the root, which must not import it, and the
// stores.
package news

import (
	"encoding/json"
	"fmt"
	"strings"

	justonce "github.com/justonce-dev/justonce"
)

// Pack packs refs into payloads of at most most bytes. Of a ref alone in one,
// the sender's name and two bytes may come on top; a longer one is left out. The
// names of all senders are of one length.
func Pack(sender string, refs []justonce.Ref, most int) []string {
	var all []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			all = append(all, sender+"["+b.String()+"]")
			b.Reset()
		}
	}
	for _, ref := range refs {
		pair, err := json.Marshal([2]string{ref.Tenant, ref.Key})
		if err != nil || len(pair) > most {
			continue
		}
		if b.Len()+len(pair) > most-len(sender)-3 {
			flush()
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.Write(pair)
	}
	flush()
	return all
}

// Unpack returns what another than self packed, and nil if it was self. A
// payload that Pack has not made is an error.
func Unpack(self, payload string) ([]justonce.Ref, error) {
	if len(payload) < len(self) {
		return nil, fmt.Errorf("payload %.20q is not one of ours", payload)
	}
	if strings.HasPrefix(payload, self) {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(payload[len(self):]), &pairs); err != nil {
		return nil, fmt.Errorf("payload %.20q is not one of ours: %w", payload, err)
	}
	refs := make([]justonce.Ref, len(pairs))
	for i, p := range pairs {
		refs[i] = justonce.Ref{Tenant: p[0], Key: p[1]}
	}
	return refs, nil
}
