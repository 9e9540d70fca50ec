// Package justonce makes the side effects of AI agents safe to retry.
//
// An agent charges a card, sends a mail, opens a ticket; the reply is lost;
// something retries. A [Runner] sits on the last deterministic step before the
// effect: each intent becomes one [Operation] with a stable key in a durable
// [Store]; a duplicate gets the recorded result; an outcome that nobody knows
// is looked up at the provider before anything is sent again; and where
// nothing can be known, a person decides.
//
//	runner, err := justonce.New(store, nil)
//	charge, err := justonce.Wrap(runner, &justonce.Tool{
//		Name:     "charge",
//		Identity: []string{"/order_id"},
//	}, chargeCard)
//	receipt, err := charge(ctx, Order{ID: "123", Amount: 9900}) // charges
//	receipt, err = charge(ctx, Order{ID: "123", Amount: 9900})  // replays
//
// The heart is [Transition], one pure function that holds the whole state
// table. Stores persist what it decides and know no rules of their own;
// connectors say what happened and silence means unknown.
//
// The packages sqlite and inmem are stores, connector/http and connector/smtp
// reach providers, catalog reads tools from a file, and gateway serves it all
// over HTTP.
//
// # Compatibility
//
// Until version 1 the Go API may change between minor versions; the ledger
// may not: records, keys and fingerprints written by one version are read by
// every later one.
package justonce
