// AI SDK 7 with its MCP client.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { options, Script, textOf } from "./script.mjs";

const o = options();
const script = new Script("ai-sdk", o);
const client = await createMCPClient({ transport: o.url ? { type: "http", url: o.url } : stdio() });

// stdio tells the script of calls that are on their way: over stdio this client
// takes no call back that it has given up, so an answer that came before the next
// call would count as read.
function stdio() {
  const transport = new Experimental_StdioMCPTransport({ command: o.command, args: o.args, env: process.env });
  const send = transport.send.bind(transport);
  script.tellsOfCalls = true;
  transport.send = async (message) => {
    await send(message);
    if (message.method === "tools/call") script.called();
  };
  return transport;
}

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const seen = prompt
      .filter((m) => m.role === "tool")
      .flatMap((m) => m.content)
      .map((part) => textOf(part.output.value));
    const step = script.next(seen);
    return step.call
      ? {
          content: [{ type: "tool-call", toolCallId: step.call.id, toolName: step.call.name, input: JSON.stringify(step.call.input) }],
          finishReason: { unified: "tool-calls" },
          usage,
          warnings: [],
        }
      : { content: [{ type: "text", text: step.final }], finishReason: { unified: "stop" }, usage, warnings: [] };
  },
});

const { text } = await generateText({
  model,
  tools: await client.tools(),
  prompt: "Open a ticket.",
  timeout: { toolMs: o.timeout },
  stopWhen: isStepCount(o.calls + 1),
});
await client.close();
script.print(text);
process.exit(0); // a server that never answers must not keep us
