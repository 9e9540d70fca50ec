package sandbox

import (
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageHTML string

// parsedPage is read only.
var parsedPage = template.Must(template.New("page").Parse(pageHTML))

const (
	pageEffects = 20
	pageRepeats = 10
)

type page struct {
	Total, Repeats int
	Services       []pageService
	Repeated       []pageEffect // newest first
	Latest         []pageEffect // newest first
	Armed          []pageFault
	Fired          []pageFired
	Seed           uint64
	Journal        string
	Now            string
}

type pageService struct {
	Name, Path, Help string
	Count            int
}

type pageEffect struct {
	Effect
	Clock string
	What  string // the members that tell intents apart
}

type pageFault struct {
	Armed
	Where, Left, Chance, Match string
}

type pageFired struct {
	Kind  Kind
	Count int
}

// help says what each service offers against duplicates, in the order of services.
var help = [len(services)]string{
	"level 1 · idempotency key",
	"level 2 · unique external_id",
	"level 3 · recent list",
	"level 4 · nothing",
	"long-running",
}

func (p *Provider) page() page {
	t := p.tally
	t.mu.Lock()
	v, counts, repeats := t.viewLocked(), t.counts, t.repeats
	t.mu.Unlock()

	out := page{Total: len(v.entries), Repeats: len(repeats), Seed: p.opt.Seed, Journal: p.opt.Journal,
		Now: p.opt.Now().UTC().Format("2006-01-02 15:04:05 UTC")}
	for i := range services {
		out.Services = append(out.Services, pageService{services[i].name, services[i].path, help[i], counts[i]})
	}
	for i := len(repeats) - 1; i >= max(0, len(repeats)-pageRepeats); i-- {
		out.Repeated = append(out.Repeated, v.pageEffect(int(repeats[i])))
	}
	for i := len(v.entries) - 1; i >= max(0, len(v.entries)-pageEffects); i-- {
		out.Latest = append(out.Latest, v.pageEffect(i))
	}
	for _, a := range p.Faults() {
		out.Armed = append(out.Armed, newPageFault(a))
	}
	for kind, n := range p.Fired() {
		out.Fired = append(out.Fired, pageFired{kind, n})
	}
	slices.SortFunc(out.Fired, func(a, b pageFired) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	return out
}

func (v view) pageEffect(i int) pageEffect {
	e := v.effect(i)
	var what []string
	for _, name := range services[v.entries[i].service].marker {
		if text, ok := e.Field(name); ok {
			if runes := []rune(text); len(runes) > 60 {
				text = string(runes[:60]) + "…"
			}
			what = append(what, text)
		}
	}
	return pageEffect{e, e.Time.Format("15:04:05.000"), strings.Join(what, " · ")}
}

func newPageFault(a Armed) pageFault {
	f := pageFault{Armed: a, Where: a.Fault.Service, Left: strconv.Itoa(a.Left) + " left", Chance: "always"}
	if f.Where == "" {
		f.Where = "any service"
	}
	if a.Left < 0 {
		f.Left = "for ever"
	}
	if a.Fault.Probability < 1 {
		f.Chance = strconv.FormatFloat(100*a.Fault.Probability, 'g', 3, 64) + " %"
	}
	var match []string
	for name, text := range a.Fault.Match {
		match = append(match, name+"="+text)
	}
	slices.Sort(match)
	if a.Fault.Delay > 0 {
		match = append(match, "delay "+a.Fault.Delay.Round(time.Millisecond).String())
	}
	f.Match = strings.Join(match, ", ")
	return f
}

func (p *Provider) servePage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Cache-Control", "no-store")
	parsedPage.Execute(w, p.page()) // fails only when the reader is gone
}
