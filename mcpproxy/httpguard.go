package mcpproxy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// Headers of the Streamable HTTP transport.
const (
	headerSession   = "Mcp-Session-Id"
	headerVersion   = "Mcp-Protocol-Version"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerParam     = "Mcp-Param-" // and the parameter's name
	headerLastEvent = "Last-Event-Id"
)

// codeHeaderMismatch is the protocol's for headers that contradict the body.
const codeHeaderMismatch = -32020

// A guard refuses what a page in a browser on this machine could send without
// being asked to: requests under a name that was bound to a loopback address
// (DNS rebinding), and requests of other origins.
type guard struct {
	hosts, origins map[string]bool
}

func newGuard(o *HTTPOptions) guard {
	g := guard{map[string]bool{}, map[string]bool{}}
	for _, h := range o.Hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	for _, or := range o.Origins {
		g.origins[or] = true
	}
	return g
}

// check returns why a request is refused, or "".
func (g *guard) check(r *http.Request) string {
	name := hostname(r.Host)
	if !loopbackName(name) && !g.hosts[name] && !g.hosts["*"] {
		return "the Host header names no loopback address; nothing was sent"
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return ""
	}
	if len(origins) == 1 {
		if g.origins[origins[0]] {
			return ""
		}
		u, err := url.Parse(origins[0])
		if err == nil && u.Host != "" && (u.Host == r.Host || loopbackName(hostname(u.Host))) {
			return ""
		}
	}
	return "a page of another origin sent this request; nothing was sent"
}

// hostname returns a host without its port.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

func loopbackName(name string) bool {
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// credential matches names of headers by which a client may say who it is.
var credential = regexp.MustCompile(`(?i)^(Cookie|.*(Auth|Authorization|Key|Token|Secret|Password|Credential|Credentials|User|Account|Tenant))$`)

// ofTheCall matches names that look so and belong to one request.
var ofTheCall = regexp.MustCompile(`(?i)^(Mcp-.*|Sec-.*|(X-)?Idempotency-Key)$`)

// scope returns within which the derived keys of a client's calls match. It
// tells nothing of the credentials. What the server may tell clients by, beside
// its own ways of saying so, counts: the path below the mount and the query, too.
func (h *Handler) scope(r *http.Request) string {
	var parts []string
	if name := h.o.ScopeHeader; name != "" {
		parts = append(parts, r.Header.Values(name)...)
	} else {
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			if credential.MatchString(name) && !ofTheCall.MatchString(name) {
				parts = append(append(parts, name), r.Header[name]...)
			}
		}
	}
	if path := strings.Trim(r.URL.Path, "/"); path != "" || r.URL.RawQuery != "" {
		parts = append(parts, "path", path, r.URL.RawQuery)
	}
	if len(parts) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, part := range append([]string{"justonce/scope/1", h.s.o.Name}, parts...) {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return "auth-" + hex.EncodeToString(sum.Sum(nil)[:16])
}

// contradiction returns in what a request's headers are not what its body says,
// or ""; named is the parameter that names what it is about. Who reads one and who reads the other would see different calls.
func contradiction(h http.Header, m *jsonrpc.Message, named string) string {
	for _, v := range h.Values(headerMethod) {
		if v != m.Method {
			return "header mismatch: Mcp-Method is not the body's method; nothing was sent"
		}
	}
	name := jsonrpc.String(m.Params, named)
	for _, v := range h.Values(headerName) {
		if v != name && decodeName(v) != name {
			return "header mismatch: Mcp-Name is not that in the body; nothing was sent"
		}
	}
	return ""
}

// The form of header values that cannot stand for themselves.
const (
	encodedStart = "=?base64?"
	encodedEnd   = "?="
)

func decodeName(v string) string {
	if strings.HasPrefix(v, encodedStart) && strings.HasSuffix(v, encodedEnd) && len(v) >= len(encodedStart)+len(encodedEnd) {
		if b, err := base64.StdEncoding.DecodeString(v[len(encodedStart) : len(v)-len(encodedEnd)]); err == nil {
			return string(b)
		}
	}
	return v
}

func encodeName(name string) string {
	plain := name == strings.TrimSpace(name) && !strings.HasPrefix(name, encodedStart)
	for i := range len(name) {
		plain = plain && name[i] >= ' ' && name[i] <= '~'
	}
	if plain {
		return name
	}
	return encodedStart + base64.StdEncoding.EncodeToString([]byte(name)) + encodedEnd
}

// refuse answers with a JSON-RPC error and an HTTP status.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int, message string) {
	refuseObject(w, status, id, jsonrpc.ErrorObject(code, message, nil))
}

func refuseObject(w http.ResponseWriter, status int, id, object json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(jsonrpc.ErrorResponse(id, object)) // a client that is gone needs no answer
}

// accepts reports which forms of an answer a request wants.
func accepts(r *http.Request) (plain, stream bool) {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true, false
	}
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			media, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json", "application/*":
				plain = true
			case "text/event-stream", "text/*":
				stream = true
			case "*/*":
				plain, stream = true, true
			}
		}
	}
	return plain || !stream, stream
}

// mediaType returns the media type of a message, without parameters.
func mediaType(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// hopByHop are headers that concern one connection alone.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// endToEnd returns the headers that are not for one connection alone.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}

// readAll reads up to limit bytes; more are an error.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		return b[:limit], fmt.Errorf("it is over %d bytes", limit)
	}
	return b, err
}
