package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

// A gateway and a client of it: the second call is answered with what the first
// one did.
func Example() {
	metrics := gateway.NewMetrics()
	runner, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{
		Observer: metrics.Observer(),
		Tools: []*justonce.Tool{{
			Name:     "charge",
			Identity: []string{"/order_id"},
			Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
				return map[string]string{"charge": "ch_1"}, nil
			}),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() {
		served <- gateway.NewServer(runner, &gateway.Options{Metrics: metrics}).Serve(ctx, listener)
	}()

	client, err := gateway.NewClient("http://"+listener.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		a, err := client.Do(ctx, justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"order_id":"123"}`)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.Operation.State, string(a.Operation.Result), "replayed:", a.Replayed)
	}

	stop() // the order of an ordinary stop
	fmt.Println(<-served)
	fmt.Println(runner.Shutdown(context.Background()))
	// Output:
	// succeeded {"charge":"ch_1"} replayed: false
	// succeeded {"charge":"ch_1"} replayed: true
	// <nil>
	// <nil>
}
