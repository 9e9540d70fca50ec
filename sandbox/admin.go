package sandbox

import (
	"bufio"
	"net/http"
	"strconv"
)

// serveEffects streams all effects, or those of a service, or those after a sequence number.
func (p *Provider) serveEffects(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("service")
	if bad := checkService(name); bad != nil {
		sendError(w, bad)
		return
	}
	number := func(key string, otherwise int64) (int64, bool) {
		if !q.Has(key) {
			return otherwise, true
		}
		n, err := strconv.ParseInt(q.Get(key), 10, 64)
		return n, err == nil && n >= 0
	}
	after, ok1 := number("after", 0)
	v := p.tally.view()
	limit, ok2 := number("limit", int64(len(v.entries)))
	if !ok1 || !ok2 {
		sendError(w, errorf(http.StatusBadRequest, "invalid_request_error", "parameter_invalid", "after and limit must be whole numbers."))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(`{"effects":[`)
	separator := "\n"
	for i := int(min(max(0, after-v.base), int64(len(v.entries)))); i < len(v.entries) && limit > 0; i++ {
		if name != "" && services[v.entries[i].service].name != name {
			continue
		}
		limit--
		out.WriteString(separator)
		separator = ",\n"
		if _, err := out.Write(encode(v.effect(i))); err != nil {
			return
		}
	}
	out.WriteString("\n]}\n")
	out.Flush()
}

func (p *Provider) serveReset(w http.ResponseWriter, r *http.Request) {
	if err := p.Reset(); err != nil {
		sendError(w, err.(*Error))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveCount counts per service, or for one service, or for given values of members of the intent.
func (p *Provider) serveCount(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("service")
	if bad := checkService(name); bad != nil {
		sendError(w, bad)
		return
	}
	q.Del("service")
	if len(q) == 0 && name != "" {
		sendJSON(w, http.StatusOK, map[string]any{"count": p.Count(name), "service": name})
		return
	}
	per, sum := map[string]int{}, 0
	for i, n := range p.counts(q) {
		if s := services[i].name; name == "" || s == name {
			per[s] = n
			sum += n
		}
	}
	sendJSON(w, http.StatusOK, map[string]any{"count": sum, "services": per})
}

func (p *Provider) counts(members map[string][]string) [len(services)]int {
	if len(members) == 0 {
		return p.tally.countAll()
	}
	var counts [len(services)]int
	v := p.tally.view()
next:
	for i := range v.entries {
		for name, values := range members {
			if text, ok := member([]byte(v.entries[i].intent), name); !ok || text != values[0] {
				continue next
			}
		}
		counts[v.entries[i].service]++
	}
	return counts
}

func (p *Provider) serveGroups(w http.ResponseWriter, r *http.Request) {
	by := r.URL.Query().Get("by")
	if by == "" {
		sendError(w, errorf(http.StatusBadRequest, "invalid_request_error", "parameter_missing",
			"by is required: a member of the request body, or several joined by commas."))
		return
	}
	least := 1
	if r.URL.Path == "/effects/duplicates" {
		least = 2
	}
	all := atLeast(p.Groups(by), least)
	if all == nil {
		all = []Group{}
	}
	sendJSON(w, http.StatusOK, map[string]any{"by": by, "groups": all})
}

func (p *Provider) serveFaults(w http.ResponseWriter, r *http.Request) {
	sendJSON(w, http.StatusOK, map[string]any{"faults": p.Faults(), "fired": p.Fired(), "seed": p.opt.Seed})
}

func (p *Provider) serveInject(w http.ResponseWriter, r *http.Request) {
	f, bad := readFault(http.MaxBytesReader(w, r.Body, maxBody))
	if bad == nil {
		if err := p.Inject(f); err != nil {
			bad = err.(*Error)
		}
	}
	if bad != nil {
		sendError(w, bad)
		return
	}
	f, _ = f.normal()
	sendJSON(w, http.StatusCreated, f)
}

func (p *Provider) serveDisarm(w http.ResponseWriter, r *http.Request) {
	p.Disarm()
	w.WriteHeader(http.StatusNoContent)
}
