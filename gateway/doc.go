// Package gateway serves a [justonce.Service] over HTTP, and is one over HTTP.
//
// [Server] is an [http.Handler] in front of a Runner, or of any other Service.
// [Client] is a Service that talks to a Server: whatever is built on the
// interface works with either.
//
//	metrics := gateway.NewMetrics()
//	runner, err := justonce.New(store, &justonce.RunnerOptions{Observer: metrics.Observer(), …})
//	server := gateway.NewServer(runner, &gateway.Options{Metrics: metrics})
//	err = server.ListenAndServe(ctx, "127.0.0.1:7411") // until ctx ends
//	err = runner.Shutdown(graceful)                    // then the attempts under way
//	err = store.Close()                                // then the ledger
//
// # Calls
//
// POST /v1/tool-calls takes
//
//	{"name": "charge", "arguments": {"order_id": "1"}, "scope": "…", "run_id": "…", "intent_seq": 1}
//
// where all but name may be left out. The header Idempotency-Key names the
// intent, bare or as a structured-field string: abc and "abc" are one key. The
// header Prefer says how many seconds to wait for the end; wait=0 and
// respond-async record the call and return at once. Without it the server waits
// for Options.DefaultWait.
//
// The status tells how far things are, the body tells what happened:
//
//	200  ended: succeeded, or failed with proof that nothing happened
//	202  not ended: open, or in review, where a person decides. Location is
//	     where to ask, Retry-After when
//
// Tools that only read, or are idempotent by themselves, are not recorded: their
// answers have no key, they run as long as the caller waits, and do not go on
// after that.
//
// Everything else is a problem (RFC 9457): the call was not carried out. Its
// type is stable, detail says what was wrong, hint and advice what to do.
// A result is passed on byte for byte as recorded, in the first answer and in
// every replay; replays have the header Idempotent-Replayed: true as well as
// the member replayed.
//
// # Access
//
// There is no access control yet. [Listen] and [Server.Serve] take loopback
// addresses only, and requests that name another host, or come from a page of
// another origin, are refused, so that a browser on the same machine is no way
// in.
package gateway
