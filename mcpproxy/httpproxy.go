package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
)

// A proxy is the front before a server that speaks HTTP itself.
type proxy struct {
	h         *Handler
	url       *url.URL
	transport http.RoundTripper
	own       *http.Transport // to be closed; nil: the caller's is used
	reverse   *httputil.ReverseProxy
	wellKnown *httputil.ReverseProxy
}

func newProxy(h *Handler, u *url.URL) *proxy {
	p := &proxy{h: h, url: u}
	if c := h.o.Client; c != nil && c.Transport != nil {
		p.transport = c.Transport
	} else if c != nil {
		p.transport = http.DefaultTransport
	} else {
		// Compression is between the client and the server.
		p.own = http.DefaultTransport.(*http.Transport).Clone()
		p.own.DisableCompression = true
		p.own.MaxIdleConnsPerHost = 100
		p.transport = p.own
	}
	p.reverse = p.reverseTo(p.target)
	p.reverse.ModifyResponse = p.amend
	p.wellKnown = p.reverseTo(p.wellKnownTarget)
	return p
}

// reverseTo returns what passes requests on to where target says.
func (p *proxy) reverseTo(target func(in *url.URL) (*url.URL, error)) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     p.transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // see ErrorHandler
		Rewrite: func(pr *httputil.ProxyRequest) {
			// What names this proxy is for it alone; the rest is as the client sent it.
			pr.Out.Host = ""
			pr.Out.URL, _ = target(pr.In.URL) // ServeHTTP looked at the error
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := pr.In.Header[name]; ok {
					pr.Out.Header[name] = v
				}
			}
			// Nothing but messages passes, which can be looked at.
			pr.Out.Header.Del("Connection")
			pr.Out.Header.Del("Upgrade")
			p.origin(pr.In, pr.Out.Header)
			if _, ok := pr.Out.Header["User-Agent"]; !ok {
				pr.Out.Header["User-Agent"] = nil // none of Go's
			}
			copyHeader(pr.Out.Header, configured(pr.In.Context()))
			if listing(pr.In.Context()) != nil {
				pr.Out.Header.Set("Accept-Encoding", "identity")
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the client is gone, or the handler closed
			}
			p.h.s.log.Warn("the MCP server did not answer", "method", r.Method, "error", err)
			refuse(w, http.StatusBadGateway, nil, jsonrpc.CodeInternal, "the MCP server did not answer: "+err.Error())
		},
	}
}

// origin makes what came from a page of this host come from the server's, which
// checks it for the same reason.
func (p *proxy) origin(in *http.Request, out http.Header) {
	o := out.Get("Origin")
	if u, err := url.Parse(o); o != "" && err == nil && u.Host == in.Host {
		out.Set("Origin", p.url.Scheme+"://"+p.url.Host)
	}
}

var errPath = errors.New("the path has a segment that is no name")

// target returns the server's address for a request below the mount.
func (p *proxy) target(in *url.URL) (*url.URL, error) {
	rest := in.EscapedPath()
	if strings.Contains("/"+in.Path+"/", "/../") {
		return nil, errPath
	}
	u := *p.url
	if rest != "" {
		u.RawPath = strings.TrimSuffix(p.url.EscapedPath(), "/") + "/" + strings.TrimPrefix(rest, "/")
		u.Path, _ = url.PathUnescape(u.RawPath) // both parts were parsed before
	}
	u.RawQuery = p.url.RawQuery
	if in.RawQuery != "" {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += in.RawQuery
	}
	return &u, nil
}

// Paths of metadata about a server that stand before its own path.
const wellKnown = "/.well-known/"

// wellKnownTarget returns the server's address for a request for metadata. What
// follows the name of the metadata is the mount, for which the server's path
// stands there.
func (p *proxy) wellKnownTarget(in *url.URL) (*url.URL, error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(in.Path, wellKnown), "/")
	if !strings.HasPrefix(in.Path, wellKnown) || name == "" || name == ".." {
		return nil, errPath
	}
	u := url.URL{Scheme: p.url.Scheme, Host: p.url.Host, RawQuery: in.RawQuery}
	u.Path, u.RawPath = wellKnown+name+p.url.Path, wellKnown+url.PathEscape(name)+p.url.EscapedPath()
	return &u, nil
}

// WellKnown returns a handler for requests for metadata about the server, such as
// /.well-known/oauth-protected-resource/mcp/name: route those that end with the
// mount there, with the whole path. They are answered by the server, as
// /.well-known/oauth-protected-resource and its own path; a server that is
// started here has none.
func (h *Handler) WellKnown() http.Handler {
	p, ok := h.front.(*proxy)
	if !ok {
		return http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.enter() {
			refuse(w, http.StatusServiceUnavailable, nil, jsonrpc.CodeInternal, "the proxy is stopping")
			return
		}
		defer h.working.Done()
		if why := h.guard.check(r); why != "" {
			refuse(w, http.StatusForbidden, nil, jsonrpc.CodeInvalidRequest, why)
			return
		}
		if _, err := p.wellKnownTarget(r.URL); err != nil {
			http.NotFound(w, r)
			return
		}
		r, done := h.bound(w, r)
		defer done()
		p.wellKnown.ServeHTTP(w, r)
	})
}

type (
	configuredKey struct{}
	listingKey    struct{}
)

// configured returns the headers that requests to the server get.
func configured(ctx context.Context) http.Header {
	h, _ := ctx.Value(configuredKey{}).(http.Header)
	return h
}

// listing returns the tools/list that a request is, or nil.
func listing(ctx context.Context) *jsonrpc.Message {
	m, _ := ctx.Value(listingKey{}).(*jsonrpc.Message)
	return m
}

func (p *proxy) pass(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, body []byte) {
	ctx := r.Context()
	if m != nil && m.Method == "tools/list" && m.IsRequest() && (p.h.s.extras() || p.h.s.o.TrustAnnotations) {
		ctx = context.WithValue(ctx, listingKey{}, m)
	}
	r = r.WithContext(ctx)
	// A body without GetBody is not sent a second time by net/http.
	r.Body, r.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	p.other(w, r)
}

func (p *proxy) other(w http.ResponseWriter, r *http.Request) {
	if _, err := p.target(r.URL); err != nil {
		refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, err.Error())
		return
	}
	if p.h.o.Headers != nil {
		headers, err := p.h.o.Headers(r.Context())
		if err != nil {
			p.h.s.log.Error("the headers for the MCP server could not be had", "error", err)
			refuse(w, http.StatusBadGateway, nil, jsonrpc.CodeInternal, "the credentials for the MCP server could not be had; nothing was sent")
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), configuredKey{}, headers))
	}
	p.reverse.ServeHTTP(w, r)
}

func (p *proxy) close() {
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
}

// amend adds to a list of tools that passes by what is added on purpose.
func (p *proxy) amend(resp *http.Response) error {
	if body := p.astray(resp, nil); body != nil {
		resp.Body.Close()
		resp.StatusCode, resp.Status = http.StatusBadGateway, ""
		resp.Header = http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return nil
	}
	m := listing(resp.Request.Context())
	if m == nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" {
		return nil
	}
	switch mediaType(resp.Header) {
	case "application/json":
		body, err := readAll(resp.Body, p.h.o.Limit)
		resp.Body.Close()
		if err != nil {
			return err
		}
		body = p.h.amendMessage(m, body)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	case "text/event-stream":
		resp.Body = &amender{h: p.h, m: m, body: resp.Body, events: p.events(resp.Body)}
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	return nil
}

func (p *proxy) events(r io.Reader) *sse.Reader {
	e := sse.NewReader(r)
	e.Limit = int(p.h.o.Limit)
	return e
}

// amendMessage returns a message with additions if it answers the tools/list m.
func (h *Handler) amendMessage(m *jsonrpc.Message, raw []byte) []byte {
	a, err := jsonrpc.Parse(raw)
	if err != nil || a.Result == nil || !sameID(a.ID, m.ID) {
		return raw
	}
	return jsonrpc.Replace(raw, a.Result, h.s.amend(a.Result))
}

// An amender is the body of an answer to tools/list that comes in events.
type amender struct {
	h      *Handler
	m      *jsonrpc.Message
	body   io.Closer
	events *sse.Reader
	buf    []byte
}

func (a *amender) Read(b []byte) (int, error) {
	for len(a.buf) == 0 {
		e, err := a.events.Next()
		if err != nil {
			return 0, err
		}
		a.buf = e.Raw
		if len(e.Data) > 0 {
			if data := a.h.amendMessage(a.m, e.Data); !bytes.Equal(data, e.Data) {
				a.buf = redata(&e, data)
			}
		}
	}
	n := copy(b, a.buf)
	a.buf = a.buf[n:]
	return n, nil
}

func (a *amender) Close() error { return a.body.Close() }

// sameID reports whether an id is another one, perhaps written differently.
func sameID(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return x != nil && x == y
}

// astray returns what a client is told in place of a redirect, or nil: following
// it, the client would go past justonce.
func (p *proxy) astray(resp *http.Response, id json.RawMessage) []byte {
	to, err := resp.Location()
	if resp.StatusCode < 300 || resp.StatusCode > 399 || err != nil {
		return nil
	}
	where := (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
	p.h.s.log.Error("the MCP server redirects; nothing is passed on until its url is corrected", "to", where)
	return jsonrpc.ErrorResponse(id, jsonrpc.ErrorObject(jsonrpc.CodeInternal,
		"the MCP server redirects to "+where+"; nothing was done. Whoever runs this gateway should write that as the server's url", nil))
}
