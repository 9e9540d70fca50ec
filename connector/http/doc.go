// Package httpconn makes a tool of an HTTP API by declaration: a request built
// from templates, and CEL expressions that say what an answer proves.
//
// # What a send proves
//
// A send that fails before any byte of the request was given to the network
// (name resolution, connecting, TLS) is not executed. After that it is unknown
// unless an answer was read to its end. Nothing beneath repeats a request:
// redirects are not followed, HTTP/2 is not spoken, net/http's own replay on
// dead kept-alive connections is switched off.
//
// # Templates
//
// A string of a [Request] is a template: ${…} holds a CEL expression,
// ${secret:name} a secret, $${ stands for ${. The variables are args, wire_key,
// key, tool, scope, run_id and first_sent; there is none that changes from
// attempt to attempt. uuid(wire_key) gives the wire key in the shape of a UUID.
// What may be absent is written args.?note.
//
// # Answers
//
// The expressions of an [Answer] also have status, headers (a map, names in
// lower case), text (the body) and body (the body's JSON; an answer without a
// body has null). Start a condition with the status: an expression that fails,
// as body.id does where there is no id, makes the outcome unknown.
//
// Numbers keep their digits: integers up to 64 bits are exact in expressions,
// and any number that is only passed on keeps all its digits.
package httpconn
