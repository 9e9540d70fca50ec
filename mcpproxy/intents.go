package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// intents remembers which operation a client's own mark of a call led to, so
// that the client's transport may send it again after the answer arrived. It
// lives in memory: such repeats follow within seconds.
type intents struct {
	mu  sync.Mutex
	m   map[string]*justonce.Operation
	old map[string]*justonce.Operation
}

const maxIntents = 5_000

func (in *intents) get(mark string) *justonce.Operation {
	in.mu.Lock()
	defer in.mu.Unlock()
	if op := in.m[mark]; op != nil {
		return op
	}
	return in.old[mark]
}

func (in *intents) put(mark string, op *justonce.Operation) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.m) >= maxIntents || in.m == nil {
		in.m, in.old = map[string]*justonce.Operation{}, in.m
	}
	in.m[mark] = &justonce.Operation{Ref: op.Ref, CreatedAt: op.CreatedAt, Fingerprint: op.Fingerprint}
}

// mark returns what a client calls this call by itself, or "".
func (s *Server) mark(t *turn) string {
	for _, key := range s.o.IntentKeys {
		if v := jsonrpc.Get(t.meta, key); v != nil && string(v) != "null" {
			name, _ := json.Marshal([]string{t.call.Scope, t.spec.name, key})
			return string(name) + string(v)
		}
	}
	return ""
}

// marked returns the operation that a call with the same mark led to, if it has
// ended.
func (s *Server) marked(ctx context.Context, mark string, in *justonce.Intent) *justonce.Operation {
	if mark == "" {
		return nil
	}
	was := s.intents.get(mark)
	if was == nil || was.Fingerprint != in.Fingerprint {
		return nil
	}
	ref := was.Ref
	for range 2 {
		a, err := s.runner.Get(ctx, ref)
		switch {
		case err == nil && a.Operation.CreatedAt.Equal(was.CreatedAt):
			if a.Operation.State.Ended() {
				return a.Operation
			}
			return nil
		case err != nil && !errors.Is(err, justonce.ErrNotFound):
			return nil
		}
		// A later operation has its key: see Store.Begin.
		ref.Key = was.Key + "~" + strconv.FormatInt(was.CreatedAt.UnixNano(), 10)
	}
	return nil
}
