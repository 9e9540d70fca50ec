package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/justonce-dev/justonce/sandbox"
)

// A reply is lost, the client tries again without a key, and the money has moved twice.
func Example() {
	provider, err := sandbox.New(nil)
	if err != nil {
		panic(err)
	}
	defer provider.Close()
	server := httptest.NewServer(provider)
	defer server.Close()

	provider.Inject(sandbox.Fault{Service: sandbox.Payment, Kind: sandbox.LostReply})
	for range 2 {
		body := strings.NewReader(`{"amount":500,"currency":"EUR","order_id":"A-1"}`)
		resp, err := http.Post(server.URL+"/payments", "application/json", body)
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	for _, group := range provider.Duplicates("order_id") {
		fmt.Println(group.Service, group.Values, "executed", group.Count, "times")
	}
	// Output:
	// no answer
	// 201 Created
	// payment [A-1] executed 2 times
}
