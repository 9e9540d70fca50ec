package gateway

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard refuses what a page in a browser on this machine could send without
// being asked to: requests under a name that was bound to a loopback address
// (DNS rebinding), and requests of other origins.
func (s *Server) guard(r *http.Request) *Problem {
	if !s.ownHost(r.Host) {
		return problemOf(slugHost, "the Host header names no loopback address")
	}
	if !s.ownOrigin(r) {
		return problemOf(slugOrigin, "a page of another origin sent this request")
	}
	return nil
}

func (s *Server) ownHost(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name = host[:i]
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	switch {
	case name == "127.0.0.1" || strings.EqualFold(name, "localhost") || s.hosts[name] || s.hosts["*"]:
		return true
	case name == "":
		return false
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

func (s *Server) ownOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		// A navigation says where it comes from only here. To look is harmless.
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "same-origin" || site == "none" || r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	if len(origins) > 1 {
		return false
	}
	if s.origins[origins[0]] {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && u.Host != "" && u.Host == r.Host
}

// wantJSON refuses a body that is not declared to be plain JSON. A page of
// another origin cannot declare that without asking first.
func wantJSON(r *http.Request) error {
	if e := r.Header["Content-Encoding"]; len(e) > 0 && !strings.EqualFold(e[0], "identity") {
		return problemOf(slugMediaType, "the body has a Content-Encoding; send it as it is")
	}
	t := r.Header["Content-Type"]
	if len(t) == 1 && t[0] == "application/json" {
		return nil
	}
	if len(t) == 1 {
		media, params, err := mime.ParseMediaType(t[0])
		charset := params["charset"]
		if err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return problemOf(slugMediaType, "the body must be application/json")
}

// loopback reports whether a can be reached from this machine only.
func loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return a.Network() != "tcp" && a.Network() != "udp"
}
