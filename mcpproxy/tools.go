package mcpproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"sync"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A spec is what is known of a tool.
type spec struct {
	tool      string // the server's name of it
	name      string // the ledger's
	effect    justonce.Effect
	declared  bool
	dedupe    justonce.Dedupe
	mode      Mode
	repeat    bool
	connector justonce.Connector
}

// recorded reports whether calls become operations.
func (sp *spec) recorded() bool {
	return sp.effect == justonce.Write || sp.effect == justonce.LongRunning
}

// hints are the annotations by which a server says that a tool is harmless.
type hints struct{ readOnly, idempotent bool }

// toolbox holds the specs by the server's names.
type toolbox struct {
	mu    sync.RWMutex
	specs map[string]*spec
	hints map[string]hints
	own   map[string]bool // names of ours that the server has itself
	named map[string]bool // what the server's lists named so far
	told  bool            // of declared tools that it does not have
}

const maxTools = 10_000

func (b *toolbox) put(sp *spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.specs == nil {
		b.specs = map[string]*spec{}
	}
	b.specs[sp.tool] = sp
}

func (b *toolbox) get(tool string) *spec {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.specs[tool]
}

// spec returns what is known of a tool, and makes an unknown one known.
func (s *Server) spec(tool string) (*spec, error) {
	if sp := s.tools.get(tool); sp != nil {
		return sp, nil
	}
	b := &s.tools
	b.mu.Lock()
	defer b.mu.Unlock()
	if sp := b.specs[tool]; sp != nil {
		return sp, nil
	}
	if len(b.specs) >= maxTools {
		return nil, errTooManyTools
	}
	sp := &spec{tool: tool, name: s.ledgerName(tool), effect: justonce.Write, dedupe: justonce.UntilDelivered, mode: s.mode(tool), repeat: s.o.Tools[tool].Repeat}
	var err error
	if sp.connector, err = mcpconn.New(mcpconn.Config{Server: s.o.Name, Tool: tool}, s); err != nil {
		return nil, err
	}
	if err := s.runner.Register(s.undescribed(sp)); err != nil {
		return nil, err
	}
	if b.specs == nil {
		b.specs = map[string]*spec{}
	}
	b.specs[tool] = sp
	return sp, nil
}

// harmless reports whether the server's annotations, where they are trusted,
// say so of a tool that nobody described.
func (s *Server) harmless(tool string) bool {
	if !s.o.TrustAnnotations {
		return false
	}
	if sp := s.tools.get(tool); sp != nil && sp.declared {
		return false
	}
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	h := s.tools.hints[tool]
	return h.readOnly || h.idempotent
}

// learn reads the annotations of a list of tools that passes by.
func (s *Server) learn(tools []json.RawMessage) {
	b := &s.tools
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named == nil {
		b.named = map[string]bool{}
	}
	for _, t := range tools {
		name := jsonrpc.String(t, "name")
		if len(b.named) < maxTools {
			b.named[name] = true
		}
		if name == toolStatus || name == toolWait {
			if b.own == nil {
				b.own = map[string]bool{}
			}
			b.own[name] = true
		}
		if !s.o.TrustAnnotations || len(b.hints) >= maxTools {
			continue
		}
		if b.hints == nil {
			b.hints = map[string]hints{}
		}
		is := func(hint string) bool { return string(jsonrpc.Get(t, "annotations", hint)) == "true" }
		b.hints[name] = hints{is("readOnlyHint"), is("idempotentHint")}
	}
}

// hashedName is how names look that the runner does not take: see ledgerName.
var hashedName = regexp.MustCompile(`^tool-[0-9a-f]{16}$`)

// compare tells once of declared tools that the server's list, which is complete
// now, does not have: a misspelt declaration protects nothing.
func (s *Server) compare() {
	b := &s.tools
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told || s.native {
		return
	}
	b.told = true
	for _, name := range slices.Sorted(maps.Keys(b.specs)) {
		if b.specs[name].declared && !b.named[name] {
			s.log.Warn("the catalog declares a tool that the server does not have; is it misspelt?", "tool", name, "it_has", slices.Sorted(maps.Keys(b.named)))
		}
	}
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// ledgerName returns the name under which the runner has a tool. Names that it
// does not take are hashed.
func (s *Server) ledgerName(tool string) string {
	name := s.o.Name + "/" + tool
	if len(name) <= 128 && plainName.MatchString(tool) && !hashedName.MatchString(tool) {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	return s.o.Name + "/tool-" + hex.EncodeToString(sum[:8])
}
