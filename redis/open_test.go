package redis_test

import (
	"strings"
	"sync"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/redis"
)

// A server that may forget is refused, with what to do, unless that is accepted
// by name.
func TestOpenRefusesForgetfulServers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		setting string // what differs from a safe server
		loss    redis.Loss
		want    string
	}{
		{"appendonly=no", redis.LossAtCrash, "set appendonly yes and appendfsync always"},
		{"appendfsync=everysec", redis.LossOfASecond, "set appendfsync always"},
		{"appendfsync=no", redis.LossAtCrash, "set appendfsync always"},
		{"no-appendfsync-on-rewrite=yes", redis.LossAtCrash, "set no-appendfsync-on-rewrite no"},
		{"maxmemory=100mb maxmemory-policy=allkeys-lru", redis.LossByEviction, "set maxmemory-policy noeviction"},
		{"maxmemory=100mb maxmemory-policy=allkeys-random", redis.LossByEviction, "set maxmemory-policy noeviction"},
		{"appendfsync=no no-appendfsync-on-rewrite=yes", redis.LossAtCrash, "set appendfsync always and no-appendfsync-on-rewrite no"},
		{"maxmemory=100mb maxmemory-policy=noeviction", "", ""},
		{"maxmemory=100mb maxmemory-policy=volatile-lru", "", ""}, // ours are not volatile
		{"maxmemory=0 maxmemory-policy=allkeys-lru", "", ""},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			t.Parallel()
			srv := start(t, strings.Fields(tt.setting)...)
			if tt.loss == "" {
				firstCall(t.Context(), t, open(t, srv.URL(), nil), "k")
				return
			}
			for _, other := range redis.Losses() {
				covered := other == tt.loss || other == redis.LossAtCrash && tt.loss == redis.LossOfASecond
				s, err := redis.Open(t.Context(), srv.URL(), &redis.Options{AcceptLoss: []redis.Loss{other}})
				if err == nil {
					s.Close()
				}
				if covered != (err == nil) {
					t.Errorf("accepting %q: %v", other, err)
				}
			}
			_, err := redis.Open(t.Context(), srv.URL(), nil)
			wantUnavailable(t, "Open", err, tt.want)
			wantUnavailable(t, "Open", err, "accept_loss="+string(tt.loss)+" ")
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Open: %v, want one line", err)
			}
			firstCall(t.Context(), t, open(t, srv.URL("accept_loss="+string(tt.loss)), nil), "k")
		})
	}
}

// Several ways to forget are told, and can be accepted, in one sentence.
func TestOpenOfAServerThatForgetsInManyWays(t *testing.T) {
	t.Parallel()
	srv := start(t, "appendfsync=everysec", "maxmemory=100mb", "maxmemory-policy=allkeys-lru")
	_, err := redis.Open(t.Context(), srv.URL(), nil)
	wantUnavailable(t, "Open", err, "(appendfsync everysec, maxmemory-policy allkeys-lru), whose effects can then happen twice: "+
		"set appendfsync always and maxmemory-policy noeviction, or accept that with accept_loss=second,eviction in its URL")
	firstCall(t.Context(), t, open(t, srv.URL("accept_loss=second,eviction"), nil), "k")
}

// A server that keeps its settings to itself is one that may forget. What a user
// needs is little.
func TestOpenWithoutPrivileges(t *testing.T) {
	t.Parallel()
	srv := start(t)
	rights := strings.Fields("resetkeys ~{p}:* resetchannels &{p}:* -@all +@read +@write +@scripting +@pubsub +@connection +time +wait +info +role -@dangerous +info +role")
	do(t, srv, append([]string{"ACL", "SETUSER", "ann", "on", ">s3cret"}, rights...)...)
	url := strings.Replace(srv.TCP("prefix=p"), "//", "//ann:s3cret@", 1)
	_, err := redis.Open(t.Context(), url, nil)
	wantUnavailable(t, "Open", err, "allow CONFIG GET")
	firstCall(t.Context(), t, open(t, url+"&accept_loss=unverified", nil), "k1")
	do(t, srv, "ACL", "SETUSER", "ann", "+config|get")
	s := open(t, url, nil)
	firstCall(t.Context(), t, s, "k2")
	begin(t, s, "k3")
	if ops, err := s.Claim(t.Context(), due(1), take); err != nil || len(ops) != 1 {
		t.Errorf("Claim: %d, %v", len(ops), err)
	}
	_, err = redis.Open(t.Context(), strings.Replace(url, "prefix=p", "prefix=q", 1), nil)
	wantUnavailable(t, "Open of another's keys", err, "allow the user the keys")
	_, err = redis.Open(t.Context(), strings.Replace(url, "s3cret", "wrong", 1), nil)
	wantUnavailable(t, "Open with a wrong password", err, "check user and password")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	srv := server(t)
	newer, foreign, other := newPrefix(), newPrefix(), newPrefix()
	do(t, srv, "SET", "{"+newer+"}:ledger", "justonce 99 x")
	do(t, srv, "SET", "{"+foreign+"}:ledger", "theirs")
	do(t, srv, "RPUSH", "{"+other+"}:ledger", "theirs")
	for _, tt := range []struct{ url, want string }{
		{"nonsense", "redis://user:password@host:6379/0"},
		{"redis://host:port/0", "redis://user:password@host:6379/0"},
		{"http://127.0.0.1", "invalid URL scheme"},
		{srv.URL("accept_los=second"), `"accept_los" is no parameter; there are prefix, accept_loss`},
		{srv.URL("accept_loss=everything"), "there are second, crash, eviction, unverified"},
		{srv.URL("min_replicas=some"), "must be a number"},
		{srv.URL("min_replicas=-1"), "must not be negative"},
		{srv.URL("min_replicas=1"), "has 0 replicas and MinReplicas is 1"},
		{srv.URL("prefix={x}"), "must not contain braces"},
		{srv.URL("prefix=" + newer), "has format 99 and this program knows only 1"},
		{srv.URL("prefix=" + foreign), "name another prefix"},
		{srv.URL("prefix=" + other), "seems to belong to another application"},
		{"redis://127.0.0.1:1", "connect"},
		{"unix:///nowhere/socket", "no such file"},
	} {
		s, err := redis.Open(t.Context(), tt.url, nil)
		if err == nil {
			s.Close()
		}
		wantUnavailable(t, "Open("+tt.url+")", err, tt.want)
	}
}

func TestOpenExisting(t *testing.T) {
	t.Parallel()
	srv := start(t)
	existing := &redis.Options{Existing: true}
	s, err := redis.Open(t.Context(), srv.URL(), existing)
	if err == nil {
		s.Close()
	}
	wantUnavailable(t, "Open", err, "there is no ledger")
	if n := do(t, srv, "DBSIZE"); n != "0" {
		t.Errorf("Open made %s keys", n)
	}
	begin(t, open(t, srv.URL(), nil), "k")
	looking := open(t, srv.URL(), existing)
	if _, err := looking.Get(t.Context(), justonce.Ref{Key: "k"}); err != nil {
		t.Errorf("Get: %v", err)
	}
}

// Who only looks need not accept what a server may forget, and writes nothing.
func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	srv := start(t, "appendonly=no", "maxmemory=100mb", "maxmemory-policy=allkeys-lru")
	readOnly := &redis.Options{ReadOnly: true}
	s, err := redis.Open(t.Context(), srv.URL(), readOnly)
	if err == nil {
		s.Close()
	}
	wantUnavailable(t, "Open", err, "there is no ledger")
	op := begin(t, open(t, srv.URL("accept_loss=crash,eviction"), nil), "k")
	looking := open(t, srv.URL("min_replicas=1"), readOnly)
	for range 2 {
		if _, err := looking.Get(t.Context(), op.Ref); err != nil {
			t.Errorf("Get: %v", err)
		}
		if _, err := looking.History(t.Context(), op.Ref); err != nil {
			t.Errorf("History: %v", err)
		}
		if page, err := looking.List(t.Context(), justonce.Filter{}); err != nil || len(page.Operations) != 1 {
			t.Errorf("List: %+v, %v", page, err)
		}
		if _, err := looking.Stats(t.Context()); err != nil {
			t.Errorf("Stats: %v", err)
		}
		wantRefused(t, looking, op, "opened to be read only")
		looking.Look()
	}
}

// No error tells the password.
func TestErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://ann:s3cret@127.0.0.1:1/0", "redis://ann:s3cret@127.0.0.1:bad/0", "redis://ann:s3cret", "redis://ann:s3cret@host/x/y",
		"redis://ann:s3cret%zz@127.0.0.1", "ann:s3cret@127.0.0.1", "redis://ann:s3cret@127.0.0.1:1/zero", "http://ann:s3cret@127.0.0.1",
		"redis://ann:s3cret@127.0.0.1:1?bad=1", "redis://ann:s3cret@127.0.0.1:1?%zz",
	} {
		_, err := redis.Open(t.Context(), url, nil)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open: %v", err)
		}
	}
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	url, prefix := server(t).URL(), newPrefix()
	var wg sync.WaitGroup
	var stores [8]*redis.Store
	for i := range stores {
		wg.Go(func() {
			s, err := redis.Open(t.Context(), url, &redis.Options{Prefix: prefix})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			stores[i] = s
		})
	}
	wg.Wait()
	for i, s := range stores {
		if s != nil { // all have the same marker
			begin(t, s, string(rune('a'+i)))
			s.Close()
		}
	}
}
