package connectortest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	httpconn "github.com/justonce-dev/justonce/connector/http"
)

// A liar changes what an honest connector says or does.
type liar struct {
	justonce.Connector
	how string
}

func (l liar) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	o := l.Connector.Send(ctx, a)
	if o.Kind != justonce.OutcomeUnknown {
		return o
	}
	switch l.how {
	case "pessimist":
		o.Kind = justonce.OutcomeNotExecuted
	case "optimist":
		o.Kind = justonce.OutcomeSucceeded
	case "repeater":
		return l.Connector.Send(ctx, a)
	case "gossip":
		o.Evidence["error"] = "while sending the-secret-itself"
	}
	return o
}

func suite(how string) connectortest.Suite {
	return connectortest.Suite{
		Accepting: func(t testing.TB) connectortest.Provider {
			return connectortest.HTTP(t, true, connectortest.JSON(200, `{"id":1}`))
		},
		Refusing: func(t testing.TB) connectortest.Provider {
			return connectortest.HTTP(t, false, connectortest.JSON(422, `{"code":"no"}`))
		},
		Connector: func(t testing.TB, addr string) justonce.Connector {
			c, err := httpconn.New(httpconn.Config{Request: httpconn.Request{URL: "http://" + addr + "/"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return liar{c, how}
		},
		Secrets: []string{"the-secret-itself"},
		MaxCuts: 30,
	}
}

const variable = "JUSTONCE_TEST_LIAR"

func TestHonest(t *testing.T) { connectortest.Run(t, suite("honest")) }

// TestLiar fails, which TestKitCatchesLiars wants to see.
func TestLiar(t *testing.T) {
	how := os.Getenv(variable)
	if how == "" {
		t.Skip("it runs only below TestKitCatchesLiars")
	}
	connectortest.Run(t, suite(how))
}

func TestKitCatchesLiars(t *testing.T) {
	t.Parallel()
	for how, says := range map[string]string{
		"pessimist": "outcome not_executed, but it happened",
		"optimist":  "outcome succeeded, but nothing happened",
		"repeater":  "one send had 2 effects",
		"gossip":    "a secret is in the outcome",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestLiar$")
			cmd.Env = append(os.Environ(), variable+"="+how)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("the kit does not say %q:\n%s", says, out)
			}
		})
	}
}
