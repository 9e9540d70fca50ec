package mcpconn

import (
	"context"
	"errors"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/httpask"
)

// New checks the declaration, compiles its expressions, and returns the
// connector, which calls through caller. It is a [justonce.Finder] exactly if
// c.Lookup is set. Nothing is sent.
//
// An outcome that says succeeded says that the server ran the call to an answer,
// and that this is its answer. Whether an answer with isError had an effect
// justonce cannot know, unless [Answer] says so: the note tells of it, and the
// agent sees the answer.
func New(c Config, caller Caller) (justonce.Connector, error) {
	k := &connector{config: c, caller: caller}
	if err := k.compile(); err != nil {
		return nil, fmt.Errorf("mcp tool: %w", err)
	}
	if c.Lookup == nil {
		return k, nil
	}
	f, err := newFinder(k, c.Lookup)
	if err != nil {
		return nil, fmt.Errorf("mcp tool: lookup: %w", err)
	}
	return f, nil
}

var (
	_ justonce.Connector = (*connector)(nil)
	_ justonce.Finder    = (*finder)(nil)
)

type connector struct {
	config Config
	caller Caller
	answer judge
}

func (k *connector) compile() error {
	c := &k.config
	switch {
	case k.caller == nil:
		return errors.New("there is no caller to call through")
	case c.Tool == "":
		return errors.New("the tool has no name: set tool to its name at the server")
	}
	switch c.Mode {
	case "", "enforce", "observe":
	default:
		return fmt.Errorf("mode %q is neither enforce nor observe", c.Mode)
	}
	var err error
	k.answer, err = c.Answer.compile()
	return err
}

// Send implements [justonce.Connector].
func (k *connector) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	args := a.Arguments
	if len(args) == 0 {
		args = []byte("{}")
	}
	r := k.caller.CallTool(ctx, &ToolCall{Name: k.config.Tool, Arguments: args, Attempt: a})
	return k.answer.outcome(&r, func() (answerVars, error) { return operation(a).RequestVars() })
}

func operation(a *justonce.Attempt) *httpask.Operation {
	return &httpask.Operation{Arguments: a.Arguments, WireKey: a.WireKey, Key: a.Key, Tool: a.Tool, Scope: a.Scope,
		RunID: a.RunID, FirstSent: a.FirstSent, UnknownAt: a.UnknownAt, Reference: a.Reference}
}
