package justonce_test

import (
	"context"
	"fmt"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

type Order struct {
	ID     string `json:"order_id"`
	Amount int    `json:"amount"`
}

type Receipt struct {
	Charge string `json:"charge"`
}

// One func, called twice for one order: one effect, the same receipt.
func ExampleWrap() {
	runner, err := justonce.New(inmem.New(nil), nil)
	if err != nil {
		panic(err)
	}
	effects := 0
	charge, err := justonce.Wrap(runner, &justonce.Tool{
		Name:     "charge",
		Identity: []string{"/order_id"},                       // one order is charged once
		Policy:   justonce.Policy{Capability: justonce.ByKey}, // the provider honours a key
	}, func(ctx context.Context, o Order) (Receipt, error) {
		effects++ // here the card is charged, with justonce.WireKey(ctx) as idempotency key
		return Receipt{Charge: fmt.Sprintf("ch_%d for %s", effects, o.ID)}, nil
	})
	if err != nil {
		panic(err)
	}
	for range 2 {
		receipt, err := charge(context.Background(), Order{ID: "123", Amount: 9900})
		fmt.Println(receipt.Charge, err)
	}
	fmt.Println("effects:", effects)
	// Output:
	// ch_1 for 123 <nil>
	// ch_1 for 123 <nil>
	// effects: 1
}
