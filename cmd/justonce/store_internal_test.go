package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

func TestStoreNames(t *testing.T) {
	t.Parallel()
	const refused = "refused"
	for name, want := range map[string]string{
		"justonce.db":                "justonce.db",
		"/var/lib/a@b:c/justonce.db": "/var/lib/a@b:c/justonce.db",
		"postgres://h/d":             "postgres://h/d",
		"postgresql://ann:s3cret@h:5433/d?sslmode=disable&password=s3cret": "postgresql://h:5433/d",
		"postgres://ann:s3%40cret@[::1]:5433/d":                            "postgres://[::1]:5433/d",
		"postgres:///d?host=/run/postgresql&user=s3cret":                   "postgres:///d?host=%2Frun%2Fpostgresql",
		"rediss://:s3cret@h/1?prefix=p&db=2&accept_loss=second":            "rediss://h/1?accept_loss=second&db=2&prefix=p",
		"postgres://ann:12/s3cret@h/d":                                     refused,
		"postgres://ann:12?s3cret@h/d":                                     refused,
		"postgres://ann:12#s3cret@h/d":                                     refused,
		"postgres://ann:s3cret/x@h/d":                                      refused,
		"postgres://ann:s3%ret@h/d":                                        refused,
		"host=h password=s3cret dbname=d":                                  refused,
		"mysql://ann:s3cret@h/d":                                           refused,
	} {
		err := checkStore(name)
		if want == refused {
			if !errors.Is(err, justonce.ErrInvalid) || strings.Contains(err.Error(), "ret") {
				t.Errorf("%s: %v, want it to be refused without telling the password", name, err)
			}
			if storeScheme(name) != "" && strings.Contains(shownStore(name), "ret") {
				t.Errorf("%s is shown as %s", name, shownStore(name))
			}
			continue
		}
		if got := shownStore(name); err != nil || got != want {
			t.Errorf("%s: shown as %s, %v; want %s", name, got, err, want)
		}
	}
}

// telling is a store that hears of everything and may have anything.
type telling struct{ *inmem.Store }

func (telling) MayHave(justonce.Ref) bool { return true }

func (telling) Listen(ctx context.Context, changed func(justonce.Ref)) error {
	changed(justonce.Ref{Key: "k"})
	<-ctx.Done()
	return errors.New("its own")
}

// What a store can do beyond the ten methods passes through.
func TestOwnWorkPassesThrough(t *testing.T) {
	t.Parallel()
	hears := func(s justonce.Store) (heard bool, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var w any = newOwnWork(s)
		err = w.(justonce.Notifier).Listen(ctx, func(justonce.Ref) { heard = true })
		return heard, err
	}
	if heard, err := hears(telling{inmem.New(nil)}); !heard || err == nil {
		t.Errorf("of a store that tells: heard %v, %v", heard, err)
	}
	if heard, err := hears(inmem.New(nil)); heard || err != nil {
		t.Errorf("of a store that does not: heard %v, %v", heard, err)
	}
	if !newOwnWork(telling{inmem.New(nil)}).MayHave(justonce.Ref{}) || newOwnWork(inmem.New(nil)).MayHave(justonce.Ref{}) {
		t.Error("the guess is not the store's")
	}
}

// A ledger that the catalog names is the one that is meant, not a file that lies
// about.
func TestNamedStore(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("LEDGER_PASSWORD", "s3cret")
	named := func(flag, want string) {
		t.Helper()
		if got, err := namedStore(t.Context(), flag); err != nil || got != want {
			t.Errorf("%q names %q, %v, want %q", flag, got, err, want)
		}
	}
	named("", "justonce.db")
	if err := os.WriteFile("justonce.yaml", []byte("store: postgres://gw:${env:LEDGER_PASSWORD}@h/d\ntools: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	named("", "postgres://gw:s3cret@h/d")
	named("other.db", "other.db")
	t.Setenv("JUSTONCE_CONFIG", "")
	named("", "justonce.db")
	os.Unsetenv("JUSTONCE_CONFIG")
	named("redis://:${env:LEDGER_PASSWORD}@h/0", "redis://:s3cret@h/0")
	if err := os.WriteFile("justonce.yaml", []byte("store: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := namedStore(t.Context(), ""); err == nil {
		t.Error("a catalog that cannot be read names a ledger")
	}
}

// What is to be copied says where, and tells no secret.
func TestLedgerFlags(t *testing.T) {
	t.Parallel()
	for l, want := range map[ledger]string{
		{remote: remote{defaultURL}}:                                          "",
		{remote: remote{"http://h:1"}}:                                        " --url http://h:1",
		{remote: remote{defaultURL}, Store: "my ledger.db"}:                   " --store 'my ledger.db'",
		{remote: remote{defaultURL}, Store: "postgres://h/d"}:                 " --store postgres://h/d",
		{remote: remote{defaultURL}, Store: "postgres://ann:s3cret@h/d"}:      " --store …",
		{remote: remote{defaultURL}, Store: "postgres://h/d?password=s3cret"}: " --store …",
	} {
		if got := l.flags(); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}
