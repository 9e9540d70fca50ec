// What the scripted models of all frameworks have in common: they open a ticket
// and, while they see no ticket in the answer, ask for the same again under a
// new call id, as a model does that reads of a timeout.
//
//   node FRAMEWORK.mjs --case ID [--title TEXT] [--calls N] [--timeout MS] [--release FILE]
//     (--url URL | -- COMMAND ARGS...)
//
// FILE is made once the model has seen a call end without a ticket, or once its
// next call is on its way where the client tells.
// One line of JSON goes to stdout:
//   {"framework", "calls", "tool_results": [text the model saw], "ticket": number or null, "final": text}
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

export function options() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      case: { type: "string" },
      title: { type: "string", default: "disk full" },
      calls: { type: "string", default: "3" },
      timeout: { type: "string", default: "1500" },
      release: { type: "string" },
      url: { type: "string" },
    },
  });
  if (!values.case || !values.url === !positionals.length) {
    console.error("give --case ID and either --url URL or -- COMMAND ARGS...");
    process.exit(2);
  }
  const [command, ...args] = positionals;
  return {
    url: values.url,
    command,
    args,
    timeout: Number(values.timeout), // ms for one call of a tool
    tool: "create_ticket",
    input: { title: values.title, case_id: values.case },
    calls: Number(values.calls),
    release: values.release,
  };
}

export class Script {
  constructor(framework, options) {
    Object.assign(this, { framework, options, made: 0, seen: [] });
  }

  // next takes the tool results the model has been shown so far, as text, and
  // says what it does: {call: {id, name, input}} or {final: text}.
  next(seen) {
    this.seen = seen;
    if (this.ticket() !== null) return { final: `ticket ${this.ticket()} is open` };
    if (seen.length > 0 && !this.tellsOfCalls) this.release();
    if (this.made >= this.options.calls) return { final: "gave up" };
    this.made++;
    const id = `call_${Math.random().toString(36).slice(2)}`; // never the same, as with real models
    return { call: { id, name: this.options.tool, input: this.options.input } };
  }

  // called is for clients that tell when a call of theirs is on its way.
  called() {
    if (this.seen.length > 0) this.release();
  }

  release() {
    if (this.options.release) writeFileSync(this.options.release, "");
  }

  ticket() {
    const m = /\bticket\\?"?:? ?(\d+)/.exec(this.seen.at(-1) ?? "");
    return m ? Number(m[1]) : null;
  }

  print(final) {
    const { framework, made, seen } = this;
    console.log(JSON.stringify({ framework, calls: made, tool_results: seen, ticket: this.ticket(), final }));
  }
}

export const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));
