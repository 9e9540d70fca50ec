// OpenAI Agents with a model object of our own.
import { Agent, MCPServerStdio, MCPServerStreamableHttp, Runner, Usage } from "@openai/agents";
import { options, Script, textOf } from "./script.mjs";

const o = options();
const script = new Script("openai-agents", o);

const model = {
  async getResponse({ input }) {
    const items = typeof input === "string" ? [] : input;
    const seen = items.filter((i) => i.type === "function_call_result").map((i) => textOf(i.output));
    const step = script.next(seen);
    const output = step.call
      ? [{ type: "function_call", callId: step.call.id, name: step.call.name, arguments: JSON.stringify(step.call.input), status: "completed" }]
      : [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: step.final }] }];
    return { usage: new Usage(), output };
  },
  async *getStreamedResponse() {
    throw new Error("not streamed");
  },
};

const seconds = o.timeout / 1000;
const server = o.url
  ? new MCPServerStreamableHttp({ name: "tickets", url: o.url, clientSessionTimeoutSeconds: seconds, timeout: o.timeout })
  : new MCPServerStdio({ name: "tickets", command: o.command, args: o.args, env: process.env, clientSessionTimeoutSeconds: seconds, timeout: o.timeout });
await server.connect();
const agent = new Agent({ name: "opener", model, mcpServers: [server] });
const result = await new Runner({ tracingDisabled: true }).run(agent, "Open a ticket.", { maxTurns: o.calls + 2 });
script.print(result.finalOutput);
process.exit(0);
