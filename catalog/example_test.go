package catalog_test

import (
	"fmt"

	"github.com/justonce-dev/justonce/catalog"
)

func ExampleCheck() {
	file := `
tools:
  create_order:
    effect: write
    idenity: [/order_id]
    lease: 100ms
    http:
      request:
        url: https://orders.example.com/v1/orders
`
	for _, f := range catalog.Check("justonce.yaml", []byte(file), nil) {
		fmt.Printf("%s: %s [%s]\n", f.Position, f.Message, f.Rule)
	}
	// Output:
	// justonce.yaml:3:3: it has no identity, so that a retry in other words is another call [identity-missing]
	// justonce.yaml:5:5: a tool has no field idenity [unknown-field]
	// justonce.yaml:6:5: the lease, 100ms, must be 1s or more [lease-short]
}
