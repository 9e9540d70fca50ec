package postgres_test

import (
	"testing"
	"time"

	"github.com/justonce-dev/justonce/postgres"
)

// Now is the server's time.
func TestNowIsTheServers(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	var server time.Time
	before := s.Now()
	if err := connect(t).QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&server); err != nil {
		t.Fatal(err)
	}
	after := s.Now()
	const slack = 100 * time.Millisecond // for a busy machine
	if server.Before(before.Add(-slack)) || server.After(after.Add(slack)) {
		t.Errorf("Now is %v to %v, the server's clock %v", before, after, server)
	}
}
