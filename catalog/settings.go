package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Settings are the server's part of the file: each is also a flag of justonce
// serve and an environment variable, which both come before the file. The zero
// value of a field means that the file does not set it.
type Settings struct {
	// Store is the ledger: the path of a SQLite file, or a URL. Defaults to a
	// file in the working directory. References such as ${env:NAME} are kept as
	// they are, for [Secrets.Expand].
	Store string `json:"store"`
	// Listen is the address of the gateway. Defaults to 127.0.0.1:7411.
	Listen string `json:"listen"`
	// LogLevel is debug, info, warn or error. Defaults to info.
	LogLevel string `json:"log_level"`
	// LogFormat is text or json. Defaults to text.
	LogFormat string `json:"log_format"`
	// Concurrency bounds the attempts that nobody waits for. Defaults to 256.
	Concurrency int `json:"concurrency"`
	// ResultLimit is the greatest result kept whole, in bytes. Defaults to 1 MiB.
	ResultLimit int64 `json:"result_limit"`
	// CacheBytes bounds the memory for replaying results. Defaults to 8 MiB.
	CacheBytes int64 `json:"cache_bytes"`
	// DefaultWait is how long a call waits that does not say, in whole seconds up
	// to 60s. Defaults to 30s.
	DefaultWait time.Duration `json:"default_wait"`
	// Poll is how often the worker looks for what is due. Defaults to 500ms.
	Poll time.Duration `json:"poll"`
	// Worker names the process in histories. Defaults to host and pid.
	Worker string `json:"worker"`
	// Sandbox is on, off, or the URL of a sandbox provider that runs already; true
	// and false are on and off. Defaults to on if the file declares no tools.
	Sandbox string `json:"sandbox"`
	// SandboxListen is the address of the sandbox. Defaults to 127.0.0.1:7412.
	SandboxListen string `json:"sandbox_listen"`
}

// settingNames are the keys of Settings.
func settingNames() []string {
	var names []string
	for name := range fieldsOf(reflect.TypeFor[Settings]()) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Setting returns a setting as text by the name of its flag (default-wait, or
// default_wait), and whether the file sets it: durations as Go writes them,
// sizes in bytes.
func (c *Catalog) Setting(flag string) (string, bool) {
	name := strings.ReplaceAll(flag, "-", "_")
	if !c.set[name] {
		return "", false
	}
	v := reflect.ValueOf(c.Settings).FieldByIndex(fieldsOf(reflect.TypeFor[Settings]())[name])
	return fmt.Sprint(reflect.Indirect(v).Interface()), true
}

func (c *Catalog) readSettings(root *node, d *decoder) {
	part := &node{kind: kindMap, at: root.at}
	c.set = map[string]bool{}
	names := settingNames()
	for _, m := range root.members {
		if slices.Contains(names, m.name) && m.value.kind != kindNull {
			c.set[m.name] = true
			if m.name == "sandbox" && m.value.kind == kindBool {
				word := *m.value
				word.kind, word.text = kindText, map[string]string{"true": "on", "false": "off"}[m.value.text]
				m.value = &word
			}
			part.members = append(part.members, m)
		}
	}
	d.decode(part, reflect.ValueOf(&c.Settings).Elem(), "the file")
	check := func(name string, ok bool, format string, a ...any) {
		m := root.member(name)
		if m == nil || !c.set[name] || ok {
			return
		}
		found := func(f Finding) bool { return f.Position == m.value.at } // it has the wrong type
		if !slices.ContainsFunc(d.findings.list, found) {
			d.bad(m.value, "%s: %s", name, fmt.Sprintf(format, a...))
		}
	}
	s := &c.Settings
	check("log_level", slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel), "it must be debug, info, warn or error")
	check("log_format", slices.Contains([]string{"text", "json"}, s.LogFormat), "it must be text or json")
	check("sandbox", s.Sandbox == "on" || s.Sandbox == "off" || strings.HasPrefix(s.Sandbox, "http://") || strings.HasPrefix(s.Sandbox, "https://"), "it must be on, off or a URL")
	check("concurrency", s.Concurrency > 0, "it must be 1 or more")
	check("result_limit", s.ResultLimit > 0, "it must be more than nothing")
	check("cache_bytes", s.CacheBytes != 0, "it must not be 0; a negative size turns the cache off")
	check("poll", s.Poll > 0, "it must be more than nothing")
}
