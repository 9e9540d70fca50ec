package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/postgres"
)

// shared is the server of all tests that do not stop it. It is fast: what a
// crash of the machine leaves is not what they ask.
var shared struct {
	sync.Once
	server *pgtest.Server
	err    error
	n      atomic.Int64 // schemas handed out
}

func server(tb testing.TB) *pgtest.Server {
	tb.Helper()
	pgtest.Skip(tb)
	startServer()
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

func startServer() {
	shared.Do(func() {
		shared.server, shared.err = pgtest.Start("fsync=off", "full_page_writes=off", "deadlock_timeout=100ms")
	})
}

// skipExamples leaves out the examples where there can be no server.
func skipExamples() {
	flag.Parse()
	if pgtest.Missing() != "" && flag.Lookup("test.skip").Value.String() == "" {
		flag.Set("test.skip", "^Example")
	}
}

// databaseURL is where the examples find their database.
func databaseURL() string {
	startServer()
	if shared.err != nil {
		panic(shared.err)
	}
	return shared.server.URL("postgres")
}

func stopServer() {
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// newSchema returns the name of a ledger that nobody else has.
func newSchema() string { return fmt.Sprint("ledger-", shared.n.Add(1)) }

// open opens a store that is closed after the test.
func open(tb testing.TB, dsn string, o *postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(context.Background(), dsn, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}
