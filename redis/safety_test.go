package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/redistest"
	"github.com/justonce-dev/justonce/redis"
)

// wantRefused checks that s writes nothing, and says why.
func wantRefused(t *testing.T, s *redis.Store, op *justonce.Operation, what string) {
	t.Helper()
	fresh := benchOp("refused", s.Now())
	_, err := s.Begin(t.Context(), fresh, arrived(fresh))
	wantUnavailable(t, "Begin", err, what)
	version := op.Version
	wantUnavailable(t, "Update", s.Update(t.Context(), op), what)
	if op.Version != version {
		t.Errorf("a refused Update made version %d of %d", op.Version, version)
	}
	_, err = s.Claim(t.Context(), due(1), take)
	wantUnavailable(t, "Claim", err, what)
	_, err = s.Purge(t.Context(), time.Now(), 1)
	wantUnavailable(t, "Purge", err, what)
}

// A server that becomes forgetful is written to no more until it is safe again.
func TestServerBecomesForgetful(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), nil)
	op := begin(t, s, "k")
	for setting, values := range map[string][2]string{
		"appendfsync": {"everysec", "always"}, "appendonly": {"no", "yes"}, "no-appendfsync-on-rewrite": {"yes", "no"},
	} {
		do(t, srv, "CONFIG", "SET", setting, values[0])
		s.Look()
		wantRefused(t, s, op, "may forget")
		if _, err := s.Get(t.Context(), op.Ref); err != nil {
			t.Errorf("Get: %v", err)
		}
		do(t, srv, "CONFIG", "SET", setting, values[1])
		s.Look()
		if err := s.Update(t.Context(), op); err != nil {
			t.Errorf("Update after %s is %s again: %v", setting, values[1], err)
		}
	}
}

// Where the ledger was emptied or replaced nothing is known: not that an
// operation is new, nor that it is not there.
func TestLedgerIsGone(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), nil)
	op := begin(t, s, "k")
	gone := func() {
		t.Helper()
		wantRefused(t, s, op, "find out who")
		if err := s.Update(t.Context(), op); !errors.Is(err, justonce.ErrLedgerGone) {
			t.Errorf("Update: %v, want ErrLedgerGone", err)
		}
		_, err := s.Get(t.Context(), op.Ref)
		wantUnavailable(t, "Get", err, "emptied or replaced")
		if !errors.Is(err, justonce.ErrLedgerGone) {
			t.Errorf("Get: %v, want ErrLedgerGone", err)
		}
		_, err = s.History(t.Context(), op.Ref)
		wantUnavailable(t, "History", err, "emptied or replaced")
		_, err = s.List(t.Context(), justonce.Filter{})
		wantUnavailable(t, "List", err, "find out who")
		_, err = s.Stats(t.Context())
		wantUnavailable(t, "Stats", err, "find out who")
	}
	do(t, srv, "FLUSHALL")
	gone()
	do(t, srv, "CONFIG", "SET", "appendonly", "no") // as an empty server in its place has it
	s.Look()
	gone()
	do(t, srv, "CONFIG", "SET", "appendonly", "yes")
	begin(t, open(t, srv.URL(), nil), "k") // another ledger under its name
	s.Forget()
	wantRefused(t, s, op, "find out who")
	s.Look()
	wantRefused(t, s, op, "find out who")
}

// A primary that becomes a replica says so in its errors.
func TestServerBecomesAReplica(t *testing.T) {
	t.Parallel()
	srv := start(t, "replica-serve-stale-data=yes")
	s := open(t, srv.URL(), nil)
	op := begin(t, s, "k")
	do(t, srv, "REPLICAOF", "127.0.0.1", "1")
	wantRefused(t, s, op, "name the primary")
	s.Look()
	wantRefused(t, s, op, "name the primary")
	_, err := redis.Open(t.Context(), srv.URL(), nil)
	wantUnavailable(t, "Open of a replica", err, "name the primary")
	do(t, srv, "REPLICAOF", "NO", "ONE")
	s.Look()
	if err := s.Update(t.Context(), op); err != nil {
		t.Errorf("Update after it is the primary again: %v", err)
	}
}

// awaitReplica waits until the replica has taken a write: it is online before it
// has read its file.
func awaitReplica(t *testing.T, srv *redistest.Server) {
	t.Helper()
	do(t, srv, "INCR", "replicated")
	await(t, func() bool {
		info := do(t, srv, "INFO", "replication")
		_, offset, _ := strings.Cut(info, "master_repl_offset:")
		offset, _, _ = strings.Cut(offset, "\n")
		return contains(info, "state=online,offset="+strings.TrimSpace(offset)+",")
	})
}

func TestMinReplicas(t *testing.T) {
	t.Parallel()
	srv := start(t, "repl-diskless-sync-delay=0")
	replica := start(t, "replicaof=127.0.0.1 "+port(srv))
	awaitReplica(t, srv)
	s := open(t, srv.URL("min_replicas=1"), &redis.Options{Timeout: time.Second})
	firstCall(t.Context(), t, s, "k")
	if n := do(t, replica, "EXISTS", s.OpKey("", "k")); n != "1" {
		t.Error("what was acknowledged is not on the replica")
	}
	do(t, srv, "SCRIPT", "FLUSH")
	begin(t, s, "k1")
	if err := replica.Kill(); err != nil {
		t.Fatal(err)
	}
	op := pendingOp("k2", s.Now())
	_, err := s.Begin(t.Context(), op, arrived(op))
	wantUnavailable(t, "Begin without the replica", err, "replicas")
	if op.Version != 0 {
		t.Errorf("a Begin that failed made version %d", op.Version)
	}
	if err := replica.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitReplica(t, srv)
	s.Look()
	if a, err := s.Begin(t.Context(), op, arrived(op)); err != nil || a.Fresh {
		t.Errorf("Begin again: %+v, %v, want what the primary has", a, err)
	}
}

// All of a ledger is in one slot, so that a cluster can have it.
func TestStoreInCluster(t *testing.T) {
	srv := start(t, "cluster-enabled=yes", "cluster-config-file=nodes.conf")
	do(t, srv, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	await(t, func() bool { return contains(do(t, srv, "CLUSTER", "INFO"), "cluster_state:ok") })
	conform(t, srv, srv.TCP)
	t.Run("SlotIsLost", func(t *testing.T) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port(srv)}, ForceSingleClient: true, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		s, err := redis.New(t.Context(), client, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		op := begin(t, s, "k")
		do(t, srv, "CLUSTER", "DELSLOTSRANGE", "0", "16383")
		wantRefused(t, s, op, "lacks a node")
	})
}
