package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// A route is one endpoint. The table is what the mux is built from and what
// the OpenAPI document is written from.
type route struct {
	method, path string
	handle       func(s *Server, w http.ResponseWriter, r *http.Request)
	doc          func(d *docs) *endpoint
}

// routes returns every endpoint, in the order of the document.
func routes() []route {
	return []route{
		{"POST", "/v1/tool-calls", (*Server).call, docCall},
		{"GET", "/v1/tool-calls", (*Server).list, docList},
		{"GET", "/v1/tool-calls/{key}", (*Server).get, docGet},
		{"GET", "/v1/tool-calls/{key}/history", (*Server).history, docHistory},
		{"POST", "/v1/tool-calls/{key}/resolve", (*Server).resolve, docResolve},
		{"POST", "/v1/tool-calls/{key}/redrive", (*Server).redrive, docRedrive},
		{"POST", "/v1/tool-calls/{key}/cancel", (*Server).cancel, docCancel},
		{"POST", "/v1/explain", (*Server).explain, docExplain},
		{"GET", "/v1/report", (*Server).report, docReport},
		{"GET", "/v1/tools", (*Server).tools, docTools},
		{"GET", "/healthz", (*Server).healthz, docHealthz},
		{"GET", "/readyz", (*Server).readyz, docReadyz},
		{"GET", "/metrics", (*Server).metricsPage, docMetrics},
		{"GET", "/openapi.json", (*Server).openAPIPage, docOpenAPI},
	}
}

func (s *Server) route() {
	type handler = func(*Server, http.ResponseWriter, *http.Request)
	paths := map[string]map[string]handler{}
	for _, rt := range routes() {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]handler{}
		}
		paths[rt.path][rt.method] = rt.handle
		if rt.method == "GET" {
			paths[rt.path]["HEAD"] = rt.handle
		}
	}
	for path, methods := range paths {
		var names []string
		for m := range methods {
			names = append(names, m)
		}
		slices.Sort(names)
		allow := []string{strings.Join(names, ", ")}
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if h := methods[r.Method]; h != nil {
				h(s, w, r)
				return
			}
			w.Header()["Allow"] = allow
			s.problem(w, problemOf(slugMethod, "this path takes "+allow[0]))
		})
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, problemOf(slugPath, ""))
	})
}
