// Package httpask builds HTTP requests from templates, sends each exactly once,
// and says what of it can have reached the other side.
//
// It is what connectors share; it knows nothing of operations.
package httpask

import "github.com/justonce-dev/justonce/internal/celexpr"

// RequestVars are the variables of request templates.
func RequestVars() map[string]celexpr.Kind {
	return map[string]celexpr.Kind{
		"args": celexpr.Any, "wire_key": celexpr.Text, "key": celexpr.Text, "tool": celexpr.Text,
		"scope": celexpr.Text, "run_id": celexpr.Text, "first_sent": celexpr.Time,
	}
}

// LookupVars are the variables of a lookup's request templates.
func LookupVars() map[string]celexpr.Kind {
	return with(RequestVars(), map[string]celexpr.Kind{"reference": celexpr.Text, "unknown_at": celexpr.Time})
}

// AnswerVars are the variables that an answer adds.
func AnswerVars() map[string]celexpr.Kind {
	return map[string]celexpr.Kind{
		"status": celexpr.Int, "headers": celexpr.TextMap, "body": celexpr.Any, "text": celexpr.Text,
	}
}

func with(m, more map[string]celexpr.Kind) map[string]celexpr.Kind {
	for k, v := range more {
		m[k] = v
	}
	return m
}
