// Package mcpproxy stands between MCP clients and an MCP server. What passes
// through stays as its sender wrote it, but for one thing: a tools/call that has
// an effect becomes an operation of the ledger, so that however often it is
// sent again, by a framework, a model or a person, its effect happens once.
//
// A [Server] decides about calls. Its fronts speak to clients:
// [Server.ServeStdio] over standard input and output, [Server.Handler] over
// Streamable HTTP.
//
// # Same call or a new one
//
// Clients give a repeated call a new id and nothing in common with the first.
// For tools that nobody described, equal arguments are the same call until the
// answer has reached the client; after that an equal call is meant, and runs.
// Declared tools with an identity, or with dedupe strict, keep one effect for
// their dedupe_for, whatever was delivered.
//
// # What counts as delivered
//
// Over stdio: the answer was written as a whole, and (on Linux) the client has
// taken all of it out of the pipe or socket. Over HTTP: the response was written
// as a whole, and the connection was then used again or stayed open for a
// moment, with nothing of the response unacknowledged (Linux). A client that took
// the bytes and dropped them unseen, say after a timeout that it told nobody of,
// cannot be told from one that read them.
package mcpproxy
