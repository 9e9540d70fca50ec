package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// An order and the mail that confirms it are committed together. A worker sends
// the mail afterwards, once.
func ExampleStore_EnqueueTx() {
	ctx := context.Background()
	dsn := databaseURL() // such as postgres://app@db.internal/shop
	store, err := postgres.Open(ctx, dsn, &postgres.Options{Schema: "enqueue_example"})
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
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		panic(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "CREATE TEMPORARY TABLE orders (id text PRIMARY KEY)"); err != nil {
		panic(err)
	}

	mail, err := runner.Prepare(ctx, justonce.Call{Tool: "confirm", Arguments: json.RawMessage(`{"order_id":"o-1"}`)})
	if err != nil {
		panic(err)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ('o-1')"); err != nil {
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

// An effect in the database itself needs no provider to be asked: it happens
// with its record or not at all.
func ExampleStore_DoTx() {
	ctx := context.Background()
	dsn := databaseURL() // such as postgres://app@db.internal/shop
	store, err := postgres.Open(ctx, dsn, &postgres.Options{Schema: "do_example"})
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
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		panic(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "CREATE TEMPORARY TABLE account (credit int); INSERT INTO account VALUES (0)"); err != nil {
		panic(err)
	}

	for range 2 { // as an agent does that saw no answer
		refund, err := runner.Prepare(ctx, justonce.Call{Tool: "refund", Arguments: json.RawMessage(`{"order_id":"o-1","amount":20}`)})
		if err != nil {
			panic(err)
		}
		err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			arrival, err := store.DoTx(ctx, tx, refund, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
				_, err := tx.Exec(ctx, "UPDATE account SET credit = credit + 20")
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
	var credit int
	if err := db.QueryRow(ctx, "SELECT credit FROM account").Scan(&credit); err != nil {
		panic(err)
	}
	fmt.Println("credit:", credit)
	// Output:
	// already done: {"booked":20}
	// credit: 20
}
