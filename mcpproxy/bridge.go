package mcpproxy

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A bridge is the front before servers that speak in lines: one for each session
// of a client, and one for all requests that stand for themselves, as they do
// since the version 2026-07-28 of the protocol.
type bridge struct {
	h      *Handler
	shared *wire
	params paramHeaders

	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
	ending   sync.WaitGroup
}

func newBridge(h *Handler) *bridge {
	if h.o.SessionIdle == 0 {
		h.o.SessionIdle = 30 * time.Minute
	}
	if h.o.MaxSessions == 0 {
		h.o.MaxSessions = 100
	}
	b := &bridge{h: h, sessions: map[string]*session{}}
	b.shared = newWire(h, true)
	b.shared.stray = b.shared.strayShared
	return b
}

// A session is a client's conversation with a server of its own.
type session struct {
	b       *bridge
	id      string
	wire    *wire
	version string
	gone    chan struct{} // closed with the session

	mu      sync.Mutex
	open    int // requests being served
	idle    *time.Timer
	get     *flow    // the stream that belongs to no request
	backlog [][]byte // what waits for it
	hello   []byte   // the client's initialize
	ended   bool
}

// maxBacklog bounds the messages that wait for a stream.
const maxBacklog = 100

func (b *bridge) newSession() (*session, string) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	s := &session{b: b, id: hex.EncodeToString(id), wire: newWire(b.h, false), gone: make(chan struct{})}
	s.wire.stray = s.stray
	s.wire.ended = func() { b.end(s) }
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, "the proxy is stopping"
	case len(b.sessions) >= b.h.o.MaxSessions:
		return nil, "there are too many sessions: end one that is not needed, or come again later"
	}
	s.open = 1
	s.idle = time.AfterFunc(b.h.o.SessionIdle, func() { b.end(s) })
	s.idle.Stop()
	b.sessions[s.id] = s
	return s, ""
}

// session returns the session of a request, which is then in use; nil: the
// client was answered.
func (b *bridge) session(w http.ResponseWriter, r *http.Request, id json.RawMessage) *session {
	name := r.Header.Get(headerSession)
	if name == "" {
		refuse(w, http.StatusBadRequest, id, jsonrpc.CodeInvalidRequest, "the header Mcp-Session-Id is missing: initialize a session first")
		return nil
	}
	b.mu.Lock()
	s := b.sessions[name]
	b.mu.Unlock()
	if s == nil || !s.use() {
		refuse(w, http.StatusNotFound, id, codeNoSession, "there is no such session, or it has ended: initialize a new one")
		return nil
	}
	return s
}

// codeNoSession is what other servers answer, too.
const codeNoSession = -32001

func (s *session) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.open++
		s.idle.Stop()
	}
	return !s.ended
}

func (s *session) unuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.open == 0 && !s.ended {
		s.idle.Reset(s.b.h.o.SessionIdle)
	}
}

// spoken returns the version of the protocol that was agreed on, or "".
func (s *session) spoken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// end ends a session. Calls that were sent may still get their answers.
func (b *bridge) end(s *session) {
	b.mu.Lock()
	s.mu.Lock()
	ended, get := s.ended, s.get
	s.ended = true
	s.mu.Unlock()
	if !ended {
		delete(b.sessions, s.id)
		s.idle.Stop()
		b.ending.Go(s.wire.finish)
	}
	b.mu.Unlock()
	if ended {
		return
	}
	close(s.gone)
	if get != nil {
		get.cut()
	}
}

func (b *bridge) close() {
	b.mu.Lock()
	b.closed = true
	var list []*session
	for _, s := range b.sessions {
		list = append(list, s)
	}
	b.mu.Unlock()
	for _, s := range list {
		b.end(s)
	}
	b.shared.finish()
	b.ending.Wait()
}

// modern reports whether a request stands for itself.
func modern(r *http.Request, m *jsonrpc.Message) bool {
	if r.Header.Get(headerSession) != "" {
		return false
	}
	return r.Header.Get(headerVersion) >= stateless || m != nil && metaVersion(m) != ""
}

func metaVersion(m *jsonrpc.Message) string {
	return jsonrpc.String(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion")
}

// invalid returns what is wrong with the headers of a request that stands for
// itself, with the code to answer, or "".
func invalid(r *http.Request, m *jsonrpc.Message) (int, string) {
	version := r.Header.Get(headerVersion)
	switch meta := metaVersion(m); {
	case version == "":
		return codeHeaderMismatch, "the header MCP-Protocol-Version is missing; nothing was sent"
	case meta == "" && m.IsRequest():
		return jsonrpc.CodeInvalidParams, "the _meta has no io.modelcontextprotocol/protocolVersion; nothing was sent"
	case m.IsRequest() && !jsonrpc.IsObject(jsonrpc.Get(m.Params, "_meta", "io.modelcontextprotocol/clientCapabilities")):
		return jsonrpc.CodeInvalidParams, "the _meta has no io.modelcontextprotocol/clientCapabilities; nothing was sent"
	case meta != "" && meta != version:
		return codeHeaderMismatch, "header mismatch: MCP-Protocol-Version is not the version in the body; nothing was sent"
	}
	named := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[m.Method]
	switch {
	case m.Method != "" && r.Header.Get(headerMethod) == "":
		return codeHeaderMismatch, "the header Mcp-Method is missing; nothing was sent"
	case named != "" && r.Header.Get(headerName) == "":
		return codeHeaderMismatch, "the header Mcp-Name is missing; nothing was sent"
	case named != "":
		if why := contradiction(r.Header, m, named); why != "" {
			return codeHeaderMismatch, why
		}
	case m.Method != "":
		if r.Header.Get(headerMethod) != m.Method {
			return codeHeaderMismatch, "header mismatch: Mcp-Method is not the body's method; nothing was sent"
		}
	}
	return 0, ""
}
