package canon_test

import (
	"fmt"

	"github.com/justonce-dev/justonce/internal/canon"
)

func ExampleAppend() {
	o := &canon.Options{Ignore: []canon.Pointer{{"trace_id"}}}
	a, _ := canon.Append(nil, []byte(`{"orderId": "o-1", "amount": 99.00, "trace_id": "4bf9"}`), o)
	b, _ := canon.Append(nil, []byte(`{"amount": 9.9e1, "orderId": "\u006f-1"}`), o)
	fmt.Println(string(a))
	fmt.Println(string(b))
	// Output:
	// {"amount":99,"orderId":"o-1"}
	// {"amount":99,"orderId":"o-1"}
}

func ExampleDiff() {
	diff, _ := canon.Diff(
		[]byte(`{"orderId": "o-1", "items": [{"sku": "a", "n": 1}]}`),
		[]byte(`{"orderId": "o-1", "items": [{"sku": "a", "n": 2}], "note": "x"}`), nil)
	fmt.Println(diff)
	// Output: [/items/0/n /note]
}
