package main

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
)

// defaultCatalog describes the sandbox's tools, with times that suit a trial.
//
//go:embed sandbox.yaml
var defaultCatalog []byte

// sandboxOf is how the sandbox of a server is reached.
type sandboxOf struct {
	sandboxURL      string       // "": none
	sandboxListener net.Listener // nil: it is another process
}

// load reads the catalog and fills in what neither flags nor environment said.
func (c *serveCmd) load() (*catalog.Catalog, error) {
	name := c.Config
	if name == "justonce.yaml" && !fileThere(name) {
		name = ""
	}
	var cat *catalog.Catalog
	var err error
	opts := &catalog.Options{Connectors: connectors(nil, c.servers), LookupEnv: c.lookupEnv}
	if name != "" {
		if cat, err = catalog.Load(name, opts); err != nil {
			return nil, catalogError(err)
		}
	}
	if err := c.fill(cat); err != nil {
		return nil, err
	}
	declared := cat != nil && len(cat.Servers()) > 0
	if cat != nil {
		tools, err := cat.Tools()
		if err != nil {
			return nil, err
		}
		declared = declared || len(tools) > 0
	}
	if err := c.startSandbox(!declared); err != nil {
		return nil, err
	}
	if declared && c.sandboxURL == "" {
		return cat, nil
	}
	if declared { // read once more, now that it is known where the sandbox is
		cat, err = catalog.Load(name, opts)
		return cat, catalogError(err)
	}
	if c.sandboxURL == "" {
		if cat == nil {
			return catalog.Parse("no catalog", []byte("tools: {}"), opts)
		}
		return cat, nil
	}
	return catalog.Parse("the sandbox's catalog", defaultCatalog, opts)
}

// lookupEnv is the environment, but for where the sandbox is.
func (c *serveCmd) lookupEnv(name string) (string, bool) {
	if name == "SANDBOX_URL" && c.sandboxURL != "" {
		return c.sandboxURL, true
	}
	return os.LookupEnv(name)
}

func (c *serveCmd) startSandbox(wanted bool) error {
	switch {
	case c.Sandbox == "off" || c.Sandbox == "false" || c.Sandbox == "" && !wanted:
		return nil
	case strings.HasPrefix(c.Sandbox, "http://") || strings.HasPrefix(c.Sandbox, "https://"):
		c.sandboxURL = strings.TrimRight(c.Sandbox, "/")
		return nil
	case c.Sandbox == "on" || c.Sandbox == "true" || c.Sandbox == "":
		ln, err := listen(c.SandboxListen, "--sandbox-listen")
		if err != nil {
			return hint(err, "another gateway's sandbox may be there: --sandbox http://%s shares it, --sandbox off does without", c.SandboxListen)
		}
		c.sandboxListener, c.sandboxURL = ln, "http://"+ln.Addr().String()
		return nil
	}
	return &justonce.InvalidError{Field: "--sandbox", Detail: "want on, off or a URL such as http://127.0.0.1:7412"}
}

// fill takes from the catalog what neither flags nor environment set, and from
// the defaults what the catalog does not set either.
func (c *serveCmd) fill(cat *catalog.Catalog) error {
	var bad error
	from := func(flag string, set bool, def string, parse func(string) error) {
		if set {
			return
		}
		v, source := def, "the default"
		if cat != nil {
			if s, ok := cat.Setting(flag); ok {
				v, source = s, c.Config
			}
		}
		if err := parse(v); err != nil && bad == nil {
			bad = fmt.Errorf("%s in %s: %w", flag, source, err)
		}
	}
	text := func(flag string, p *string, def string) {
		from(flag, *p != "", def, func(v string) error { *p = v; return nil })
	}
	number := func(flag string, p **int) {
		if *p == nil {
			*p = new(int)
			from(flag, false, "0", func(v string) (err error) { **p, err = strconv.Atoi(v); return })
		}
	}
	bytes := func(flag string, p **size) {
		if *p == nil {
			*p = new(size)
			from(flag, false, "0", func(v string) error { return (*p).UnmarshalText([]byte(v)) })
		}
	}
	span := func(flag string, p **time.Duration, def string) {
		if *p == nil {
			*p = new(time.Duration)
			from(flag, false, def, func(v string) (err error) { **p, err = time.ParseDuration(v); return })
		}
	}
	refuse := func(flag string, wrong bool, want string) {
		if wrong && bad == nil {
			bad = &justonce.InvalidError{Field: "--" + flag, Detail: "it must " + want}
		}
	}
	refuse("concurrency", c.Concurrency != nil && *c.Concurrency < 1, "be 1 or more")
	refuse("result-limit", c.ResultLimit != nil && *c.ResultLimit < 1, "be more than nothing")
	refuse("cache-bytes", c.CacheBytes != nil && *c.CacheBytes == 0, "not be 0; a negative size turns the cache off")
	refuse("poll", c.Poll != nil && *c.Poll <= 0, "be more than nothing")
	text("store", &c.Store, defaultStore)
	text("listen", &c.Listen, "127.0.0.1:7411")
	text("sandbox", &c.Sandbox, "")
	text("sandbox-listen", &c.SandboxListen, "127.0.0.1:7412")
	text("worker", &c.Worker, "")
	text("log-level", &c.LogLevel, "info")
	text("log-format", &c.LogFormat, "text")
	number("concurrency", &c.Concurrency)
	bytes("result-limit", &c.ResultLimit)
	bytes("cache-bytes", &c.CacheBytes)
	span("default-wait", &c.DefaultWait, "30s")
	span("poll", &c.Poll, "0s")
	return bad
}
