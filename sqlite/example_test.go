package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// An order and the mail that confirms it are committed together, in one file. A
// worker sends the mail afterwards, once.
func ExampleStore_EnqueueTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "justonce")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		panic(err)
	}
	defer store.Close()
	runner, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{{
		Name:     "confirm",
		Identity: []string{"/order_id"}, // an order is confirmed once
		Connector: justonce.Func(func(ctx context.Context, arguments json.RawMessage) (any, error) {
			fmt.Println("mail:", string(arguments))
			return map[string]string{"sent": "yes"}, nil
		}),
	}}})
	if err != nil {
		panic(err)
	}
	defer runner.Shutdown(ctx)

	mail, err := runner.Prepare(ctx, justonce.Call{Tool: "confirm", Arguments: json.RawMessage(`{"order_id":"o-1"}`)})
	if err != nil {
		panic(err)
	}
	err = store.InTx(ctx, func(tx *sqlite.Tx) error {
		if err := sqlitex.ExecuteScript(tx.Conn(), `
			CREATE TABLE IF NOT EXISTS shop_order (id TEXT PRIMARY KEY);
			INSERT INTO shop_order VALUES ('o-1');`, nil); err != nil {
			return err
		}
		_, err := store.EnqueueTx(ctx, tx, mail)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Mostly runner.Work does this, here or in another process.
	answer, err := runner.Wait(ctx, mail.Ref)
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.Operation.State, string(answer.Operation.Result))
	// Output:
	// mail: {"order_id":"o-1"}
	// succeeded {"sent":"yes"}
}

// An effect in the ledger's file itself needs no provider to be asked: it happens
// with its record or not at all.
func ExampleStore_DoTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "justonce")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		panic(err)
	}
	defer store.Close()
	tools := []*justonce.Tool{{
		Name:     "refund",
		Identity: []string{"/order_id"},
		Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			return nil, justonce.RejectedError(errors.New("refunds are booked by DoTx alone"))
		}),
	}}
	runner, err := justonce.New(store, &justonce.RunnerOptions{Tools: tools})
	if err != nil {
		panic(err)
	}
	err = store.InTx(ctx, func(tx *sqlite.Tx) error {
		return sqlitex.ExecuteScript(tx.Conn(), "CREATE TABLE shop_account (credit INTEGER); INSERT INTO shop_account VALUES (0);", nil)
	})
	if err != nil {
		panic(err)
	}

	for range 2 { // as an agent does that saw no answer
		refund, err := runner.Prepare(ctx, justonce.Call{Tool: "refund", Arguments: json.RawMessage(`{"order_id":"o-1","amount":20}`)})
		if err != nil {
			panic(err)
		}
		err = store.InTx(ctx, func(tx *sqlite.Tx) error {
			arrival, err := store.DoTx(ctx, tx, refund, func(_ context.Context, tx *sqlite.Tx) (json.RawMessage, error) {
				err := sqlitex.Execute(tx.Conn(), "UPDATE shop_account SET credit = credit + 20", nil)
				return json.RawMessage(`{"booked":20}`), err
			})
			if err == nil && !arrival.Fresh {
				fmt.Println("already done:", string(arrival.Operation.Result))
			}
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	err = store.InTx(ctx, func(tx *sqlite.Tx) error {
		credit, err := sqlitex.ResultInt(tx.Conn().Prep("SELECT credit FROM shop_account"))
		fmt.Println("credit:", credit)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// already done: {"booked":20}
	// credit: 20
}
