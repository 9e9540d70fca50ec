package mcpconn

import (
	"context"
	"errors"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
)

// A finder is a connector whose server can be asked.
type finder struct {
	*connector
	tool      string
	arguments *celexpr.Tree
	judge     *httpask.Judge
}

func newFinder(k *connector, l *Lookup) (*finder, error) {
	switch {
	case l.Tool == "":
		return nil, errors.New("it has no tool: set tool to the one to ask")
	case l.Tool == k.config.Tool:
		return nil, fmt.Errorf("tool %s is the one whose effect is looked for: asking it would repeat the effect", l.Tool)
	case l.Found == "" && l.Items == "":
		return nil, errors.New("it has neither found nor items, so that it could find nothing")
	}
	f := &finder{connector: k, tool: l.Tool}
	requests, err := celexpr.NewEnv(withArguments(httpask.LookupVars()))
	if err != nil {
		return nil, err
	}
	arguments := map[string]any{}
	for name, v := range l.Arguments {
		arguments[name] = v
	}
	if f.arguments, err = requests.Tree(arguments); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	secrets := map[string]bool{}
	f.arguments.Walk(func(t *celexpr.Template) { t.Secrets(secrets) })
	if len(secrets) > 0 {
		return nil, errors.New("arguments: a secret has no place in a tool's arguments")
	}
	f.judge, err = l.judged().Judge(answerKinds(httpask.LookupVars()))
	return f, err
}

func withArguments(vars map[string]celexpr.Kind) map[string]celexpr.Kind {
	vars["arguments"] = celexpr.Any
	return vars
}

// Lookup implements [justonce.Finder].
func (f *finder) Lookup(ctx context.Context, a *justonce.Attempt) justonce.Finding {
	v, err := operation(a).LookupVars()
	if err != nil {
		return notAsked(err)
	}
	v["arguments"] = v["args"]
	args, err := f.arguments.JSON(v, nil)
	if err != nil {
		return notAsked(err)
	}
	r := f.caller.CallTool(ctx, &ToolCall{Name: f.tool, Arguments: args})
	out := justonce.Finding{Evidence: evidence(&r), RetryAfter: r.RetryAfter}
	if !r.Answered() || IsInputRequired(r.Result) {
		return out
	}
	s := httpask.Shown{Raw: r.Result, Vars: v}
	if r.Error != nil || isError(r.Result) {
		s.NoList = errors.New("an answer with an error is no list")
	}
	shown := httpask.Finding{Evidence: out.Evidence}
	if err = addAnswer(v, &r); err == nil {
		err = f.judge.Judge(&shown, s, a.FirstSent)
	}
	if err != nil {
		out.Evidence["note"] = httpask.Clip(err.Error(), 300)
		return out
	}
	out.Kind = kinds[shown.Kind]
	switch shown.Kind {
	case httpask.Found:
		for _, m := range shown.Matches {
			out.Matches = append(out.Matches, justonce.Found{Reference: m.Reference, Result: recovered(m.Result)})
		}
	case httpask.Progress:
		out.Reference, out.Result = shown.Reference, shown.Result
	case httpask.Failed:
		out.Failure, _ = failureOf(&r)
	}
	return out
}

func notAsked(err error) justonce.Finding {
	return justonce.Finding{Evidence: map[string]string{"stage": "question not built", "error": httpask.Clip(err.Error(), 300)}}
}

var kinds = map[httpask.Kind]justonce.FindingKind{
	httpask.NoAnswer: justonce.FindingNoAnswer, httpask.Found: justonce.FindingFound, httpask.Absent: justonce.FindingAbsent,
	httpask.Failed: justonce.FindingFailed, httpask.Progress: justonce.FindingProgress,
}
