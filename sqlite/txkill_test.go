package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
)

const killedOrders = 200

// childOrders makes the same orders whenever it runs, with a mail each, and
// tells after each commit, until it is killed or done.
func childOrders(path string) {
	s := childOpen(path)
	var mu sync.Mutex
	var wg sync.WaitGroup
	say := func(what ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what...)
	}
	const callers = 4
	for c := range callers {
		wg.Go(func() {
			for i := c; i < killedOrders; i += callers {
				key := fmt.Sprintf("o-%03d", i)
				err := s.InTx(context.Background(), func(tx *sqlite.Tx) error {
					if _, err := doTx(s, tx, key, nil); err != nil {
						return err
					}
					_, err := s.EnqueueTx(context.Background(), tx, pendingOp(key+"-mail"))
					return err
				})
				if err != nil {
					say("error", err)
				}
				say("done", key)
			}
		})
	}
	wg.Wait()
}

// Whenever the process dies, an order, its operation and its mail are all there
// or none is. Who repeats them all has each once.
func TestTxKilled(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	var all []string
	for i := range killedOrders {
		all = append(all, fmt.Sprintf("o-%03d", i))
	}
	acknowledged := map[string]bool{}
	for _, kill := range []int{20, 70, 130, 0} {
		cmd, _, out := child(t, "orders", path)
		for n := 1; out.Scan(); n++ {
			what, key, _ := strings.Cut(out.Text(), " ")
			if what != "done" {
				t.Fatalf("child: %s", out.Text())
			}
			acknowledged[key] = true
			if n == kill {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait()
		var there []string
		for _, key := range all {
			order, orderErr := s.Get(t.Context(), justonce.Ref{Key: key})
			_, mailErr := s.Get(t.Context(), justonce.Ref{Key: key + "-mail"})
			switch {
			case orderErr == nil && mailErr == nil && order.State == justonce.Succeeded:
				there = append(there, key)
			case orderErr == nil || mailErr == nil:
				t.Errorf("%s is there in part: %+v, %v, its mail %v", key, order, orderErr, mailErr)
			case acknowledged[key]:
				t.Errorf("%s was acknowledged: %v", key, orderErr)
			}
		}
		wantRows(t, path, there...)
		if kill == 0 && !slices.Equal(there, all) {
			t.Errorf("%d orders are there in the end, want %d", len(there), len(all))
		}
		wantIntact(t, s, 2*int64(len(there)))
		wantIntegrity(t, path)
	}
}

// childInside waits inside a transaction until it is killed.
func childInside(path string) {
	s := childOpen(path)
	err := s.InTx(context.Background(), func(tx *sqlite.Tx) error {
		if _, err := doTx(s, tx, "k", nil); err != nil {
			return err
		}
		if _, err := s.EnqueueTx(context.Background(), tx, pendingOp("mail")); err != nil {
			return err
		}
		fmt.Println("inside")
		select {}
	})
	fmt.Fprintln(os.Stderr, "child:", err)
}

func TestKilledInTx(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	cmd, _, out := child(t, "inside", path)
	if !out.Scan() || out.Text() != "inside" {
		t.Fatalf("child says %q", out.Text())
	}
	wantAbsent(t, s, "k", "mail")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	wantAbsent(t, s, "k", "mail")
	wantRows(t, path)
	// Nobody is in the way of the next ones.
	begin(t, s, "mail")
	inTx(t, s, func(tx *sqlite.Tx) error { _, err := doTx(s, tx, "k", nil); return err })
	wantRows(t, path, "k")
	wantIntegrity(t, path)
}
