package justonce

import (
	"context"
	"encoding/json"
	"fmt"
)

// Wrap makes fn a tool of r and returns a func that calls it through r: the
// same intent runs fn once, whoever calls how often, in this process and in
// others. t says what makes two calls the same intent; its Connector is set.
//
// The returned func gives fn's result, also when it is a replay. Its error is
// Do's, or a *[StateError] when the operation has not succeeded. See [Func] for
// what fn's own errors mean.
func Wrap[A, R any](r *Runner, t *Tool, fn func(ctx context.Context, args A) (R, error)) (func(ctx context.Context, args A) (R, error), error) {
	tool := *t
	tool.Connector = Func(func(ctx context.Context, arguments json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(arguments, &args); err != nil {
			return nil, RejectedError(fmt.Errorf("arguments: %w", err))
		}
		return fn(ctx, args)
	})
	if err := r.Register(&tool); err != nil {
		return nil, err
	}
	return func(ctx context.Context, args A) (result R, err error) {
		b, err := json.Marshal(args)
		if err != nil {
			return result, &InvalidError{Field: "arguments", Detail: err.Error()}
		}
		ans, err := r.Do(ctx, Call{Tool: tool.Name, Arguments: b})
		if err != nil {
			return result, err
		}
		if err := ans.Err(); err != nil {
			return result, err
		}
		if ans.Operation.Result == nil {
			return result, nil
		}
		return result, json.Unmarshal(ans.Operation.Result, &result)
	}, nil
}
