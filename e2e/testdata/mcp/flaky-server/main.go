// Command flaky-server is an MCP server with a ticket system that loses answers
// on demand. It repeats whatever it is asked: no keys, no memory of requests.
//
//	flaky-server -journal FILE [-faults DIR] [-http ADDR]
//
// It speaks 2025-11-25 (initialize) and 2026-07-28 (stateless) over stdio, or
// over Streamable HTTP at http://ADDR/mcp when -http is given; /healthz answers
// 200 once it serves. What it did stands in the journal, a JSON object a line,
// synced before anything is answered.
//
// The next call of create_ticket or append_note takes the first file in DIR, by
// name, and behaves as its extension says:
//
//	.drop   do the work, never answer (stdio) or close the connection (HTTP)
//	.exit   do the work and exit 1 without an answer
//	.wait   do the work and answer once NAME.go (for NAME.wait) exists
//	.lose   like .drop, without the work
//	.fail   answer with an error result, without the work
//
// The file is removed before the work: a server started again does not meet the
// same fault twice.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func main() {
	journal := flag.String("journal", "", "`file` that gets a line for everything done (required)")
	faults := flag.String("faults", "", "`folder` with faults to come")
	addr := flag.String("http", "", "serve Streamable HTTP at this `address` in place of stdio")
	flag.Parse()
	if *journal == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "flaky-server: -journal FILE is required; other arguments are not")
		os.Exit(2)
	}
	s := &server{journal: *journal, faults: *faults}
	var err error
	if *addr != "" {
		err = s.serveHTTP(*addr)
	} else {
		err = s.serveStdio(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky-server:", err)
		os.Exit(1)
	}
}

// serveStdio answers lines until r ends. Calls run at the same time.
func (s *server) serveStdio(r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel() // releases those that wait
	var mu sync.Mutex
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			calls.Go(func() {
				answer, err := s.handle(ctx, line)
				if errors.Is(err, errDropped) || answer == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				w.Write(append(answer, '\n'))
			})
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// serveHTTP serves until the process is killed.
func (s *server) serveHTTP(addr string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// A client that went away is no reason to stop halfway.
		answer, err := s.handle(context.WithoutCancel(r.Context()), body)
		switch {
		case errors.Is(err, errDropped):
			panic(http.ErrAbortHandler) // closes the connection
		case answer == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Write(answer)
		}
	})
	return http.ListenAndServe(addr, mux)
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta            map[string]json.RawMessage `json:"_meta"`
		ProtocolVersion string                     `json:"protocolVersion"`
		Name            string                     `json:"name"`
		Arguments       map[string]any             `json:"arguments"`
	} `json:"params"`
}

// stateless tells the revision of 2026-07-28, whose results say more.
func (r *request) stateless() bool {
	_, ok := r.Params.Meta["io.modelcontextprotocol/protocolVersion"]
	return ok
}
