package main

import (
	"context"
	"errors"
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
		"rediss://:s3cret@h/1?prefix=p&db=2&accept_loss=second":            "rediss://h/1?db=2&prefix=p",
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
