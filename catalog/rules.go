package catalog

// A Rule is something that a catalog is checked for.
type Rule struct {
	ID       string
	Severity Severity
	Summary  string // one sentence
}

// Rules returns all rules, those that make a catalog unusable first.
func Rules() []Rule { return append([]Rule(nil), rules...) }

var rules = []Rule{
	{"yaml", SeverityError, "The file is not YAML, says something twice, or is larger or nested deeper than any catalog needs to be."},
	{"unknown-field", SeverityError, "A field is not known, perhaps misspelt."},
	{"value", SeverityError, "A value has the wrong type, is out of range or is malformed."},
	{"preset-unknown", SeverityError, "There is no preset of that name."},
	{"schema-invalid", SeverityError, "The arguments' schema cannot be read, is no JSON Schema, or refers to another document."},
	{"connector", SeverityError, "A tool has no connector or more than one, or the connector cannot be made of its block."},
	{"server", SeverityError, "An MCP server has both a command and a url, or a field that fits the other of them only."},
	{"server-unknown", SeverityError, "A tool with the block mcp is of a server that is not declared."},
	{"secret-literal", SeverityError, "A secret is written out in the file."},
	{"env-address", SeverityError, "An address begins with an environment variable that is not set."},
	{"identity-ignored", SeverityError, "An identifying argument is ignored, so that every call would be refused."},
	{"lease-short", SeverityError, "The lease is shorter than a second, so that an attempt could be taken for dead while it runs."},
	{"window-margin", SeverityError, "The window is not longer than its margin, so that a key would never be sent again."},
	{"lookup-needed", SeverityError, "The tool counts on asking afterwards, as capability reference or list, fallback or long_running, but its connector has no lookup."},
	{"lookup-unbound", SeverityError, "Nothing in the lookup is about the operation, so that anybody's effect would make a lost one succeed."},
	{"argument-impossible", SeverityError, "A template or expression refers to an argument that the schema does not let in."},

	{"identity-missing", SeverityWarning, "A write has no identity: duplicates are told by all arguments, so that any rephrasing makes a second effect."},
	{"identity-unknown", SeverityWarning, "An identifying argument is not in the schema."},
	{"identity-optional", SeverityWarning, "An identifying argument is not required by the schema, although calls that lack it are refused."},
	{"identity-volatile", SeverityWarning, "An identifying argument looks as if it changed from try to try."},
	{"identity-useless", SeverityWarning, "A tool that is not recorded declares an identity, which counts for nothing."},
	{"argument-volatile", SeverityWarning, "An argument that looks as if it changed from try to try is not ignored, so that a retry looks like another call."},
	{"pointer-unknown", SeverityWarning, "An argument that is ignored or compared in a special way is not in the schema."},
	{"argument-unknown", SeverityWarning, "A template or expression refers to an argument that is not in the schema."},
	{"schema-object", SeverityWarning, "The schema does not say that the arguments are an object, as callers expect."},
	{"dedupe-short", SeverityWarning, "Derived keys are forgotten before the last possible attempt or lookup."},
	{"window-missing", SeverityWarning, "The provider honours keys, but how long it remembers them is not declared."},
	{"window-short", SeverityWarning, "The provider may forget the key before the last possible attempt."},
	{"key-unused", SeverityWarning, "The connector sends the wire key as the provider's idempotency key, but the capability is not key."},
	{"lookup-unused", SeverityWarning, "The connector could ask afterwards, but neither capability nor fallback lets it."},
	{"lookup-vague", SeverityWarning, "The lookup tells the operation's effect only by its time, run or scope, so that another's would be taken for it."},
	{"lookup-unsent", SeverityWarning, "The lookup asks for a key that the request does not send, so that nothing is ever found."},
	{"list-unbounded", SeverityWarning, "Recent effects are matched by fields without a bound in time, so that an older one may be taken for this one."},
	{"money-fallback", SeverityWarning, "A tool that moves money has nothing left to ask once the key's window has passed."},
	{"money-retry-absent", SeverityWarning, "A tool that moves money is sent again when a list shows no match, and lists lag."},
	{"wire-key-raw", SeverityWarning, "The raw key, of up to 255 characters, is sent where the provider takes fewer."},
	{"server-nowhere", SeverityWarning, "An MCP server has neither a command nor a url, so that it is for justonce mcp alone, with a command of its own."},
	{"no-tools", SeverityWarning, "The file declares neither tools nor MCP servers, and no sandbox either."},
	{"secret-missing", SeverityWarning, "A secret that the file refers to cannot be had where the check runs."},
}

func severityOf(id string) Severity {
	for _, r := range rules {
		if r.ID == id {
			return r.Severity
		}
	}
	panic("no rule " + id) // of this package's own calls
}

func warningIDs() []string {
	var ids []string
	for _, r := range rules {
		if r.Severity == SeverityWarning {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
